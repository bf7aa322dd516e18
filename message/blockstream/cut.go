package blockstream

import "unicode/utf8"

// MaxContent is how many characters (Unicode code points) of a tool's output a
// frame holds. The whole output stays where it is; see [ToolResult.Artifact].
const MaxContent = 500

// Cut gives the first MaxContent characters of s and reports whether that is
// not all of it. A character is never split; nothing marks the cut in the text
// itself.
func Cut(s string) (string, bool) {
	if len(s) <= MaxContent {
		return s, false
	}
	n := 0
	for i := range s {
		if n == MaxContent {
			return s[:i], true
		}
		n++
	}
	return s, false
}

// characters counts as Cut does.
func characters(s string) int { return utf8.RuneCountInString(s) }
