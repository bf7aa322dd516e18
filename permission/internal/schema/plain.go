package schema

import (
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// plainSchema is a schema, or part of one, that uses only the commonplace
// keywords: type, properties, required, additionalProperties: false, items, the
// bounds on lengths, enum of texts. Most tools have such schemas, and an input
// that fits one is told so many times faster than by the library. It never
// refuses: what it does not accept is judged by the library, which finds the
// words for it.
type plainSchema struct {
	types              uint // a bit for each argKind; 0: any. kindMap is an object, kindDyn null
	properties         map[string]*plainSchema
	members            []plainMember // the same, in the order of their names
	required           []string
	closed             bool         // no other members
	additional         *plainSchema // of other members; nil: anything
	items              *plainSchema // nil: anything
	minLength, minimum int          // of texts and lists; minimum of members
	maxLength, maximum int          // -1: none
	enum               []string
}

// plainMember is one of the properties.
type plainMember struct {
	name   string
	schema *plainSchema
}

// plainKeys are the fields of the library's schema that plainSchema knows, and
// those that say nothing about validity. Any other one that is set, also one
// of a future version, makes a schema not plain.
var plainKeys = map[string]bool{
	"Types": true, "Properties": true, "Required": true, "AdditionalProperties": true, "Items": true, "Items2020": true,
	"MinLength": true, "MaxLength": true, "MinItems": true, "MaxItems": true, "Enum": true, "Ref": true,
	"DraftVersion": true, "Location": true, "ID": true, "Anchor": true, "Title": true, "Description": true, "Default": true,
	"Comment": true, "ReadOnly": true, "WriteOnly": true, "Examples": true, "Deprecated": true,
}

// plainOf gives nil for a schema that is not plain.
func plainOf(s *jsonschema.Schema) *plainSchema {
	b := plainBuilder{}
	if p := b.build(s); !b.failed {
		return p
	}
	return nil
}

type plainBuilder struct {
	seen   map[*jsonschema.Schema]*plainSchema
	failed bool
}

func (b *plainBuilder) build(s *jsonschema.Schema) *plainSchema {
	if s == nil || b.failed {
		return nil
	}
	if p := b.seen[s]; p != nil {
		return p // a schema that contains itself
	}
	if !onlyPlainKeys(s) {
		b.failed = true
		return nil
	}
	if s.Ref != nil {
		return b.reference(s)
	}
	p := &plainSchema{required: s.Required, maxLength: -1, maximum: -1}
	if b.seen == nil {
		b.seen = map[*jsonschema.Schema]*plainSchema{}
	}
	b.seen[s] = p
	b.types(p, s)
	b.members(p, s)
	b.elements(p, s)
	return p
}

// reference follows a $ref that stands alone.
func (b *plainBuilder) reference(s *jsonschema.Schema) *plainSchema {
	if target := followReference(s); target != nil && target.Ref == nil && s.Types == nil && s.Properties == nil && s.Required == nil && s.AdditionalProperties == nil &&
		s.Items == nil && s.Items2020 == nil && s.MinLength == nil && s.MaxLength == nil && s.MinItems == nil && s.MaxItems == nil && s.Enum == nil {
		return b.build(target)
	}
	b.failed = true
	return nil
}

func onlyPlainKeys(s *jsonschema.Schema) bool {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && !plainKeys[f.Name] && !v.Field(i).IsZero() {
			return false
		}
	}
	return true
}

var plainTypes = map[string]Kind{"string": KindString, "integer": KindInt, "number": KindDouble, "boolean": KindBool, "array": KindList, "object": KindMap, "null": kindDyn}

func (b *plainBuilder) types(p *plainSchema, s *jsonschema.Schema) {
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			p.types |= 1 << plainTypes[name]
		}
		if p.types&(1<<KindDouble) != 0 {
			p.types |= 1 << KindInt
		}
	}
	if s.Enum == nil {
		return
	}
	p.enum = []string{} // not nil: there is one
	for _, v := range s.Enum.Values {
		if text, ok := v.(string); ok {
			p.enum = append(p.enum, text)
		}
	}
}

func (b *plainBuilder) members(p *plainSchema, s *jsonschema.Schema) {
	switch extra := s.AdditionalProperties.(type) {
	case nil:
	case bool:
		p.closed = !extra
	case *jsonschema.Schema:
		p.additional = b.build(extra)
	default:
		b.failed = true
	}
	p.properties = make(map[string]*plainSchema, len(s.Properties))
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		sub := b.build(s.Properties[name])
		p.properties[name] = sub
		p.members = append(p.members, plainMember{name, sub})
	}
}

func (b *plainBuilder) elements(p *plainSchema, s *jsonschema.Schema) {
	switch items := s.Items.(type) {
	case nil:
		p.items = b.build(s.Items2020)
	case *jsonschema.Schema:
		p.items = b.build(items)
	default:
		b.failed = true
	}
	p.minLength, p.maxLength = atLeast(s.MinLength), orUnlimited(s.MaxLength)
	p.minimum, p.maximum = atLeast(s.MinItems), orUnlimited(s.MaxItems)
}

func atLeast(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// accepts reports that a decoded input fits for certain. false says nothing.
// The depth is that of the input, which is bounded.
func (p *plainSchema) accepts(v any) bool {
	if p == nil {
		return true // any value
	}
	switch v := v.(type) {
	case string:
		return p.allowsKind(KindString) && p.acceptsText(v)
	case int64:
		return p.allowsKind(KindInt) && p.enum == nil
	case float64:
		return p.allowsKind(KindDouble) && p.enum == nil
	case bool:
		return p.allowsKind(KindBool) && p.enum == nil
	case nil:
		return p.allowsKind(kindDyn) && p.enum == nil
	case []any:
		return p.allowsKind(KindList) && p.enum == nil && p.acceptsList(v)
	case map[string]any:
		return p.allowsKind(KindMap) && p.enum == nil && p.acceptsObject(v)
	default:
		return false
	}
}

func (p *plainSchema) allowsKind(kind Kind) bool { return p.types == 0 || p.types&(1<<kind) != 0 }

func (p *plainSchema) acceptsText(s string) bool {
	if p.enum != nil && !slices.Contains(p.enum, s) {
		return false
	}
	if p.minLength == 0 && (p.maxLength < 0 || len(s) <= p.maxLength) {
		return true // no more characters than bytes
	}
	n := utf8.RuneCountInString(s)
	return n >= p.minLength && (p.maxLength < 0 || n <= p.maxLength)
}

func (p *plainSchema) acceptsList(list []any) bool {
	if len(list) < p.minimum || (p.maximum >= 0 && len(list) > p.maximum) {
		return false
	}
	if p.items == nil {
		return true
	}
	for _, item := range list {
		if !p.items.accepts(item) {
			return false
		}
	}
	return true
}

func (p *plainSchema) acceptsObject(m map[string]any) bool {
	for _, name := range p.required {
		if _, ok := m[name]; !ok {
			return false
		}
	}
	if len(p.properties) == 0 && !p.closed && p.additional == nil {
		return true
	}
	declared := 0
	for i := range p.members {
		if v, ok := m[p.members[i].name]; ok {
			if declared++; !p.members[i].schema.accepts(v) {
				return false
			}
		}
	}
	return declared == len(m) || !p.closed && p.acceptsOthers(m)
}

// acceptsOthers is about the members that are not declared.
func (p *plainSchema) acceptsOthers(m map[string]any) bool {
	if p.additional == nil {
		return true
	}
	for name, v := range m {
		if _, declared := p.properties[name]; !declared && !p.additional.accepts(v) {
			return false
		}
	}
	return true
}
