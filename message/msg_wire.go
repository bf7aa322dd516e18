package message

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// The structs of this package are AgentScope's field tables: the json tag names
// a member, the wire tag says what the table says about it, separated by commas.
//
//	required      the member must be there
//	null          a map or slice whose nil is null (pointers always are)
//	id, now       generated when missing
//	default=word  this value when missing, and when the field is empty
//	url           an absolute URL, normalised
//	extra         where members go that have no field of their own
//	reply         reply_id, which an embedded header can switch off: noreply
//
// One plan per type is made from the tags and drives reading and writing alike.

// plan is the member list of one struct type, in the order of writing.
type plan struct {
	members []member
	byName  map[string]int
	extra   []int // index of the field for all other members; nil: dropped
}

type member struct {
	name     string
	index    []int // of the struct field; nil for the type discriminator
	required bool
	null     bool
	url      bool
	fill     fill
	word     string // with fillWord; of the discriminator, its only value
}

// fill says what a missing member becomes.
type fill int

const (
	fillZero fill = iota
	fillID
	fillNow
	fillWord
)

// discriminator is the member that every block, source and event has and no
// struct holds.
const discriminator = "type"

// plans caches planOf; the types are few and fixed.
var plans sync.Map // reflect.Type -> *plan

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := &plan{byName: map[string]int{}}
	if ptr := reflect.PointerTo(t); ptr.Implements(reflect.TypeFor[Block]()) || ptr.Implements(reflect.TypeFor[Source]()) {
		p.members = append(p.members, member{name: discriminator})
	}
	p.add(t, nil, true)
	for i, m := range p.members {
		p.byName[m.name] = i
		if m.index == nil {
			p.members[i].word = typeName(reflect.New(t).Interface())
		}
	}
	plans.Store(t, p)
	return p
}

// add appends the fields of t, which stands at index in the planned struct.
func (p *plan) add(t reflect.Type, index []int, reply bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(index), i)
		opts := strings.Split(f.Tag.Get("wire"), ",")
		switch {
		case f.Anonymous:
			p.add(f.Type, at, !slices.Contains(opts, "noreply"))
		case slices.Contains(opts, "extra"):
			p.extra = at
		case slices.Contains(opts, "reply"):
			p.members = append(p.members, member{name: discriminator})
			if reply {
				p.members = append(p.members, memberOf(f, at, opts))
			}
		default:
			p.members = append(p.members, memberOf(f, at, opts))
		}
	}
}

func memberOf(f reflect.StructField, index []int, opts []string) member {
	m := member{name: f.Tag.Get("json"), index: index, null: f.Type.Kind() == reflect.Pointer}
	for _, o := range opts {
		switch o {
		case "required":
			m.required = true
		case "null":
			m.null = true
		case "url":
			m.url = true
		case "id":
			m.fill = fillID
		case "now":
			m.fill = fillNow
		}
		if word, ok := strings.CutPrefix(o, "default="); ok {
			m.fill, m.word = fillWord, word
		}
	}
	return m
}

// word is a string type with a closed list of values. Its zero value is none
// of them.
type word interface {
	// Valid reports whether the value is on the list, spelled exactly so.
	Valid() bool
	// words is the list, separated by comma and space.
	words() string
}

func isWord(s, list string) bool {
	for w := range strings.SplitSeq(list, ", ") {
		if s == w {
			return true
		}
	}
	return false
}
