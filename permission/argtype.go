package permission

import (
	"strings"

	"cel.dev/cel-go/cel"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// argKind is how rules see a value that the schema describes.
type argKind uint8

const (
	kindDyn argKind = iota // anything: the schema does not say, or says several things
	kindString
	kindInt
	kindDouble
	kindBool
	kindList
	kindMap    // object without declared properties
	kindStruct // object with declared properties
)

// argType is a node of a schema, reduced to what typing, number conversion and
// cost estimates need. Nodes of recursive schemas form cycles.
type argType struct {
	kind     argKind
	name     string              // CEL type name of a struct
	fields   map[string]*argType // of a struct
	members  []argMember         // the fields in the order of their names
	required []string            // members of a struct that every input has
	location string              // of the schema it was made from
	elem     *argType            // of a list, and of the undeclared members of a map
	maxLen   int                 // characters of a string, elements of a list, members of a map; -1: not limited
	usual    int                 // size at which the cost of a rule is judged at load; 0: typicalSize
	converts bool                // some number below may need converting
}

// argMember is one of the fields of a struct.
type argMember struct {
	name string
	is   *argType
}

// rootType reduces a schema of tool input. Input is always an object, so the
// root is one even where the schema does not say so.
func rootType(s *jsonschema.Schema) *argType {
	b := typeBuilder{seen: map[*jsonschema.Schema]*argType{}, names: map[string]bool{}}
	t := b.build(s, argsType)
	if t.kind != kindStruct && t.kind != kindMap {
		t = b.object(&argType{maxLen: -1}, deref(s), argsType)
	}
	return t
}

// typeBuilder remembers the nodes it has made, so that recursion ends, and the
// names it has given: "a.b" may be one member or two.
type typeBuilder struct {
	seen  map[*jsonschema.Schema]*argType
	names map[string]bool
}

// deref follows plain references. A reference with a type beside it is used as
// it stands: both must hold, and the type is enough for us.
func deref(s *jsonschema.Schema) *jsonschema.Schema {
	for range 32 {
		if s == nil || s.Ref == nil || s.Types != nil {
			return s
		}
		s = s.Ref
	}
	return nil
}

func (b *typeBuilder) build(s *jsonschema.Schema, name string) *argType {
	s = deref(s)
	if s == nil {
		return &argType{maxLen: -1}
	}
	if t := b.seen[s]; t != nil {
		return t
	}
	t := &argType{maxLen: -1, location: s.Location}
	b.seen[s] = t
	if s.Types == nil {
		return t
	}
	switch types := s.Types.ToStrings(); strings.Join(types, ",") {
	case "string":
		t.kind, t.maxLen = kindString, orUnlimited(s.MaxLength)
	case "integer":
		t.kind, t.converts = kindInt, true
	case "number", "number,integer":
		t.kind, t.converts = kindDouble, true
	case "boolean":
		t.kind = kindBool
	case "array":
		b.list(t, s, name)
	case "object":
		b.object(t, s, name)
	}
	return t
}

func (b *typeBuilder) list(t *argType, s *jsonschema.Schema, name string) {
	t.kind, t.maxLen, t.converts = kindList, orUnlimited(s.MaxItems), true
	elem := s.Items2020
	if single, ok := s.Items.(*jsonschema.Schema); ok {
		elem = single
	}
	if len(s.PrefixItems) > 0 {
		elem = nil // a tuple: its members differ
	}
	t.elem = b.build(elem, name+".item")
}

func (b *typeBuilder) object(t *argType, s *jsonschema.Schema, name string) *argType {
	t.converts = true
	if s == nil || len(s.Properties) == 0 {
		t.kind = kindMap
		if s != nil {
			t.maxLen = orUnlimited(s.MaxProperties)
			t.elem = b.build(additional(s), name+".value")
		} else {
			t.elem = &argType{maxLen: -1}
		}
		return t
	}
	for b.names[name] {
		name += "_"
	}
	b.names[name] = true
	t.kind, t.name, t.fields = kindStruct, name, make(map[string]*argType, len(s.Properties))
	t.required = s.Required
	for _, field := range sortedKeys(s.Properties) {
		sub := b.build(s.Properties[field], name+"."+field)
		t.fields[field] = sub
		t.members = append(t.members, argMember{field, sub})
	}
	return t
}

// additional is the schema of undeclared members, nil where there is none or
// where patterns make it differ from member to member.
func additional(s *jsonschema.Schema) *jsonschema.Schema {
	if len(s.PatternProperties) > 0 {
		return nil
	}
	sub, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return sub
}

func orUnlimited(n *int) int {
	if n == nil || *n < 0 {
		return -1
	}
	return *n
}

// celType is the type under which rules see the value.
func (t *argType) celType() *cel.Type {
	switch t.kind {
	case kindString:
		return cel.StringType
	case kindInt:
		return cel.IntType
	case kindDouble:
		return cel.DoubleType
	case kindBool:
		return cel.BoolType
	case kindList:
		return cel.ListType(t.elem.celElem())
	case kindMap:
		return cel.MapType(cel.StringType, t.elem.celElem())
	case kindStruct:
		return cel.ObjectType(t.name)
	default:
		return cel.DynType
	}
}

// celElem is celType for the inside of a list or map. Lists of lists that
// contain themselves have no CEL type; they are dyn from the second level on.
func (t *argType) celElem() *cel.Type {
	if t.kind == kindList || t.kind == kindMap {
		if inner := t.elem.kind; inner == kindList || inner == kindMap {
			return cel.DynType
		}
	}
	return t.celType()
}

// structs collects all struct types reachable from t by their CEL names.
func (t *argType) structs(into map[string]*argType) {
	switch t.kind {
	case kindStruct:
		if into[t.name] != nil {
			return
		}
		into[t.name] = t
		for _, f := range t.fields {
			f.structs(into)
		}
	case kindList, kindMap:
		if t.elem.kind != kindList && t.elem.kind != kindMap {
			t.elem.structs(into)
		} else if inner := t.elem.elem; inner.kind == kindStruct {
			inner.structs(into)
		}
	}
}
