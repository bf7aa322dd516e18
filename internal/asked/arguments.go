package asked

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/linediff"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
)

// Argument is a member or an item of arguments. It has a value, lines of text, or items; a text
// that is itself JSON has a value and items. All text in it is revealed.
type Argument struct {
	Name  string // "" for arguments that are neither an object nor a list
	Kind  string // string, number, boolean, null, object, array
	Value string // for a list or a text of several lines, their number
	Lines []string
	Items []Argument
}

// Arguments splits JSON for people who decide about it: members keep the order of the input,
// numbers their digits. ok is false if the input should be shown unchanged: if it is not JSON,
// has a duplicate name, or has more than most members and items (0 means no limit).
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

// read splits one value, and reports whether left was enough for it.
func read(name string, data []byte, left *int) (a Argument, ok bool) {
	a, ok = Argument{Name: name, Kind: strictjson.KindOf(data)}, true
	switch a.Kind {
	case "object":
		ok = a.members(data, left)
	case "array":
		ok = a.items(data, left)
	case "string":
		ok = a.text(data, left)
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

func (a *Argument) text(data []byte, left *int) bool {
	text, err := strictjson.Text(data)
	if !strings.Contains(text, "\n") {
		a.Value = `"` + reveal.Line(text) + `"`
		a.Items = inner(text, left)
		return err == nil
	}
	a.Lines = strings.Split(reveal.Text(text), "\n")
	a.Value = Count(len(a.Lines), "line")
	return err == nil
}

// inner returns what is in a text that is a JSON object or list, if left is enough for it.
func inner(text string, left *int) []Argument {
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") || strictjson.Check([]byte(text), strictjson.MaxBytes(len(text)+1)) != nil {
		return nil
	}
	rest := *left
	a, ok := read("", []byte(text), &rest)
	if !ok {
		return nil
	}
	*left = rest
	return a.Items
}

func (a *Argument) add(name string, data []byte, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	item, ok := read(name, data, left)
	a.Items = append(a.Items, item)
	return ok
}

// label returns a member's name, quoted if it could be mistaken for something else.
func label(name string) string {
	for _, r := range name {
		word := r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !word {
			return `"` + reveal.Line(name) + `"`
		}
	}
	return cmp.Or(name, `""`)
}

// Editable returns what a person edits: the same JSON, indented, with misleading characters
// as escapes.
func Editable(input string) string { return reveal.Escape(indentJSON(input)) }

// Laid returns arguments unchanged or, if they are JSON, indented, and revealed.
func Laid(input string) string { return reveal.Text(indentJSON(input)) }

// Changes returns what an edit changes: the lines of both inputs, indented alike and revealed,
// marked "- ", "+ " and "  ". It is empty if both inputs are equivalent.
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

// CheckInput refuses a text that no tool can accept as new arguments.
func CheckInput(text string) error {
	if len(text) > toolcall.MaxInputBytes {
		return fmt.Errorf("the new arguments have %d bytes, the limit is %d", len(text), toolcall.MaxInputBytes)
	}
	if _, err := strictjson.Object([]byte(text)); err != nil {
		return fmt.Errorf("the new arguments are not a JSON object: %s", strictjson.AtLine(err, text))
	}
	return nil
}

// indentJSON indents JSON, and returns any other text unchanged.
func indentJSON(input string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(input), "", "  ") != nil {
		return input
	}
	return b.String()
}
