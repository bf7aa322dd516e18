package rulefile

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Origin remembers where a rule stands in its file, field by field, so that a
// fault found long after parsing points at the right character. All methods
// work on nil, for rules made in Go.
type Origin struct {
	File      *sourceFile
	Line, Col int // of the rule
	fields    map[string]fieldOrigin
	aliases   map[string]string // how a key is written in the file, where it has two names
}

// fieldOrigin is the place of a field's value. text is the decoded value; it
// is aligned with the source to find places inside it.
type fieldOrigin struct {
	line, col int
	text      string
}

// sourceFile is a file's text by lines; columns count characters.
type sourceFile struct {
	Name  string
	lines [][]rune
}

func newSourceFile(name string, text []byte) *sourceFile {
	s := &sourceFile{Name: name}
	for line := range strings.SplitSeq(string(text), "\n") {
		s.lines = append(s.lines, []rune(line))
	}
	return s
}

// FileName is the file without its folders; "" where there is none.
func (o *Origin) FileName() string {
	if o == nil {
		return ""
	}
	return o.File.Name
}

// Describe is " (file:line)", for texts about another rule.
func (o *Origin) Describe() string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf(" (%s:%d)", o.File.Name, o.Line)
}

// Start is the place of a field's value, or of the rule where the field is
// not written out.
func (o *Origin) Start(field string) (line, col int) {
	if o == nil {
		return 0, 0
	}
	for field != "" {
		if f, ok := o.fields[field]; ok {
			return f.line, f.col
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return o.Line, o.Col
}

// Has reports whether the file has a value for the key.
func (o *Origin) Has(field string) bool {
	if o == nil {
		return false
	}
	_, ok := o.fields[field]
	return ok
}

// KeyInFile is the name under which the file has a key.
func (o *Origin) KeyInFile(field string) string {
	if o != nil && o.aliases[field] != "" {
		return o.aliases[field]
	}
	return field
}

// Inside is the place in the file of a place inside a field's text (both from
// 1). Where the two cannot be aligned it is the start of the value.
func (o *Origin) Inside(field string, line, col int) (int, int) {
	if o == nil {
		return line, col
	}
	f, ok := o.fields[field]
	if !ok || line < 1 || col < 1 {
		return o.Start(field)
	}
	if l, c, ok := o.File.align(f, line, col); ok {
		return l, c
	}
	return f.line, f.col
}

// align walks the value and its source together. Every YAML style keeps the
// characters that are not white space in their order, some of them escaped, so
// stepping over white space on both sides keeps the two in step: no need to
// know how each style folds lines.
func (s *sourceFile) align(f fieldOrigin, line, col int) (int, int, bool) {
	cur := cursor{file: s, line: f.line, col: f.col}
	style := cur.rune()
	switch style {
	case '|', '>':
		cur.line, cur.col = cur.line+1, 1
	case '"', '\'':
		cur.col++
	default:
		style = 0
	}
	l, c := 1, 1
	for _, want := range f.text {
		due := l > line || (l == line && c >= col)
		if want == '\n' {
			l, c = l+1, 1
		} else {
			c++
		}
		if unicode.IsSpace(want) {
			continue // the place of white space is that of what follows
		}
		cur.skipSpace(style)
		if due {
			return cur.line, cur.col, !cur.atEnd()
		}
		if got, ok := cur.next(style); !ok || got != want {
			return 0, 0, false
		}
	}
	return cur.line, cur.col, true // the end of the text
}

type cursor struct {
	file      *sourceFile
	line, col int
}

func (c *cursor) atEnd() bool { return c.line > len(c.file.lines) }

// rune is the character at the cursor, '\n' at a line's end, 0 behind the file.
func (c *cursor) rune() rune {
	if c.line < 1 || c.atEnd() {
		return 0
	}
	if text := c.file.lines[c.line-1]; c.col <= len(text) {
		return text[c.col-1]
	}
	return '\n'
}

func (c *cursor) advance() {
	if c.rune() == '\n' {
		c.line, c.col = c.line+1, 1
	} else {
		c.col++
	}
}

// skipSpace passes white space and, in double quotes, escapes that stand for
// white space or for nothing.
func (c *cursor) skipSpace(style rune) {
	for !c.atEnd() {
		if unicode.IsSpace(c.rune()) {
			c.advance()
			continue
		}
		if style != '"' || c.rune() != '\\' {
			return
		}
		ahead := *c
		if r, ok := ahead.escape(); !ok || !unicode.IsSpace(r) {
			return
		}
		*c = ahead
	}
}

func (c *cursor) next(style rune) (rune, bool) {
	if c.atEnd() {
		return 0, false
	}
	r := c.rune()
	switch {
	case style == '"' && r == '\\':
		return c.escape()
	case style == '\'' && r == '\'':
		c.advance() // a quote is written twice
	}
	c.advance()
	return r, true
}

// escape reads an escape of a double-quoted text, from its backslash on. An
// escaped line end stands for nothing and reads as a newline.
func (c *cursor) escape() (rune, bool) {
	c.advance()
	r := c.rune()
	c.advance()
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[r]
	if digits == 0 {
		if plain, ok := yamlEscapes[r]; ok {
			return plain, true
		}
		return r, r == '"' || r == '\\' || r == '/' || unicode.IsSpace(r)
	}
	var hex strings.Builder
	for range digits {
		hex.WriteRune(c.rune())
		c.advance()
	}
	v, err := strconv.ParseUint(hex.String(), 16, 32)
	return rune(v), err == nil
}

var yamlEscapes = map[rune]rune{
	'0': 0, 'a': '\a', 'b': '\b', 't': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r',
	'e': '\x1b', 'N': '\u0085', '_': '\u00a0', 'L': '\u2028', 'P': '\u2029',
}
