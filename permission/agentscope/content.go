package agentscope

import (
	"regexp"
	"strings"
)

// content is the content of a Bash rule as upstream matches it: over the whole
// line, never over its commands.
type content struct {
	text   string         // of a prefix without its end
	prefix bool           // text, alone or with a blank and anything after it
	whole  *regexp.Regexp // nil: text stands anywhere in the line
	bare   *regexp.Regexp // of a trailing star: the line without what it stands for
}

const regexpSpecial = `.^$+?{}[]|()`

// compileContent reads a content. Upstream leaves a backslash before anything
// but * and \ to its regular expressions; so do we.
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

// hasStar reports whether a star stands for any text.
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
