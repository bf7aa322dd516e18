package asked

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/linediff"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
)

// Argument is a member or an item of arguments. It has a value, lines of text,
// or items. All of it has been made visible.
type Argument struct {
	Name  string // "" of arguments that are no object and no list
	Kind  string // string, number, boolean, null, object, array
	Value string // of a list or of a text of several lines: how many there are
	Lines []string
	Items []Argument
}

// Arguments takes JSON apart, for people who decide on it: members keep the
// order of the input, numbers their digits. ok is false where there is nothing
// to take apart: what is no JSON, has a name twice, or has more than most members
// and items (0: any number) is better shown as it came.
func Arguments(input string, most int) (all []Argument, ok bool) {
	if strictjson.Check([]byte(input), strictjson.MaxBytes(len(input)+1)) != nil {
		return nil, false
	}
	if most <= 0 {
		most = len(input)
	}
	root, ok := read("", []byte(input), &most)
	if !ok {
		return nil, false
	}
	if root.Items != nil {
		return root.Items, true
	}
	return []Argument{root}, true
}

// read takes one value apart, and reports whether left was enough for it.
func read(name string, data []byte, left *int) (a Argument, ok bool) {
	a, ok = Argument{Name: name, Kind: strictjson.KindOf(data)}, true
	switch a.Kind {
	case "object":
		ok = a.members(data, left)
	case "array":
		ok = a.items(data, left)
	case "string":
		ok = a.text(data)
	default:
		a.Value = reveal.Line(strings.TrimSpace(string(data)))
	}
	return a, ok
}

func (a *Argument) members(data []byte, left *int) bool {
	members, err := strictjson.Members(data)
	if len(members) == 0 {
		a.Value = "{}"
	}
	for _, m := range members {
		if !a.add(label(m.Name), m.Value, left) {
			return false
		}
	}
	return err == nil
}

func (a *Argument) items(data []byte, left *int) bool {
	items, err := strictjson.Items(data)
	a.Value = Count(len(items), "item")
	if len(items) == 0 {
		a.Value = "[]"
	}
	for i, m := range items {
		if !a.add(strconv.Itoa(i+1), m.Value, left) {
			return false
		}
	}
	return err == nil
}

func (a *Argument) text(data []byte) bool {
	text, err := strictjson.Text(data)
	if !strings.Contains(text, "\n") {
		a.Value = `"` + reveal.Line(text) + `"`
		return err == nil
	}
	a.Lines = strings.Split(reveal.Text(text), "\n")
	a.Value = Count(len(a.Lines), "line")
	return err == nil
}

func (a *Argument) add(name string, data []byte, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	item, ok := read(name, data, left)
	a.Items = append(a.Items, item)
	return ok
}

// label is a member's name; what could be taken for something else is quoted.
func label(name string) string {
	for _, r := range name {
		word := r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !word {
			return `"` + reveal.Line(name) + `"`
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

// Editable is what a person gets to edit: the same JSON, laid out, with what
// misleads as escapes.
func Editable(input string) string { return reveal.Escape(indentJSON(input)) }

// Laid is arguments as they came, over several lines where they are JSON, and
// made visible.
func Laid(input string) string { return reveal.Text(indentJSON(input)) }

// Changes are what an edit changes: the lines of both inputs, laid out alike and
// made visible, marked "- ", "+ " and "  ". There are none if both say the same.
func Changes(before, after string) []string {
	was, is := indentJSON(before), indentJSON(after)
	if was == is {
		return nil
	}
	out := linediff.Lines(strings.Split(was, "\n"), strings.Split(is, "\n"))
	for i, l := range out {
		out[i] = l[:2] + reveal.Text(l[2:])
	}
	return out
}

// CheckInput refuses a text that no tool can take as new arguments.
func CheckInput(text string) error {
	if len(text) > toolcall.MaxInputBytes {
		return fmt.Errorf("the new arguments have %d bytes, the limit is %d", len(text), toolcall.MaxInputBytes)
	}
	if _, err := strictjson.Object([]byte(text)); err != nil {
		return fmt.Errorf("the new arguments are not a JSON object: %w", err)
	}
	return nil
}

// indentJSON lays JSON out, and leaves what is none.
func indentJSON(input string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(input), "", "  ") != nil {
		return input
	}
	return b.String()
}
