// Package rulefile reads rule files: YAML with strict keys, where every value keeps its
// position. It also describes the keys, for editors and references.
package rulefile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
)

// MaxBytes is the largest accepted size of a rule file.
const MaxBytes = 1 << 20

// Read reads a rule file. It returns nil if the file is not a mapping.
func Read(name string, text []byte) (*File, []Fault) {
	// Some editors start a file with a byte order mark, and the YAML library miscounts lines that
	// end in CR LF.
	text = bytes.ReplaceAll(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	var found []Fault
	body, ok := parseYAML(text, &found)
	if !ok {
		return nil, found
	}
	d := &reader{file: newSourceFile(name, text), found: &found, places: map[string]fieldOrigin{}}
	doc := &File{At: d.originOf(body)}
	doc.Sound = d.decode(body, "", doc)
	return doc, found
}

func parseYAML(text []byte, found *[]Fault) (body ast.Node, ok bool) {
	fail := func(line, col int, msg, remedy string) bool {
		*found = append(*found, Fault{Line: line, Col: col, Msg: msg, Hint: remedy})
		return false
	}
	// The YAML library has panicked on odd input; a rule file must not be able to crash the engine.
	defer func() {
		if r := recover(); r != nil {
			body, ok = nil, fail(0, 0, fmt.Sprintf("cannot be read as YAML: %v", r), "check the quotes and the indentation")
		}
	}()
	switch {
	case len(text) > MaxBytes:
		return nil, fail(0, 0, "is longer than 1 MiB", "split it")
	case !utf8.Valid(text):
		line, col, remedy := notUTF8(text)
		return nil, fail(line, col, "is not UTF-8", remedy)
	}
	if at := bytes.IndexFunc(text, display.IsMisleading); at >= 0 {
		c, _ := utf8.DecodeRune(text[at:])
		line, col := positionOf(text, at)
		if c == '\r' {
			return nil, fail(line, col, "contains a carriage return, which hides text in terminals", "end lines with LF or CR LF")
		}
		return nil, fail(line, col, fmt.Sprintf("contains the character %U, which makes text look like something else", c),
			fmt.Sprintf(`write it as "\u%04X", in double quotes`, c))
	}
	tokens := lexer.Tokenize(string(text))
	if i := slices.IndexFunc(tokens, func(t *token.Token) bool { return t.Type == token.DirectiveType }); i >= 0 {
		line := tokens[i].Position.Line
		return nil, fail(line, 1, "contains a YAML directive", "remove the line "+display.Quoted(strings.TrimSpace(lineOf(text, line))))
	}
	if t, msg, remedy := badShape(tokens); t != nil {
		return nil, fail(t.Position.Line, t.Position.Column, msg, remedy)
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	var ye yaml.Error
	switch {
	case errors.As(err, &ye) && ye.GetToken() != nil && ye.GetToken().Position != nil:
		pos := ye.GetToken().Position
		return nil, fail(pos.Line, pos.Column, ye.GetMessage(), hint.Line(ye.GetMessage(), lineOf(text, pos.Line)))
	case err != nil:
		return nil, fail(0, 0, err.Error(), "check the quotes and the indentation")
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		return nil, fail(1, 1, "the file is empty", "it needs version, name and rules")
	case len(file.Docs) > 1:
		return nil, fail(secondDocument(file), 1, "contains more than one document", "use one file for each; a line --- starts another document")
	}
	return file.Docs[0].Body, true
}

// lineOf returns the text of a line, counted from 1.
func lineOf(data []byte, line int) string {
	lines := bytes.Split(data, []byte("\n"))
	if line < 1 || line > len(lines) {
		return ""
	}
	return string(lines[line-1])
}

func secondDocument(file *ast.File) int {
	if start := file.Docs[1].Start; start != nil && start.Position != nil {
		return start.Position.Line
	}
	return 1
}

// readNode implements nodeReader. It records the positions of the rule's keys and whether the rule
// is usable.
func (r *Rule) readNode(d *reader, n ast.Node, field string) {
	before := len(*d.found)
	outer := d.places
	d.ruleName, d.inRule, d.places = nameIn(n), true, map[string]fieldOrigin{}
	defer func() { d.ruleName, d.inRule, d.places = "", false, outer }()
	r.At = d.originOf(n)
	if _, ok := pairsOrNil(n); !ok {
		d.ruleName = ""
		d.addFault(n, field, "is "+nodeName(n)+", want keys and values", `begin each rule with "- name: "`)
		return
	}
	d.decode(n, "", r)
	r.readAlias(d, n, "tool", "tool_name", r.Tool != nil && r.ToolName != nil)
	r.readAlias(d, n, "match.agentscope", "rule_content", r.Match.AgentScope != nil && r.RuleContent != nil)
	r.Sound = len(*d.found) == before
}

// readAlias makes a key stand for another one, including in the positions of faults.
func (r *Rule) readAlias(d *reader, n ast.Node, key, means string, both bool) {
	if both {
		d.addFault(n, key, "is given together with "+means+", which means the same", "keep one of them")
	}
	if f, ok := d.places[key]; ok {
		d.places[means] = f
		r.At.aliases[means] = key
	}
}

func nameIn(n ast.Node) string {
	pairs, _ := pairsOrNil(n)
	for _, kv := range pairs {
		key, isText := kv.Key.(*ast.StringNode)
		name, ok := kv.Value.(*ast.StringNode)
		if isText && ok && key.Value == "name" {
			return name.Value
		}
	}
	return ""
}

func (t *Test) readNode(d *reader, n ast.Node, field string) {
	before := len(*d.found)
	if _, ok := pairsOrNil(n); !ok {
		d.addFault(n, field, "is "+nodeName(n)+", want keys and values", `begin each test with "- name: "`)
		return
	}
	outer := d.places
	d.places = map[string]fieldOrigin{}
	defer func() { d.places = outer }()
	t.At = d.originOf(n)
	d.decode(n, field, t)
	if t.Call.Args != nil && t.Call.Input != "" {
		d.addFault(n, field+".call", "has both args and input", "keep one of them")
	}
	t.Sound = len(*d.found) == before
}

// notUTF8 returns where a file stops being UTF-8, and guesses its encoding.
func notUTF8(data []byte) (line, col int, hint string) {
	hint = "save it as UTF-8"
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return 1, 1, "it looks like UTF-16: save it as UTF-8"
	}
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	line, col = positionOf(data, at)
	return line, col, hint
}

// positionOf returns the position of a byte: line and column from 1, in characters.
func positionOf(data []byte, at int) (line, col int) {
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	return bytes.Count(data[:start], []byte("\n")) + 1, utf8.RuneCount(data[start:at]) + 1
}

// maxYAMLDepth limits the nesting of lists and mappings in a rule file, as for a call's input,
// which tests contain. The parser recurses and takes time cubic in the depth, so deeper files must
// not reach it.
const maxYAMLDepth = 32

// maxYAMLKeys limits the keys of one mapping. The parser takes time quadratic in their number.
const maxYAMLKeys = 2000

// badShape returns the first token that the parser must not get: the lexer misread it, it is nested too
// deeply, or its mapping has too many keys. It returns nil if there is none. On odd files it may count a
// level too many, but never one too few: columns of keys and dashes determine block levels, brackets
// determine flow levels.
func badShape(tokens token.Tokens) (at *token.Token, msg, hint string) {
	var blocks []int // columns of the open block levels
	keys := map[int]int{}
	flow := 0
	for _, t := range tokens {
		if losesTab(t) {
			return t, "contains a tab in a value without quotes", "write a space, or put the value in quotes"
		}
		opener, key := t, true
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
			opener = nil
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
			opener = nil
		case token.MappingValueType: // the colon: its key opens the level
			if flow > 0 {
				continue // its brackets count already
			}
			if t.Prev != nil {
				opener = t.Prev
			}
		case token.MappingKeyType:
		case token.SequenceEntryType:
			key = false
		default:
			opener = nil
		}
		if opener != nil && opener.Position != nil {
			col := opener.Position.Column
			blocks = openBlock(blocks, col)
			if countKey(keys, col, key) > maxYAMLKeys {
				return t, "has too many keys in one mapping", "a mapping has at most 2000"
			}
		}
		if flow+len(blocks) > maxYAMLDepth {
			return t, "is nested too deeply", "rule files have at most 32 levels"
		}
	}
	return nil, "", ""
}

// losesTab reports whether the lexer dropped a tab from a value, as it does outside quotes and
// blocks.
func losesTab(t *token.Token) bool {
	if !strings.Contains(strings.TrimSpace(t.Origin), "\t") || t.Type == token.CommentType || t.Indicator == token.QuotedScalarIndicator {
		return false
	}
	for t = t.Prev; t != nil && t.Type == token.CommentType; {
		t = t.Prev
	}
	return t == nil || t.Indicator != token.BlockScalarIndicator
}

func openBlock(open []int, col int) []int {
	for len(open) > 0 && open[len(open)-1] >= col {
		open = open[:len(open)-1]
	}
	return append(open, col)
}

// countKey counts the keys of the mapping whose keys are in this column. A key or dash further to
// the left ends the mapping.
func countKey(keys map[int]int, col int, key bool) int {
	maps.DeleteFunc(keys, func(c, _ int) bool { return c > col })
	if key {
		keys[col]++
	}
	return keys[col]
}
