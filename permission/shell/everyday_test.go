package shell_test

import "testing"

// A deny rule for rm does not match lines that only contain the word, and no everyday line is so
// unclear that it needs approval; see testdata/README.md.
func TestEverydayUnderDeny(t *testing.T) {
	wants := map[string]int{}
	eachRow(t, "testdata/everyday.jsonl", func(_, line, want string) {
		wants[want]++
		if got := answer(t, "rm:*", line); (got == miss) != (want == "allowed") {
			t.Errorf("%q: %s, want: %s", line, got, want)
		}
	})
	if wants["allowed"] < 200 || wants["stopped"] < 100 || len(wants) != 2 {
		t.Errorf("rows: %v", wants)
	}
}
