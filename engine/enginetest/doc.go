// Package enginetest holds every engine.Journal, and every engine on it, to one
// behaviour.
//
// [Run] is the conformance suite. The engine's own tests run it on
// engine.NewMemory; a test of another journal runs the same suite on it:
//
//	func TestConformance(t *testing.T) {
//		enginetest.Run(t, func(t testing.TB) engine.Journal { return open(t) })
//	}
//
// The function that is passed makes an empty journal. A journal with a method
// Space() message.SpaceID says itself which space it is for, else it is for
// [Space]. Several engines share one journal in many of the tests.
//
// When a test is over, and whatever it did, the suite audits the whole
// journal: every call's history must be one that the state machine could have
// written, and every effect that took place must have been allowed by a fact
// that was durable before it, with the very input that was decided, once.
//
// The suite runs on the real clock, in a few seconds; what is about time to
// the second is tested in package engine on fake time. Nothing here is meant
// for programs other than tests.
package enginetest
