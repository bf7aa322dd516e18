package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/wire"
)

type tool struct {
	Name string          `json:"name" wire:"group=function"`
	Args json.RawMessage `json:"args" wire:"object,empty,group=function"`
	_    struct{}        `wire:"name=type,const=function"`
	ID   string          `json:"id" wire:"required"`
	_    struct{}        `wire:"name=call_id,copy=ID"`
}

type shape struct {
	Kind   string  `json:"kind" wire:"variant,in=circle square"`
	Radius *int64  `json:"radius" wire:"least=1,when=circle"`
	Side   *int64  `json:"side" wire:"when=square"`
	Label  *string `json:"label" wire:"rescue"`
}

type picture struct {
	Main   *shape  `json:"main"`
	Shapes []shape `json:"shapes" wire:"required"`
}

// Objects are encoded and decoded according to their tags, and faults have their place.
func TestTags(t *testing.T) {
	absent := &wire.Format{NilIsAbsent: true, SafeInts: true}
	for _, c := range []struct {
		name    string
		format  *wire.Format
		v       any
		in, out string // out: the encoded value, or the place of the fault
	}{
		{"group, constant and copy", new(wire.Format), new(tool), `{"type":"function","id":"c","function":{"name":"n"}}`, `{"function":{"name":"n","args":{}},"type":"function","id":"c","call_id":"c"}`},
		{"a copy that differs", new(wire.Format), new(tool), `{"id":"c","call_id":"d","function":{}}`, "/call_id"},
		{"another constant", new(wire.Format), new(tool), `{"id":"c","type":"x","function":{}}`, "/type"},
		{"a missing member", new(wire.Format), new(tool), `{"function":{}}`, ""},
		{"a member of the variant", absent, new(shape), `{"kind":"circle","radius":2.0}`, `{"kind":"circle","radius":2}`},
		{"a member of another variant", absent, new(shape), `{"kind":"circle","side":1}`, `{"kind":"circle"}`},
		{"too small", absent, new(shape), `{"kind":"circle","radius":0}`, "/radius"},
		{"an unknown variant", absent, new(picture), `{"shapes":[{"kind":"line"}]}`, "/shapes/0/kind"},
		{"null", absent, new(shape), `{"kind":"circle","label":null}`, "/label"},
	} {
		err := (&wire.Reader{Format: c.format}).Read([]byte(c.in), c.v)
		if e, wrong := errors.AsType[*strictjson.Error](err); wrong {
			if e.Path != c.out {
				t.Errorf("%s: %v, want a fault at %q", c.name, err, c.out)
			}
			continue
		}
		got, err := c.format.Append(nil, c.v)
		if err != nil || string(got) != c.out {
			t.Errorf("%s: wrote %s, %v; want %s", c.name, got, err, c.out)
		}
	}
	_, err := absent.Append(nil, &shape{Kind: "square", Radius: new(int64(1))})
	if !errors.Is(err, strictjson.ErrUnknownMember) {
		t.Errorf("a member of another variant was written: %v", err)
	}
}

// A lenient reader drops what is not essential and reports it.
func TestLenient(t *testing.T) {
	r := wire.Reader{Format: &wire.Format{NilIsAbsent: true}, Lenient: true, Noting: true}
	var p picture
	if err := r.Read([]byte(`{"main":{"kind":"line"},"more":1,"shapes":[{"kind":"dot","x":1},{"kind":"square","label":null,"radius":1}]}`), &p); err != nil {
		t.Fatal(err)
	}
	if p.Main != nil || len(p.Shapes) != 1 || p.Shapes[0].Kind != "square" {
		t.Errorf("read %+v", p)
	}
	var got []string
	for _, n := range r.Notes {
		got = append(got, n.Kind+" "+n.Path)
	}
	want := []string{"unknown_variant /main", "unknown_variant /shapes/0", "null /shapes/1/label", "unknown_member /shapes/1/radius", "unknown_member /more"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("noted %q, want %q", got, want)
	}
}

// A misspelled option would silently change the meaning of a struct on the wire.
func TestUnknownOption(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an unknown option was accepted")
		}
	}()
	_, _ = new(wire.Format).Append(nil, &struct {
		Name string `json:"name" wire:"requierd"`
	}{})
}
