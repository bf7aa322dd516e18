// Package executortest tests what runs tools.
//
// [Run] is the conformance suite: what a Handler may rely on wherever it runs.
// [Local] and [Remote] are the two ways this module has, a Registry and a
// Worker; a test of another transport passes its own [New]:
//
//	func TestHandlersOverNATS(t *testing.T) { executortest.Run(t, newOverNATS) }
//
// [Engine] is the engine's side of the worker protocol in memory, with faults
// on demand (requests lost, replies lost, no engine), for testing a Worker
// or a tool of one's own without a network. It hands a task out as often as
// it is offered, and never again unless asked.
//
// Nothing here is meant for programs other than tests.
package executortest
