package agentscope

import "strings"

// Bounds of what is parsed. A parser goes down with everything that may open
// something, and a stack that overflows ends the process; beyond the bounds a
// line counts as one that cannot be analysed.
const (
	maxText      = 64 << 10
	maxDepth     = 200  // of brackets that open one another, and of backquotes
	maxOperators = 4000 // that join or end commands
	maxReserved  = 500  // words that may begin a compound command
	maxUnary     = 2000 // signs that follow one another
)

var reserved = []string{"if", "elif", "while", "until", "for", "case", "select", "time", "coproc", "function", "()"}

// isShallow reports whether a text is within the bounds, quoted parts
// included.
func isShallow(text string) bool {
	if len(text) > maxText || strings.Count(text, "`") > maxDepth {
		return false
	}
	depth, operators, unary := 0, 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth = max(depth-1, 0)
		case '|', '&', ';', '\n':
			operators++
		}
		if strings.IndexByte("-+~! \t", text[i]) >= 0 {
			unary++
		} else {
			unary = 0
		}
		if depth > maxDepth || operators > maxOperators || unary > maxUnary {
			return false
		}
	}
	words := 0
	for _, w := range reserved {
		words += strings.Count(text, w)
	}
	return words <= maxReserved
}
