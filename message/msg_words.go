package message

import "strings"

// word is a string type with a closed list of values. Its zero value is none
// of them.
type word interface {
	// Valid reports whether the value is on the list, spelled exactly so.
	Valid() bool
	// words is the list, separated by comma and space.
	words() string
}

func isWord(s, list string) bool {
	for w := range strings.SplitSeq(list, ", ") {
		if s == w {
			return true
		}
	}
	return false
}
