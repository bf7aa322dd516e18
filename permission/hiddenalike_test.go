package permission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Arguments that are hidden from people do not appear in the texts of a decision or of its
// explanation. Both read a path of redact in the same way, even if the input does not have the
// shape of the path.
func TestDecisionsHideWhatRequestsHide(t *testing.T) {
	const secret = "TOPSECRET"
	for _, tc := range []struct{ name, path, input, text string }{
		{"a member", `args.a`, `{"a": "TOPSECRET"}`, `string(args.a)`},
		{"a path through a text", `args.card.number`, `{"card": "TOPSECRET"}`, `string(args.card)`},
		{"a path through a text in a list", `args.cards.*.number`, `{"cards": ["TOPSECRET"]}`, `string(args.cards[0])`},
		{"a member of every element", `args.cards.number`, `{"cards": [{"number": "TOPSECRET"}]}`, `string(args.cards[0].number)`},
		{"an element by its number", `args.list.0`, `{"list": ["TOPSECRET"]}`, `string(args.list[0])`},
		{"a member below an element by its number", `args.list.0.pin`, `{"list": [{"pin": "TOPSECRET"}]}`, `string(args.list[0].pin)`},
		{"every element of every list", `args.list.*`, `{"list": [["TOPSECRET"]]}`, `string(args.list[0][0])`},
		{"a member in lists of lists", `args.list.pin`, `{"list": [[{"pin": "TOPSECRET"}]]}`, `string(args.list[0][0].pin)`},
		{"a member below an element, in an element", `args.list.0.at.pin`, `{"list": [{"at": [{"pin": "TOPSECRET"}]}]}`, `string(args.list[0].at[0].pin)`},
		{"an index that is not an integer", `args.list.0`, `{"list": ["TOPSECRET"]}`, `string(args.list[0.0])`},
		{"a name with a dot", `args["a.b"]`, `{"a.b": "TOPSECRET"}`, `string(args["a.b"])`},
		{"a name with a quote", `args["a\"b"]`, `{"a\"b": "TOPSECRET"}`, `string(args["a\"b"])`},
		{"a name with a bracket", `args["a]b"].c`, `{"a]b": {"c": "TOPSECRET"}}`, `string(args["a]b"].c)`},
		{"a name in back quotes", `args["a-b"]`, `{"a-b": "TOPSECRET"}`, "string(args.`a-b`)"},
		{"a name that may be absent", `args["a.b"].c`, `{"a.b": {"c": "TOPSECRET"}}`, `string(args[?"a.b"].c.orValue("x"))`},
		{"beyond ASCII", `args["ö.ä"]`, `{"ö.ä": "TOPSECRET"}`, `string(args["\u00f6.ä"])`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			shown := toolcall.ApprovalRequest{Input: tc.input, Hidden: []string{tc.path}, Salt: "salt"}.Redacted().Input
			if strings.Contains(shown, secret) {
				t.Fatalf("the approval request itself shows %s", shown)
			}
			for _, behavior := range []message.Behavior{"allow", "ask", "deny"} {
				b := compile(t, everything(permission.Tool{Name: "t"}),
					permission.Rule{Name: "hide", Tools: []string{"t"}, Behavior: "ask", Redact: []string{tc.path}},
					permission.Rule{Name: "says", Tools: []string{"t"}, Behavior: behavior, Message: tc.text, When: tc.text + ` != "x"`},
					permission.Rule{Name: "near", Tools: []string{"t"}, Behavior: behavior, When: tc.text + ` > "x"`})
				req := permission.Request{Tool: "t", Input: []byte(tc.input)}
				text, err := strictjson.Marshal([]any{b.Decide(t.Context(), req), b.Explain(t.Context(), req)})
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(text), secret) {
					t.Errorf("%s rule: the approval request shows %s, but the decision %s", behavior, shown, text)
				}
			}
		})
	}
}

// For every shape of the input and of the path, a text does not contain what the approval request
// hides.
func TestTextsHideWhatRequestsHide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"a", "b", "0", "c.d"})
		var leaves []string // as expressions; the nth has the value "TOPn."
		var draw func(at string, depth int) any
		draw = func(at string, depth int) any {
			kind := rapid.IntRange(0, 2).Draw(t, "kind")
			switch {
			case depth > 0 && (kind == 0 || at == "args"):
				m := map[string]any{}
				for _, name := range rapid.SliceOfNDistinct(names, 1, 3, rapid.ID[string]).Draw(t, "names") {
					m[name] = draw(fmt.Sprintf("%s[%q]", at, name), depth-1)
				}
				return m
			case depth > 0 && kind == 1:
				list := make([]any, rapid.IntRange(1, 2).Draw(t, "elements"))
				for i := range list {
					list[i] = draw(fmt.Sprintf("%s[%d]", at, i), depth-1)
				}
				return list
			default:
				leaves = append(leaves, at)
				return fmt.Sprintf("TOP%d.", len(leaves)-1)
			}
		}
		input, err := strictjson.Marshal(draw("args", 4))
		if err != nil {
			t.Fatal(err)
		}
		path := "args"
		for _, step := range rapid.SliceOfN(rapid.SampledFrom([]string{".a", ".b", ".0", ".*", `["c.d"]`}), 1, 4).Draw(t, "path") {
			path += step
		}
		shown := toolcall.ApprovalRequest{Input: string(input), Hidden: []string{path}, Salt: "salt"}.Redacted().Input
		for i, leaf := range leaves {
			secret := fmt.Sprintf("TOP%d.", i)
			if strings.Contains(shown, secret) {
				continue
			}
			b, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
				{Name: "hide", Tools: []string{"t"}, Behavior: "ask", Redact: []string{path}},
				{Name: "says", Tools: []string{"t"}, Behavior: "ask", Message: "string(" + leaf + ")", When: "string(" + leaf + `) > "A"`},
			}}, everything(permission.Tool{Name: "t"}))
			if err != nil {
				t.Fatal(err)
			}
			req := permission.Request{Tool: "t", Input: input}
			text, err := strictjson.Marshal([]any{b.Decide(context.Background(), req), b.Explain(context.Background(), req)})
			if err != nil || strings.Contains(string(text), secret) {
				t.Fatalf("%s of %s: the approval request shows %s, the decision %s (%v)", path, input, shown, text, err)
			}
		}
	})
}
