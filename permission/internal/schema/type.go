package schema

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/askance-dev/askance/message/redact"
)

// Kind is how rules see a value described by the schema.
type Kind uint8

// The kinds.
const (
	KindDyn Kind = iota // anything: the schema does not say, or allows several kinds
	KindString
	KindInt
	KindDouble
	KindBool
	KindList
	KindMap    // object without declared properties
	KindStruct // object with declared properties
)

// Type is a node of a schema, reduced to what typing, number conversion and cost estimates need.
// The nodes of recursive schemas form cycles.
type Type struct {
	Kind     Kind
	Name     string           // CEL type name of a struct
	Fields   map[string]*Type // of a struct
	members  []member         // the fields in the order of their names
	Required []string         // required members of a struct
	Location string           // location of the source schema
	Elem     *Type            // of a list, and of the undeclared members of a map
	MaxLen   int              // characters of a string, elements of a list, members of a map; -1: no limit
	Usual    int              // assumed size for estimating a rule's cost at load time; 0: unknown
	converts bool             // some number below may need converting

	// Used only by fit.
	minLen int
	enum   []string // nil: none
	closed bool     // no undeclared members
	kinds  uint     // bit set of the kinds of a value that can have several; 0: any
}

type member struct {
	name string
	is   *Type
}

// RootName is the type name of a whole input.
const RootName = "askance.Args"

// rootType reduces a schema of tool input. Input is always an object, so the root is one even if
// the schema does not say so. plain says that the type has everything that the schema demands.
func rootType(s *jsonschema.Schema) (t *Type, plain bool) {
	b := typeBuilder{seen: map[*jsonschema.Schema]*Type{}, names: map[string]bool{}}
	t = b.build(s, RootName)
	if t.Kind != KindStruct && t.Kind != KindMap {
		t = b.object(&Type{MaxLen: -1}, b.followReference(s), RootName)
	}
	return t, !b.odd
}

// typeBuilder remembers its nodes, so that recursion ends, and the names it has assigned: "a.b" may
// be one member or two.
type typeBuilder struct {
	seen  map[*jsonschema.Schema]*Type
	names map[string]bool
	odd   bool // some schema demands more than its type has
}

// followReference follows plain references. A reference with a type next to it is used unchanged:
// both must hold, and the type is enough here.
func (b *typeBuilder) followReference(s *jsonschema.Schema) *jsonschema.Schema {
	for range 32 {
		if s == nil {
			return nil
		}
		b.odd = b.odd || !hasOnly(s, plainKeys) || s.Ref != nil && !hasOnly(s, annotationFields)
		if s.Ref == nil || s.Types != nil {
			return s
		}
		s = s.Ref
	}
	b.odd = true
	return nil
}

// annotationFields are the fields of the library's schema that demand nothing, and the reference;
// plainKeys adds those that a Type can also have. Any other field that is set, even in a future
// version, makes a schema odd.
var (
	annotationFields = []string{"DraftVersion", "Location", "ID", "Anchor", "Title", "Description", "Default",
		"Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated", "Ref"}
	plainKeys = append([]string{"Types", "Properties", "Required", "AdditionalProperties", "Items", "Items2020",
		"MinLength", "MaxLength", "MinItems", "MaxItems", "Enum"}, annotationFields...)
)

func hasOnly(s *jsonschema.Schema, fields []string) bool {
	for f, v := range reflect.ValueOf(s).Elem().Fields() {
		if f.IsExported() && !v.IsZero() && !slices.Contains(fields, f.Name) {
			return false
		}
	}
	return true
}

var kindNames = map[string]Kind{"string": KindString, "integer": KindInt, "number": KindDouble, "boolean": KindBool, "array": KindList, "object": KindMap, "null": KindDyn}

func (b *typeBuilder) build(s *jsonschema.Schema, name string) *Type {
	s = b.followReference(s)
	if s == nil {
		return &Type{MaxLen: -1}
	}
	if t := b.seen[s]; t != nil {
		return t
	}
	t := &Type{MaxLen: -1, Location: s.Location}
	b.seen[s] = t
	if s.Types == nil {
		b.odd = b.odd || !hasOnly(s, annotationFields)
		return t
	}
	b.odd = b.odd || s.Enum != nil && s.Types.String() != "[string]"
	switch types := s.Types.ToStrings(); strings.Join(types, ",") {
	case "string":
		t.Kind, t.minLen, t.MaxLen = KindString, valueOr(s.MinLength, 0), valueOr(s.MaxLength, -1)
		t.enum = textsOf(s.Enum)
	case "integer":
		t.Kind, t.converts = KindInt, true
	case "number", "number,integer":
		t.Kind, t.converts = KindDouble, true
	case "boolean":
		t.Kind = KindBool
	case "array":
		b.list(t, s, name)
	case "object":
		b.object(t, s, name)
	default:
		b.odd = b.odd || !hasOnly(s, append([]string{"Types"}, annotationFields...))
		for _, word := range types {
			t.kinds |= 1 << kindNames[word]
		}
	}
	return t
}

func textsOf(e *jsonschema.Enum) []string {
	if e == nil {
		return nil
	}
	out := []string{}
	for _, v := range e.Values {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

func (b *typeBuilder) list(t *Type, s *jsonschema.Schema, name string) {
	t.Kind, t.minLen, t.MaxLen, t.converts = KindList, valueOr(s.MinItems, 0), valueOr(s.MaxItems, -1), true
	elem := s.Items2020
	if single, ok := s.Items.(*jsonschema.Schema); ok {
		elem = single
	} else {
		b.odd = b.odd || s.Items != nil
	}
	if len(s.PrefixItems) > 0 {
		elem = nil // a tuple: its elements differ
	}
	t.Elem = b.build(elem, name+".item")
}

func (b *typeBuilder) object(t *Type, s *jsonschema.Schema, name string) *Type {
	t.converts = true
	if s == nil {
		t.Kind, t.Elem = KindMap, &Type{MaxLen: -1}
		return t
	}
	additional := additionalSchema(s)
	t.closed = s.AdditionalProperties == false
	if len(s.Properties) == 0 {
		b.odd = b.odd || s.Required != nil
		t.Kind, t.MaxLen, t.Elem = KindMap, valueOr(s.MaxProperties, -1), b.build(additional, name+".value")
		return t
	}
	b.odd = b.odd || additional != nil
	for b.names[name] {
		name += "_"
	}
	b.names[name] = true
	t.Kind, t.Name, t.Fields = KindStruct, name, make(map[string]*Type, len(s.Properties))
	t.Required = s.Required
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		sub := b.build(s.Properties[field], name+"."+field)
		t.Fields[field] = sub
		t.members = append(t.members, member{field, sub})
	}
	return t
}

// additionalSchema is the schema of undeclared members; nil if there is none or if patterns make it
// differ between members.
func additionalSchema(s *jsonschema.Schema) *jsonschema.Schema {
	if len(s.PatternProperties) > 0 {
		return nil
	}
	sub, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return sub
}

func valueOr(n *int, other int) int {
	if n == nil || *n < 0 {
		return other
	}
	return *n
}

// Structs collects all struct types reachable from t, by their CEL names.
func (t *Type) Structs(into map[string]*Type) {
	switch t.Kind {
	case KindStruct:
		if into[t.Name] != nil {
			return
		}
		into[t.Name] = t
		for _, f := range t.Fields {
			f.Structs(into)
		}
	case KindList, KindMap:
		if t.Elem.Kind != KindList && t.Elem.Kind != KindMap {
			t.Elem.Structs(into)
		} else if inner := t.Elem.Elem; inner.Kind == KindStruct {
			inner.Structs(into)
		}
	}
}

// HasPath reports whether values of the type can have something at the path. If the type does not
// say, they can.
func (t *Type) HasPath(steps []string) bool {
	if t == nil || t.Kind == KindDyn || len(steps) == 0 {
		return true
	}
	step, rest := steps[0], steps[1:]
	switch t.Kind {
	case KindStruct:
		if step == redact.Any {
			for _, f := range t.Fields {
				if f.HasPath(rest) {
					return true
				}
			}
			return false
		}
		f := t.Fields[step]
		return f != nil && f.HasPath(rest)
	case KindMap:
		return t.Elem.HasPath(rest)
	case KindList:
		return step == redact.Any && t.Elem.HasPath(rest)
	default:
		return false
	}
}

// MemberNames returns the names of all members that the schema declares.
func (t *Type) MemberNames() []string {
	structs := map[string]*Type{}
	t.Structs(structs)
	var out []string
	for _, s := range structs {
		out = slices.AppendSeq(out, maps.Keys(s.Fields))
	}
	slices.Sort(out) // the same hint for the same mistake
	return out
}

// At returns the type that a cost path leads to: field names, "@items", "@keys" and "@values". nil
// means undeclared.
func (t *Type) At(path []string) *Type {
	for _, step := range path {
		switch {
		case t == nil:
			return nil
		case t.Kind == KindStruct:
			t = t.Fields[step]
		case t.Kind == KindList && step == "@items", t.Kind == KindMap && step == "@values":
			t = t.Elem
		case t.Kind == KindMap && step == "@keys":
			return &Type{Kind: KindString, MaxLen: -1}
		case t.Kind == KindMap:
			t = t.Elem
		default:
			return nil
		}
	}
	return t
}

// SizeKeyword is the JSON Schema keyword that limits the size of the type's values.
func (t *Type) SizeKeyword() string {
	switch t.Kind {
	case KindList:
		return "maxItems"
	case KindMap, KindStruct:
		return "maxProperties"
	default:
		return "maxLength"
	}
}
