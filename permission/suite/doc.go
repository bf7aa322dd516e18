// Package suite runs the tests of a policy, and
// measures what they exercise.
//
//	policy, err := permission.Parse(files...)
//	bundle, err := permission.Compile(policy, options)
//	report := suite.Run(ctx, policy, bundle)
//	fmt.Println(report.Failed, "of", len(report.Results), "failed")
//
// Each test is a call and the decision it must get. It is explained rather than
// only decided, so that a [Result] which fails says what was expected, what came
// and why: the rule that decided, and what kept the expected one from matching.
//
// A rule is covered when one test has a call that it is about, and that no
// earlier step has decided, and another one that it is not about. A part of a
// condition, as && joins them, is covered when it was true for one call and false
// for another; a part behind a false one is not evaluated.
//
// The clock of a test is the one it names: without now it is the zero time, so
// that no test passes today and fails tomorrow.
package suite
