package redact_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message/redact"
)

func TestParse(t *testing.T) {
	for text, want := range map[string][]string{
		"args":                 {"args"},
		"args.card.number":     {"args", "card", "number"},
		"args.card.*":          {"args", "card", "*"},
		`args["odd name"].x`:   {"args", "odd name", "x"},
		`args.a["b\"]"]`:       {"args", "a", `b"]`},
		"caller.user":          {"caller", "user"},
		"args.items[\"0\"].id": {"args", "items", "0", "id"},
	} {
		p, err := redact.Parse(text)
		if got := append([]string{p.Root}, p.Steps...); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"args.", "args..x", "args.a b", "args[x]", `args["x"`, `args["x]`, "args.(x)", "args" + strings.Repeat(".a", 65)} {
		if p, err := redact.Parse(text); err == nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

// hidden returns the places in a value that the paths hide.
func hidden(value any, at string, paths redact.Paths) (out []string) {
	look := func(name string, v any, hide bool, below redact.Paths) {
		if hide {
			out = append(out, at+"."+name)
		} else if len(below) > 0 {
			out = append(out, hidden(v, at+"."+name, below)...)
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			hide, below := paths.Member(name, isLeaf(value[name]))
			look(name, value[name], hide, below)
		}
	case []any:
		for i, v := range value {
			hide, below := paths.Element(i, isLeaf(v))
			look(strconv.Itoa(i), v, hide, below)
		}
	}
	return out
}

func isLeaf(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func TestWhatIsHidden(t *testing.T) {
	obj := func(pairs ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(string)] = pairs[i+1]
		}
		return out
	}
	card := obj("number", "1", "name", "ann")
	for _, c := range []struct {
		path  string
		value any
		want  string
	}{
		{"args.card", obj("card", card, "x", 1), "[.card]"},
		{"args.card.number", obj("card", card), "[.card.number]"},
		{"args.card.*", obj("card", card), "[.card.name .card.number]"},
		{"args.*.number", obj("card", card, "x", 1), "[.card.number .x]"},
		// If the path leads into a text, the whole text is hidden.
		{"args.card.number", obj("card", "1 ann"), "[.card]"},
		// A member of a list is that member of each element; an element without members is hidden.
		{"args.cards.number", obj("cards", []any{card, "2"}), "[.cards.0.number .cards.1]"},
		{`args.cards["1"].number`, obj("cards", []any{card, card}), "[.cards.1.number]"},
		{`args.cards["1"].number`, obj("cards", []any{"1", "2"}), "[.cards.1]"},
		{"args.cards.*", obj("cards", []any{"1", card}), "[.cards.0 .cards.1]"},
		{"args.cards.*.number", obj("cards", []any{[]any{card}, card}), "[.cards.0.0.number .cards.1.number]"},
		{"args.other", obj("card", card), "[]"},
	} {
		p, err := redact.Parse(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(hidden(c.value, "", redact.Below(p))); got != c.want {
			t.Errorf("%s hides %s, want %s", c.path, got, c.want)
		}
	}
}
