package rulefile

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Origin records the position of a rule and its fields in the file, so that a fault found long
// after parsing points at the right character. All methods work on nil, for rules made in Go.
type Origin struct {
	File      *sourceFile
	Line, Col int // of the rule
	fields    map[string]fieldOrigin
	aliases   map[string]string // how the file spells a key that has two names
}

// fieldOrigin is the position of a field's value. text is the decoded value; it is aligned with the
// source to find positions inside it.
type fieldOrigin struct {
	line, col int
	text      string
}

// sourceFile is a file's text as lines; columns count characters.
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

// FileName is the file name without its folders; "" if there is no file.
func (o *Origin) FileName() string {
	if o == nil {
		return ""
	}
	return o.File.Name
}

// Describe returns " (file:line)", for texts about another rule.
func (o *Origin) Describe() string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf(" (%s:%d)", o.File.Name, o.Line)
}

// Start returns the position of a field's value, or of the rule if the file does not have the
// field.
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

// KeyInFile returns the name that the file uses for a key.
func (o *Origin) KeyInFile(field string) string {
	if o != nil && o.aliases[field] != "" {
		return o.aliases[field]
	}
	return field
}

// Inside converts a position inside a field's text (from 1) to a position in the file. If the two
// cannot be aligned, it is the start of the value.
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

// align walks the value and its source together. Every YAML style keeps the characters that are not
// white space in order, some of them escaped. Skipping white space on both sides therefore keeps
// the two in step without knowing how each style folds lines.
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
			continue // the position of white space is that of what follows it
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

// rune returns the character at the cursor: '\n' at a line end, 0 at the end of the file.
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

// skipSpace skips white space and, in double quotes, escapes that stand for white space or for
// nothing.
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
		c.advance() // a quote is doubled
	}
	c.advance()
	return r, true
}

// escape reads an escape in a double-quoted text, starting at its backslash. An escaped line end
// stands for nothing and is read as a newline.
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
