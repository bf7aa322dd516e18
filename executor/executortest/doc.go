// Package executortest tests implementations that run tools.
//
// [Run] is the conformance suite: it tests what a Handler can rely on wherever it runs.
// [Local] and [Remote] are the two implementations in this module, a Registry and a
// Worker; a test of another transport passes its own [New]:
//
//	func TestHandlersOverNATS(t *testing.T) { executortest.Run(t, newOverNATS) }
//
// [Engine] is the engine's side of the worker protocol in memory, with faults
// on demand (requests lost, replies lost, no engine), to test a Worker
// or your own tool without a network. It delivers a task exactly as often as
// the test offers it.
//
// This package is only for tests.
package executortest
