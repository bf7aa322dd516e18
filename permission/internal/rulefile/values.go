package rulefile

import (
	"math"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
)

// Types of keys that read their values themselves.

// versionDoc is the version of the format.
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

// termsDoc are terms by their names.
type terms []Term

// Term is one term.
type Term struct {
	Name, Expr string
	At         *Origin
}

func (t *terms) readNode(d *reader, n ast.Node, field string) {
	m, ok := d.mapping(n, field, nil)
	if !ok {
		return
	}
	for _, name := range mapOrder(n) {
		at := joinField(field, name)
		if s, ok := d.text(m[name], at); ok {
			line, col := placeOf(m[name])
			o := &Origin{File: d.file, Line: line, Col: col, fields: map[string]fieldOrigin{}}
			o.fields["expr"] = fieldOrigin{line: line, col: col, text: s}
			*t = append(*t, Term{Name: name, Expr: s, At: o})
		}
	}
}

// mapOrder lists the keys of a mapping in the order of the file.
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

// timeDoc is an instant.
type instant struct{ time.Time }

func (t *instant) readNode(d *reader, n ast.Node, field string) {
	s, ok := d.text(n, field)
	if !ok {
		return
	}
	var err error
	if t.Time, err = time.Parse(time.RFC3339, s); err != nil {
		d.addFault(n, field, display.Quoted(s)+" is no time", "write for example 2026-11-21T09:00:00Z")
	}
}

// jsonObject is an object as JSON text.
type jsonObject []byte

func (j *jsonObject) readNode(d *reader, n ast.Node, field string) {
	v, ok := d.value(n, field)
	if !ok {
		return
	}
	if _, ok := v.(map[string]any); !ok {
		d.addFault(n, field, "is "+nodeName(n)+", want keys and values", hint.Shape(field))
		return
	}
	text, err := strictjson.Marshal(v)
	if err != nil {
		d.addFault(n, field, "cannot be written as JSON: "+err.Error(), "")
		return
	}
	*j = text
}

// value is a YAML value as JSON knows it. Integers keep their digits.
func (d *reader) value(n ast.Node, field string) (any, bool) {
	switch v := n.(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.BoolNode:
		return v.Value, true
	case *ast.IntegerNode:
		if !isPlainNumber(v) {
			d.addFault(n, field, "is "+v.GetToken().Value+", which not all programs read alike", "write it with the digits 0 to 9 and no leading 0")
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
			d.addFault(n, field, "is "+t.Value+", which not all programs read alike", "write the number out, or put it in quotes if it is a text")
			return nil, false
		}
		if t.Type == token.StringType && decimal.MatchString(t.Value) {
			d.addFault(n, field, "is a number of more than 64 bits", "put it in quotes if it is a text, or give the arguments as JSON text: input")
			return nil, false
		}
		return d.text(n, field)
	case *ast.SequenceNode:
		return d.values(v, field)
	case *ast.MappingNode, *ast.MappingValueNode:
		m, ok := d.mapping(n, field, nil)
		out := make(map[string]any, len(m))
		for name, sub := range m {
			sv, fine := d.value(sub, joinField(field, name))
			out[name], ok = sv, ok && fine
		}
		return out, ok
	}
	d.addFault(n, field, "is "+nodeName(n)+", which JSON does not have", "")
	return nil, false
}

func (d *reader) values(n *ast.SequenceNode, field string) (any, bool) {
	out, ok := make([]any, len(n.Values)), true
	for i, item := range n.Values {
		v, fine := d.value(item, field+"["+strconv.Itoa(i)+"]")
		out[i], ok = v, ok && fine
	}
	return out, ok
}
