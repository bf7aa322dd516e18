package agui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message/agui"
	"pgregory.net/rapid"
)

// The client's verdicts; testdata/order/README.md says how they were recorded.
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
		var events []agui.Event
		for _, raw := range row.Events {
			e, err := aguitest.DecodeEvent(raw)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		if got := verdict(events); got != want {
			t.Errorf("line %d: refused at %d, but the client refuses at %d", n, got, want)
		}
	}
	if refused == 0 || refused == n {
		t.Errorf("%d of %d streams are refused; the recording should contain both", refused, n)
	}
}

func TestVerifierRules(t *testing.T) {
	start, end := &agui.RunStarted{ThreadID: "t", RunID: "r"}, &agui.RunFinished{ThreadID: "t", RunID: "r"}
	sub := agui.Tagged{SubagentRunID: new("s")}
	ask := func(id string) agui.Event {
		return &agui.RunFinished{ThreadID: "t", RunID: "r", Outcome: &agui.Outcome{Type: agui.OutcomeInterrupt, Interrupts: []agui.Interrupt{{ID: id}}}}
	}
	call, called := &agui.ToolCallStart{ToolCallID: "c"}, &agui.ToolCallEnd{ToolCallID: "c"}
	result := func(id, call string) agui.Event { return &agui.ToolCallResult{MessageID: id, ToolCallID: call} }
	tests := []struct {
		name   string
		events []agui.Event
		loose  aguitest.Rule // the rule of the zero Verifier, or ""
		strict aguitest.Rule
	}{
		{"empty", nil, aguitest.RuleTruncated, aguitest.RuleTruncated},
		{"run", []agui.Event{start, end}, "", ""},
		{"refused run", []agui.Event{&agui.RunError{}}, "", ""},
		{"not started", []agui.Event{end}, aguitest.RuleFirst, aguitest.RuleFirst},
		{"started twice", []agui.Event{start, start}, aguitest.RuleActive, aguitest.RuleActive},
		{"again", []agui.Event{start, end, start, &agui.RunError{}, start, end}, "", ""},
		{"after the end", []agui.Event{start, end, &agui.Custom{}}, aguitest.RuleEnded, aguitest.RuleEnded},
		{"failed after the end", []agui.Event{start, end, &agui.RunError{}}, "", ""},
		{"after the failure", []agui.Event{start, &agui.RunError{}, end}, aguitest.RuleEnded, aguitest.RuleEnded},
		{"text without start", []agui.Event{start, &agui.TextMessageContent{MessageID: "m"}}, aguitest.RuleText, aguitest.RuleText},
		{"open text", []agui.Event{start, &agui.TextMessageStart{MessageID: "m"}, end}, aguitest.RuleOpen, aguitest.RuleOpen},
		{"open text of a failed run", []agui.Event{start, &agui.TextMessageStart{MessageID: "m"}, &agui.RunError{}}, "", ""},
		{"open call", []agui.Event{start, call, end}, aguitest.RuleOpen, aguitest.RuleOpen},
		{"open step", []agui.Event{start, &agui.StepStarted{StepName: "s"}, end}, aguitest.RuleOpen, aguitest.RuleOpen},
		{"open subagent", []agui.Event{start, &agui.SubagentStarted{SubagentRunID: "s"}, end}, aguitest.RuleOpen, aguitest.RuleOpen},
		{"step of another", []agui.Event{start, &agui.StepStarted{StepName: "s"}, &agui.StepFinished{Tagged: sub, StepName: "s"}}, aguitest.RuleStep, aguitest.RuleStep},
		{"span and message share an id", []agui.Event{
			start, &agui.ReasoningStart{MessageID: "r"}, &agui.ReasoningMessageStart{MessageID: "r"},
			&agui.ReasoningMessageEnd{MessageID: "r"}, &agui.ReasoningEnd{MessageID: "r"}, end,
		}, "", ""},
		{"call twice open", []agui.Event{start, call, call}, aguitest.RuleCall, aguitest.RuleCall},
		{"owner", []agui.Event{start, &agui.TextMessageStart{MessageID: "m"}, &agui.TextMessageEnd{Tagged: sub, MessageID: "m"}}, aguitest.RuleOwner, aguitest.RuleOwner},
		{"unknown parent", []agui.Event{start, &agui.SubagentStarted{SubagentRunID: "s", ParentSubagentRunID: new("p")}}, aguitest.RuleSubagent, aguitest.RuleSubagent},
		{"first chunk", []agui.Event{start, &agui.ToolCallChunk{ToolCallID: new("c")}}, aguitest.RuleChunk, aguitest.RuleChunk},
		{"chunks end by themselves", []agui.Event{start, &agui.TextMessageChunk{MessageID: new("m"), Delta: new("x")}, &agui.TextMessageChunk{Delta: new("y")}, end}, "", ""},

		{"another run ends", []agui.Event{start, &agui.RunFinished{ThreadID: "t", RunID: "x"}}, "", aguitest.RuleIDs},
		{"another thread", []agui.Event{start, end, &agui.RunStarted{ThreadID: "x"}, &agui.RunError{}}, "", aguitest.RuleThread},
		{"interrupt id twice", []agui.Event{start, ask("i"), start, ask("i")}, "", aguitest.RuleInterrupt},
		{"message id twice", []agui.Event{start, &agui.TextMessageStart{MessageID: "m"}, &agui.TextMessageEnd{MessageID: "m"}, &agui.TextMessageStart{MessageID: "m"}, &agui.TextMessageEnd{MessageID: "m"}, end}, "", aguitest.RuleMessage},
		{"result id twice", []agui.Event{start, call, called, result("m", "c"), result("m", "c"), end}, "", aguitest.RuleMessage},
		{"result of an open call", []agui.Event{start, call, result("m", "c"), called, end}, "", aguitest.RuleResult},
		{"result of no call", []agui.Event{start, result("m", "c"), end}, "", aguitest.RuleResult},
		{"result", []agui.Event{start, call, called, result("m", "c"), end}, "", ""},
		{"result in the next run", []agui.Event{start, call, called, ask("i"), start, result("m", "c"), end}, "", ""},
		{"cut off", []agui.Event{start}, aguitest.RuleTruncated, aguitest.RuleTruncated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ruleOf(t, &aguitest.ClientVerifier{}, tt.events); got != tt.loose {
				t.Errorf("the client's rules: %q, want %q", got, tt.loose)
			}
			if got := ruleOf(t, &aguitest.ClientVerifier{Verifier: aguitest.Verifier{Strict: true}}, tt.events); got != tt.strict {
				t.Errorf("strict: %q, want %q", got, tt.strict)
			}
		})
	}
}

// A resumed run contains results of calls from an earlier run.
func TestVerifierSeed(t *testing.T) {
	v := aguitest.ClientVerifier{Verifier: aguitest.Verifier{Strict: true}}
	v.Seed([]agui.Message{{ID: "m", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c"}}}})
	got := ruleOf(t, &v, []agui.Event{
		&agui.RunStarted{ThreadID: "t", RunID: "r"}, &agui.ToolCallResult{MessageID: "x", ToolCallID: "c"}, &agui.RunFinished{ThreadID: "t", RunID: "r"},
	})
	if got != "" {
		t.Errorf("rule %q", got)
	}
}

// ruleOf verifies a whole stream and returns the rule that it breaks.
func ruleOf(t *testing.T, v *aguitest.ClientVerifier, events []agui.Event) aguitest.Rule {
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
	var order *aguitest.OrderError
	if !errors.As(err, &order) || order.Error() == "" {
		t.Fatalf("got %T %v", err, err)
	}
	return order.Rule
}

// Expanded streams contain no chunks, and expanding them again changes nothing.
func TestChunksExpandOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var once, twice aguitest.Chunks
		for _, e := range drawStream(t) {
			events, err := once.Expand(e)
			if err != nil {
				return
			}
			for _, e := range events {
				again, err := twice.Expand(e)
				if err != nil || len(again) != 1 || again[0] != e {
					t.Fatalf("%s expanded to %v, %v", agui.TypeOf(e), again, err)
				}
			}
		}
	})
}

// No server of this module sends chunks, so a verifier takes one for a defect.
func TestVerifierRefusesChunks(t *testing.T) {
	for _, e := range []agui.Event{&agui.TextMessageChunk{MessageID: new("m")}, &agui.ToolCallChunk{ToolCallID: new("c"), ToolCallName: new("n")}, &agui.ReasoningMessageChunk{MessageID: new("r")}} {
		var v aguitest.Verifier
		if err := v.Check(&agui.RunStarted{ThreadID: "t", RunID: "r"}); err != nil {
			t.Fatal(err)
		}
		var order *aguitest.OrderError
		if err := v.Check(e); !errors.As(err, &order) || order.Rule != aguitest.RuleChunk {
			t.Errorf("%s: got %v, want rule %q", agui.TypeOf(e), err, aguitest.RuleChunk)
		}
	}
}
