package agentscope

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// content is the content of a Bash rule as upstream matches it: against the whole line,
// never against its commands.
type content struct {
	text   string         // for a prefix, without :*
	prefix bool           // matches text, with nothing or a blank and anything after it
	whole  *regexp.Regexp // if nil and not a prefix, text matches anywhere in the line
	bare   *regexp.Regexp // for a trailing star: the line without the text that it matches
}

const regexpSpecial = `.^$+?{}[]|()`

// compileContent compiles a content. Like upstream, it passes a backslash before
// anything but * and \ to the regular expression.
func compileContent(text string) content {
	if before, ok := strings.CutSuffix(text, ":*"); ok {
		return content{text: trimSpace(before), prefix: true}
	}
	if !hasStar(text) {
		return content{text: unescape(text)}
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == '*' || text[i+1] == '\\'):
			i++
			b.WriteString(regexp.QuoteMeta(text[i : i+1]))
		case c == '*':
			b.WriteString(".*")
		case strings.IndexByte(regexpSpecial, c) >= 0:
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	pattern := b.String()
	whole, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return content{text: strings.ReplaceAll(text, "*", "")}
	}
	out := content{text: text, whole: whole}
	if before, ok := strings.CutSuffix(pattern, ".*"); ok {
		out.bare, _ = regexp.Compile("^(?:" + strings.TrimRightFunc(before, pySpace) + ")$") // nil: never
	}
	return out
}

func (c content) match(line string) bool {
	switch {
	case c.prefix:
		rest, ok := strings.CutPrefix(line, c.text)
		return ok && (rest == "" || rest[0] == ' ')
	case c.whole != nil:
		return c.whole.MatchString(line) || c.bare != nil && c.bare.MatchString(line)
	default:
		return strings.Contains(line, c.text)
	}
}

func hasStar(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*':
			return true
		}
	}
	return false
}

func unescape(s string) string {
	const mark = "\x00"
	return strings.NewReplacer(mark, `\`).Replace(strings.ReplaceAll(strings.ReplaceAll(s, `\\`, mark), `\*`, "*"))
}

// matchName matches a whole text with a pattern as Python's fnmatch does: * is any
// text, including "/", ? is one character, [seq] and [!seq] are sets. A backslash and
// an unclosed [ stand for themselves.
func matchName(pattern, name string) bool {
	// After a mismatch, the last star takes one more character. This needs at most
	// len(pattern)*len(name) steps.
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

// matchOne matches one character with the beginning of a pattern, and returns the
// length of that beginning.
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

// closingBracket returns where the set at the beginning of a pattern ends; 0 if it is
// not closed. A ] at its beginning belongs to the set.
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

// maxMeet bounds the product of the lengths of two compared patterns.
const maxMeet = 1 << 20

// shellStar stands for a star of a shell, which matches no /.
const shellStar = '\x02'

// readGlob returns the pattern that a word of a shell is.
func readGlob(word string) string {
	if strings.ContainsAny(word, `[{\!@+(`) || strings.Contains(word, "**") {
		return widenGlob(word)
	}
	return strings.ReplaceAll(word, "*", string(shellStar))
}

// patternsMeet reports whether some text matches both a content and a glob. In the glob
// * is any text, shellStar any text without /, ? is one character, and other characters stand for
// themselves.
func patternsMeet(content, glob string) bool {
	if len(content)*len(glob) > maxMeet {
		return true // no author writes such patterns
	}
	// reached has the places in the content that texts matching the glob so far can reach.
	reached := map[int]bool{}
	addPlace(reached, content, 0)
	for _, r := range glob {
		next := map[int]bool{}
		for p := range reached {
			addReached(next, content, p, r)
		}
		if reached = next; len(reached) == 0 {
			return false
		}
	}
	return reached[len(content)]
}

// addPlace adds a place in a content, and those that the stars there reach with no text.
func addPlace(places map[int]bool, content string, p int) {
	places[p] = true
	for ; p < len(content) && content[p] == '*'; p++ {
		places[p+1] = true
	}
}

// addReached adds the places in a content that are reached from p by a text that one sign of a glob
// matches.
func addReached(places map[int]bool, content string, p int, sign rune) {
	switch {
	case sign == '*' || sign == shellStar: // any text: every later place of the content
		for ; p <= len(content); p++ {
			addPlace(places, content, p)
			if sign == shellStar && p < len(content) && content[p] == '/' && !strings.Contains(content, "[") {
				return
			}
		}
	case p == len(content): // nothing is left for the sign
	case content[p] == '*':
		addPlace(places, content, p)
	case sign == '?':
		addPlace(places, content, p+elementWidth(content[p:]))
	default:
		if width, ok := matchOne(content[p:], sign); ok {
			addPlace(places, content, p+width)
		}
	}
}

// elementWidth is the length of the character or set that a pattern begins with.
func elementWidth(pattern string) int {
	if pattern[0] == '[' {
		if end := closingBracket(pattern); end > 0 {
			return end + 1
		}
	}
	for i := range pattern {
		if i > 0 {
			return i
		}
	}
	return len(pattern)
}
