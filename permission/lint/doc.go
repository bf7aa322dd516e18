// Package lint finds what is wrong with a policy although it loads: rules that
// can never apply, that allow more than they read, or whose approval request no person can
// answer.
//
//	report := lint.Run(files, lint.Options{Options: permission.Options{Tools: tools}})
//	for _, f := range report.Findings {
//		fmt.Println(f)
//	}
//
// Each kind of finding has a code, L01 to L20, that never changes its meaning;
// [Codes] describes them all. An [Error] is something that no policy in force
// should have, a [Warning] may be meant so. A rule with i_know: true is spared
// what its author has to know (L04 and L14).
//
// The findings are the same for the same input, and sorted by place. Lint looks
// at nothing but what it is given: what it is not told, such as the tools or the
// members of groups, it does not judge. It proves nothing: a policy without
// findings can still say something else than was meant, which is what the tests
// of a policy are for.
package lint
