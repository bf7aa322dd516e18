package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// The client's own verdicts; testdata/order/README.md says how they were
// recorded.
func TestVerifierAgreesWithTheClient(t *testing.T) {
	data, err := os.ReadFile("testdata/order/streams.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	refused, n := 0, 0
	for line := range bytes.Lines(data) {
		n++
		var row struct {
			RefusedAt *int              `json:"refused_at"`
			Events    []json.RawMessage `json:"events"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		want := len(row.Events)
		if row.RefusedAt != nil {
			want = *row.RefusedAt
			refused++
		}
		var events []Event
		for _, raw := range row.Events {
			e, err := DecodeEvent(raw)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		if got := verdict(events); got != want {
			t.Errorf("line %d: refused at %d, the client at %d", n, got, want)
		}
	}
	if refused == 0 || refused == n {
		t.Errorf("%d of %d streams are refused; the record should have both", refused, n)
	}
}

func TestVerifierRules(t *testing.T) {
	start, end := &RunStarted{ThreadID: "t", RunID: "r"}, &RunFinished{ThreadID: "t", RunID: "r"}
	sub := Tagged{SubagentRunID: new("s")}
	ask := func(id string) Event {
		return &RunFinished{ThreadID: "t", RunID: "r", Outcome: &Outcome{Type: OutcomeInterrupt, Interrupts: []Interrupt{{ID: id}}}}
	}
	call, called := &ToolCallStart{ToolCallID: "c"}, &ToolCallEnd{ToolCallID: "c"}
	result := func(id, call string) Event { return &ToolCallResult{MessageID: id, ToolCallID: call} }
	tests := []struct {
		name   string
		events []Event
		loose  Rule // of the zero Verifier; "": none
		strict Rule
	}{
		{"empty", nil, RuleTruncated, RuleTruncated},
		{"run", []Event{start, end}, "", ""},
		{"unknown first", []Event{&Unknown{Kind: "X"}, start, end}, "", ""},
		{"refused run", []Event{&RunError{}}, "", ""},
		{"not started", []Event{end}, RuleFirst, RuleFirst},
		{"started twice", []Event{start, start}, RuleActive, RuleActive},
		{"again", []Event{start, end, start, &RunError{}, start, end}, "", ""},
		{"after the end", []Event{start, end, &Custom{}}, RuleEnded, RuleEnded},
		{"failed after the end", []Event{start, end, &RunError{}}, "", ""},
		{"after the failure", []Event{start, &RunError{}, end}, RuleEnded, RuleEnded},
		{"text without start", []Event{start, &TextMessageContent{MessageID: "m"}}, RuleText, RuleText},
		{"open text", []Event{start, &TextMessageStart{MessageID: "m"}, end}, RuleOpen, RuleOpen},
		{"open text of a failed run", []Event{start, &TextMessageStart{MessageID: "m"}, &RunError{}}, "", ""},
		{"open call", []Event{start, call, end}, RuleOpen, RuleOpen},
		{"open step", []Event{start, &StepStarted{StepName: "s"}, end}, RuleOpen, RuleOpen},
		{"open subagent", []Event{start, &SubagentStarted{SubagentRunID: "s"}, end}, RuleOpen, RuleOpen},
		{"step of another", []Event{start, &StepStarted{StepName: "s"}, &StepFinished{Tagged: sub, StepName: "s"}}, RuleStep, RuleStep},
		{"span and message share an id", []Event{
			start, &ReasoningStart{MessageID: "r"}, &ReasoningMessageStart{MessageID: "r"},
			&ReasoningMessageEnd{MessageID: "r"}, &ReasoningEnd{MessageID: "r"}, end,
		}, "", ""},
		{"call twice open", []Event{start, call, call}, RuleCall, RuleCall},
		{"owner", []Event{start, &TextMessageStart{MessageID: "m"}, &TextMessageEnd{Tagged: sub, MessageID: "m"}}, RuleOwner, RuleOwner},
		{"unknown parent", []Event{start, &SubagentStarted{SubagentRunID: "s", ParentSubagentRunID: new("p")}}, RuleSubagent, RuleSubagent},
		{"first chunk", []Event{start, &ToolCallChunk{ToolCallID: new("c")}}, RuleChunk, RuleChunk},
		{"chunks end by themselves", []Event{start, &TextMessageChunk{MessageID: new("m"), Delta: new("x")}, &TextMessageChunk{Delta: new("y")}, end}, "", ""},

		{"another run ends", []Event{start, &RunFinished{ThreadID: "t", RunID: "x"}}, "", RuleIDs},
		{"another thread", []Event{start, end, &RunStarted{ThreadID: "x"}, &RunError{}}, "", RuleThread},
		{"interrupt id twice", []Event{start, ask("i"), start, ask("i")}, "", RuleInterrupt},
		{"message id twice", []Event{start, &TextMessageStart{MessageID: "m"}, &TextMessageEnd{MessageID: "m"}, &TextMessageStart{MessageID: "m"}, &TextMessageEnd{MessageID: "m"}, end}, "", RuleMessage},
		{"result id twice", []Event{start, call, called, result("m", "c"), result("m", "c"), end}, "", RuleMessage},
		{"result of an open call", []Event{start, call, result("m", "c"), called, end}, "", RuleResult},
		{"result of no call", []Event{start, result("m", "c"), end}, "", RuleResult},
		{"result", []Event{start, call, called, result("m", "c"), end}, "", ""},
		{"result in the next run", []Event{start, call, called, ask("i"), start, result("m", "c"), end}, "", ""},
		{"cut off", []Event{start}, RuleTruncated, RuleTruncated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ruleOf(t, &Verifier{}, tt.events); got != tt.loose {
				t.Errorf("the client's rules: %q, want %q", got, tt.loose)
			}
			if got := ruleOf(t, &Verifier{Strict: true}, tt.events); got != tt.strict {
				t.Errorf("strict: %q, want %q", got, tt.strict)
			}
		})
	}
}

// A resumed run has results of calls that an earlier run made.
func TestVerifierSeed(t *testing.T) {
	v := Verifier{Strict: true}
	v.Seed([]Message{{ID: "m", Role: RoleAssistant, ToolCalls: []ToolCall{{ID: "c"}}}})
	got := ruleOf(t, &v, []Event{
		&RunStarted{ThreadID: "t", RunID: "r"}, &ToolCallResult{MessageID: "x", ToolCallID: "c"}, &RunFinished{ThreadID: "t", RunID: "r"},
	})
	if got != "" {
		t.Errorf("rule %q", got)
	}
}

// ruleOf runs a whole stream and returns the rule that it breaks.
func ruleOf(t *testing.T, v *Verifier, events []Event) Rule {
	t.Helper()
	var err error
	for _, e := range events {
		if err = v.Check(e); err != nil {
			break
		}
	}
	end := v.Close()
	if err == nil {
		err = end
	} else if !errors.Is(end, err) {
		t.Errorf("the error %v did not stay: %v", err, end)
	}
	if err == nil {
		return ""
	}
	var order *OrderError
	if !errors.As(err, &order) || order.Error() == "" {
		t.Fatalf("got %T %v", err, err)
	}
	return order.Rule
}

// Chunks leave no chunk behind, and what they make passes them unchanged.
func TestChunksExpandOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var once, twice Chunks
		for _, e := range drawStream(t) {
			events, err := once.Expand(e)
			if err != nil {
				return
			}
			for _, e := range events {
				again, err := twice.Expand(e)
				if err != nil || len(again) != 1 || again[0] != e {
					t.Fatalf("%s came out as %v, %v", e.Type(), again, err)
				}
			}
		}
	})
}
