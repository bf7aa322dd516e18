package rulefile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/askance-dev/askance/toolcall"
)

// Fault is one fault in a rule file.
type Fault struct {
	Line, Col   int // from 1, in characters; 0 for the whole file
	Rule, Field string
	UnknownKey  bool
	Msg, Hint   string
}

// reader decodes YAML nodes strictly and reports what is invalid.
type reader struct {
	file     *sourceFile
	found    *[]Fault
	ruleName string                 // the rule being read, for faults
	inRule   bool                   // a rule is being read
	places   map[string]fieldOrigin // positions of its keys; nil outside rules and tests
}

func (d *reader) addFault(n ast.Node, field, msg, remedy string) {
	line, col := placeOf(n)
	*d.found = append(*d.found, Fault{Line: line, Col: col, Rule: d.ruleName, Field: field, Msg: msg, Hint: remedy})
}

// placeOf returns where a node starts: a mapping at its first key, not at the colon.
func placeOf(n ast.Node) (line, col int) {
	switch v := n.(type) {
	case *ast.MappingNode:
		if len(v.Values) > 0 && !v.IsFlowStyle {
			return placeOf(v.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return placeOf(v.Key)
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0, 0
	}
	pos := n.GetToken().Position
	return pos.Line, pos.Column
}

// pairsOrNil returns the pairs of a mapping; false if the node is something else.
func pairsOrNil(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch v := n.(type) {
	case *ast.MappingNode:
		return v.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{v}, true
	default:
		return nil, false
	}
}

// readMapping returns the values of a mapping by key. Keys must be in known; a nil known accepts
// every key.
func (d *reader) readMapping(n ast.Node, field string, known []string) (map[string]ast.Node, bool) {
	pairs, ok := pairsOrNil(n)
	if !ok {
		d.addFault(n, field, "is "+nodeName(n)+", want keys and values", hint.Keys(known))
		return nil, false
	}
	out := make(map[string]ast.Node, len(pairs))
	for _, kv := range pairs {
		key, ok := kv.Key.(*ast.StringNode)
		if !ok {
			d.addFault(kv.Key, field, "a key must be plain text", "rule files do not use merge keys, anchors and other YAML features")
			return nil, false
		}
		name := key.Value
		if out[name] != nil {
			d.addFault(key, joinField(field, name), "is given twice", "remove one of them")
			return nil, false
		}
		out[name] = kv.Value
		if known == nil || slices.Contains(known, name) {
			continue
		}
		line, col := placeOf(key)
		*d.found = append(*d.found, Fault{Line: line, Col: col, Rule: d.ruleName, Field: joinField(field, name), UnknownKey: true,
			Msg: "unknown key", Hint: hint.Key(name, d.pathOf(field), known, keyPaths())})
	}
	return out, true
}

func (d *reader) readList(n ast.Node, field string) ([]ast.Node, bool) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.addFault(n, field, "is "+nodeName(n)+", want a list", `begin each element with "- "`)
		return nil, false
	}
	return seq.Values, true
}

// readText returns a text. Numbers, booleans and null are not text: other parsers read 0x10 and no
// differently.
func (d *reader) readText(n ast.Node, field string) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	default:
		d.addFault(n, field, "is "+nodeName(n)+", want text", hint.Text(nodeName(n), field))
		return "", false
	}
}

// readTexts returns a list of texts; a single text is a list of one.
func (d *reader) readTexts(n ast.Node, field string) []string {
	if _, ok := n.(*ast.SequenceNode); !ok {
		s, ok := d.readText(n, field)
		if !ok {
			return nil
		}
		return []string{s}
	}
	items, _ := d.readList(n, field)
	out := make([]string, 0, len(items))
	for i, item := range items {
		d.notePlace(fmt.Sprintf("%s[%d]", field, i), item)
		if s, ok := d.readText(item, field); ok {
			out = append(out, s)
		}
	}
	return out
}

func (d *reader) readBool(n ast.Node, field string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		d.addFault(n, field, "is "+nodeName(n)+", want true or false", "write one of them, without quotes")
		return false
	}
	return b.Value
}

// pathOf returns the path of a field from the top of the file; fields of rules are named relative
// to the rule.
func (d *reader) pathOf(field string) string {
	switch {
	case !d.inRule:
		return field
	case field == "":
		return "rules[]"
	default:
		return "rules[]." + field
	}
}

func (d *reader) originOf(n ast.Node) *Origin {
	line, col := placeOf(n)
	return &Origin{File: d.file, Line: line, Col: col, fields: d.places, aliases: map[string]string{}}
}

func nodeName(n ast.Node) string {
	switch n.(type) {
	case *ast.NullNode, nil:
		return "empty"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return "an anchor, alias or tag, which rule files do not use"
	default:
		return fmt.Sprintf("something unexpected (%s)", n.Type())
	}
}

func joinField(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// Types of keys that decode themselves.

type version int

func (v *version) readNode(d *reader, n ast.Node, field string) {
	if i, ok := n.(*ast.IntegerNode); !ok || i.GetToken().Value != "1" {
		hint := "this program reads version 1"
		if _, text := n.(*ast.StringNode); text {
			hint = "write version: 1, without quotes"
		}
		d.addFault(n, field, "is not 1", hint)
		return
	}
	*v = 1
}

// amount is a decimal number as written.
type amount string

func (a *amount) readNode(d *reader, n ast.Node, field string) {
	text := ""
	switch v := n.(type) {
	case *ast.StringNode:
		text = v.Value
	case *ast.IntegerNode, *ast.FloatNode:
		text = v.GetToken().Value
	}
	if err := toolcall.CheckAmount(text); err != nil {
		d.addFault(n, field, "is "+nodeName(n)+" "+display.Quoted(n.GetToken().Value)+", want a decimal number of at least 0, without exponent", "write a number such as 500 or 99.95")
		return
	}
	*a = amount(text)
}

type terms []Term

// Term is one term.
type Term struct {
	Name, Expr string
	At         *Origin
}

func (t *terms) readNode(d *reader, n ast.Node, field string) {
	m, ok := d.readMapping(n, field, nil)
	if !ok {
		return
	}
	for _, name := range mapOrder(n) {
		at := joinField(field, name)
		if s, ok := d.readText(m[name], at); ok {
			line, col := placeOf(m[name])
			o := &Origin{File: d.file, Line: line, Col: col, fields: map[string]fieldOrigin{}}
			o.fields["expr"] = fieldOrigin{line: line, col: col, text: s}
			*t = append(*t, Term{Name: name, Expr: s, At: o})
		}
	}
}

func mapOrder(n ast.Node) []string {
	var out []string
	pairs, _ := pairsOrNil(n)
	for _, kv := range pairs {
		if key, ok := kv.Key.(*ast.StringNode); ok {
			out = append(out, key.Value)
		}
	}
	return out
}

type instant struct{ time.Time }

func (i *instant) readNode(d *reader, n ast.Node, field string) {
	s, ok := d.readText(n, field)
	if !ok {
		return
	}
	var err error
	if i.Time, err = time.Parse(time.RFC3339, s); err != nil {
		d.addFault(n, field, display.Quoted(s)+" is not a time", "write a time such as 2026-11-21T09:00:00Z")
	}
}

type jsonObject []byte

func (j *jsonObject) readNode(d *reader, n ast.Node, field string) {
	v, ok := d.readValue(n, field)
	if !ok {
		return
	}
	if _, ok := v.(map[string]any); !ok {
		d.addFault(n, field, "is "+nodeName(n)+", want keys and values", "")
		return
	}
	text, err := strictjson.Marshal(v)
	if err != nil {
		d.addFault(n, field, "cannot be written as JSON: "+err.Error(), "use the key input, with the arguments as JSON text")
		return
	}
	*j = text
}

// readValue converts a YAML value to a JSON value. Integers keep their digits.
func (d *reader) readValue(n ast.Node, field string) (any, bool) {
	switch v := n.(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.BoolNode:
		return v.Value, true
	case *ast.IntegerNode:
		if !isPlainNumber(v) {
			d.addFault(n, field, "is "+v.GetToken().Value+", which programs read in different ways", "write it with the digits 0 to 9 and no leading 0")
			return nil, false
		}
		return v.Value, true
	case *ast.FloatNode:
		if math.IsInf(v.Value, 0) || math.IsNaN(v.Value) {
			break
		}
		return v.Value, true
	case *ast.StringNode, *ast.LiteralNode:
		t := n.GetToken()
		if t.Type == token.StringType && exponent.MatchString(t.Value) {
			d.addFault(n, field, "is "+t.Value+", which programs read in different ways", "write the number out, or put it in quotes if it is a text")
			return nil, false
		}
		if t.Type == token.StringType && decimal.MatchString(t.Value) {
			d.addFault(n, field, "is a number of more than 64 bits", "put it in quotes if it is a text, or use the key input, with the arguments as JSON text")
			return nil, false
		}
		return d.readText(n, field)
	case *ast.SequenceNode:
		return d.readValues(v, field)
	case *ast.MappingNode, *ast.MappingValueNode:
		m, ok := d.readMapping(n, field, nil)
		out := make(map[string]any, len(m))
		for name, sub := range m {
			sv, fine := d.readValue(sub, joinField(field, name))
			out[name], ok = sv, ok && fine
		}
		return out, ok
	}
	d.addFault(n, field, "is "+nodeName(n)+", which JSON does not have", "write the value out, or put it in quotes")
	return nil, false
}

func (d *reader) readValues(n *ast.SequenceNode, field string) (any, bool) {
	out, ok := make([]any, len(n.Values)), true
	for i, item := range n.Values {
		v, fine := d.readValue(item, field+"["+strconv.Itoa(i)+"]")
		out[i], ok = v, ok && fine
	}
	return out, ok
}
