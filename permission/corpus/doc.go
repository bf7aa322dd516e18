// Package corpus holds a policy against many calls at once: those that a journal
// or a file has recorded, or those of the tests of a policy.
//
//	calls, err := corpus.Read(file)                       // or FromJournal, FromTests
//	report := corpus.Replay(ctx, calls, candidate)        // against what was recorded
//	report = corpus.Diff(ctx, calls, present, candidate)  // of two policies
//	fmt.Println(len(report.Changes), "of", report.Calls, "verdicts change")
//
// A verdict changes when its behavior does. Another rule with the same behavior
// is counted, and is no change.
//
// # What a replay cannot know
//
// A journal keeps the call, who made it and what was decided, but neither the
// working directory nor the mode nor the symbolic links of that day; they are
// what the caller of Replay says they are. Policies that ask for more than the
// corpus has can fail, closed, where the engine did not.
package corpus
