package agentscope

import "unicode/utf8"

// matchName matches a whole text with a pattern as Python's fnmatch does: * is
// any text and crosses "/", ? is one character, [seq] and [!seq] are sets. A
// backslash and an unclosed [ are themselves.
func matchName(pattern, name string) bool {
	// The classic walk with one place to return to: the last star. It never
	// takes more than len(pattern)*len(name) steps.
	starPattern, starName := -1, 0
	p, n := 0, 0
	for n < len(name) {
		r, size := utf8.DecodeRuneInString(name[n:])
		if p < len(pattern) && pattern[p] == '*' {
			starPattern, starName = p, n
			p++
			continue
		}
		if width, ok := matchOne(pattern[p:], r); ok {
			p, n = p+width, n+size
			continue
		}
		if starPattern < 0 {
			return false
		}
		_, skip := utf8.DecodeRuneInString(name[starName:])
		starName += skip
		p, n = starPattern+1, starName
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one character with the beginning of a pattern, and tells how
// long that is.
func matchOne(pattern string, r rune) (int, bool) {
	if pattern == "" {
		return 0, false
	}
	c, size := utf8.DecodeRuneInString(pattern)
	switch c {
	case '?':
		return size, true
	case '[':
		if end := closingBracket(pattern); end > 0 {
			return end + 1, inSet(pattern[1:end], r)
		}
	}
	return size, c == r
}

// closingBracket is where the set that a pattern begins with ends; 0: it is not
// closed. A ] right at the beginning belongs to the set.
func closingBracket(pattern string) int {
	i := 1
	if i < len(pattern) && pattern[i] == '!' {
		i++
	}
	if i < len(pattern) && pattern[i] == ']' {
		i++
	}
	for ; i < len(pattern); i++ {
		if pattern[i] == ']' {
			return i
		}
	}
	return 0
}

func inSet(set string, r rune) bool {
	negated := false
	if set != "" && set[0] == '!' {
		negated, set = true, set[1:]
	}
	chars := []rune(set)
	for i := 0; i < len(chars); i++ {
		low, high := chars[i], chars[i]
		if i+2 < len(chars) && chars[i+1] == '-' {
			high = chars[i+2]
			i += 2
		}
		if low <= r && r <= high {
			return !negated
		}
	}
	return negated
}
