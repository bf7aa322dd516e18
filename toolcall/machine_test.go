package toolcall_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/archtest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var t0 = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func base(d time.Duration) toolcall.Base { return toolcall.Base{At: t0.Add(d)} }

func newCall() *toolcall.Call {
	return &toolcall.Call{
		Key:     toolcall.Key{Space: "s", Session: "se", Reply: "r", Call: "c1"},
		Runtime: "bot", Tool: "refund", Input: `{"n":1}`, Proposal: "sha256:p",
	}
}

func decided(b message.Behavior, place toolcall.Placement) toolcall.Decided {
	c := newCall()
	req := toolcall.ApprovalRequest{V: 1, Key: c.Key, Tool: c.Tool, Input: c.Input, Bundle: "b", Requirement: toolcall.Requirement{Users: []string{}}}
	d, err := req.Digest()
	if err != nil {
		panic(err)
	}
	return toolcall.Decided{Base: base(0), Decision: toolcall.Decision{Behavior: b, Reason: "because", Bundle: "b"}, Request: req, Digest: d, Placement: place}
}

func yes(digest string) toolcall.Responded {
	return toolcall.Responded{Base: base(1), Vote: toolcall.Vote{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Name: "ann"}, At: t0, Digest: digest}}
}

// drive applies events, one in each event record, and returns the event records.
func drive(t *testing.T, events ...toolcall.Event) (*toolcall.Call, []*toolcall.EventRecord) {
	t.Helper()
	var cur *toolcall.Call
	var records []*toolcall.EventRecord
	for _, ev := range events {
		m := toolcall.Load(cur)
		if err := m.Step(ev); err != nil {
			t.Fatalf("step %T: %v", ev, err)
		}
		cur = m.Call()
		records = append(records, &toolcall.EventRecord{Call: cur, Path: m.Path(), At: t0})
	}
	return cur, records
}

// The call in an error is the one before the step: a start that fails has no owner.
func TestErrorShowsUnchangedCall(t *testing.T) {
	c, _ := drive(t, toolcall.Proposed{Base: base(0), Call: newCall()}, decided(message.BehaviorAsk, toolcall.PlaceRemote))
	err := toolcall.Load(c).Step(toolcall.Started{Base: base(2), Worker: "w", Claim: "x", LeaseMS: 1000})
	if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != message.CodeState || string(e.Call) != string(toolcall.ErrorCall(c)) {
		t.Errorf("an early start: %v with the call %s", err, e.Call)
	}
}

// A person whose vote did not suffice did not end a request that expired.
func TestVoteOnAnExpiredRequest(t *testing.T) {
	c := newCall()
	c.State, c.Cause = message.ToolCallFinished, string(toolcall.CauseExpire)
	c.Votes = []toolcall.Vote{yes("sha256:x").Vote}
	if err := toolcall.Load(c).CheckRequest("sha256:x"); !errors.Is(err, message.ErrFinished) || strings.Contains(err.Error(), "responded") {
		t.Errorf("a late response: %v", err)
	}
}

func TestPaths(t *testing.T) {
	ask, allow := decided(message.BehaviorAsk, toolcall.PlaceRemote), decided(message.BehaviorAllow, toolcall.PlaceRemote)
	local := decided(message.BehaviorAllow, toolcall.PlaceLocal)
	propose := toolcall.Proposed{Base: base(0), Call: newCall()}
	submit := toolcall.Submitted{Base: base(1), Attempt: toolcall.Attempt{Number: 1}}
	start := toolcall.Started{Base: base(2), Attempt: 1, Worker: "w", Claim: "x", LeaseMS: 1000}
	result := toolcall.Resulted{Base: base(3), Attempt: 1, Claim: "x", Result: message.ToolResultBlock{ID: "c1", State: message.ToolResultSuccess}}
	tests := []struct {
		name   string
		events []toolcall.Event
		state  message.ToolCallState
		result message.ToolResultState
	}{
		{"deny", []toolcall.Event{propose, decided(message.BehaviorDeny, "")}, "finished", "denied"},
		{"bad input", []toolcall.Event{propose, toolcall.Refused{Base: base(1), Text: "no"}}, "finished", "error"},
		{"an unknown behavior asks", []toolcall.Event{propose, decided("yes please", "")}, "asking", ""},
		{"an empty behavior asks", []toolcall.Event{propose, decided("", "")}, "asking", ""},
		{"local", []toolcall.Event{propose, local, start, result}, "finished", "success"},
		{"remote", []toolcall.Event{propose, allow, submit, start, result}, "finished", "success"},
		{"approved remote", []toolcall.Event{propose, ask, yes(ask.Digest), submit, start, result}, "finished", "success"},
		{"rejected", []toolcall.Event{propose, ask, toolcall.Responded{Base: base(1), Vote: toolcall.Vote{Kind: toolcall.ResponseReject, Digest: ask.Digest}}}, "finished", "denied"},
		{"answered", []toolcall.Event{propose, ask, toolcall.Responded{Base: base(1), Output: "42", Vote: toolcall.Vote{Kind: toolcall.ResponseRespond, Digest: ask.Digest}}}, "finished", "success"},
		{"expired", []toolcall.Event{propose, ask, toolcall.Expired{Base: base(1)}}, "finished", "denied"},
		{"edited and denied", []toolcall.Event{propose, ask, toolcall.Edited{Base: base(1), Input: `{}`, Vote: toolcall.Vote{Digest: ask.Digest}}, decided(message.BehaviorDeny, "")}, "finished", "denied"},
		{"hidden, then asked", []toolcall.Event{propose, toolcall.Hidden{Base: base(1), Behind: "c0"}, ask}, "asking", ""},
		{"revoked", []toolcall.Event{propose, allow, submit, toolcall.Revoked{Base: base(2)}}, "finished", "denied"},
		{"revoked after an attempt", []toolcall.Event{propose, allow, submit, start, toolcall.Lost{Base: base(3), Attempt: 1, RetryAt: t0.Add(9)},
			toolcall.Offered{Base: base(9), Attempt: toolcall.Attempt{Number: 2}}, toolcall.Revoked{Base: base(10)}}, "finished", "interrupted"},
		{"interrupted", []toolcall.Event{propose, ask, toolcall.Interrupted{Base: base(2)}}, "finished", "interrupted"},
		{"given back and tried again", []toolcall.Event{propose, allow, submit, start, toolcall.Returned{Base: base(3), Attempt: 1, Claim: "x", RetryAt: t0.Add(9)},
			toolcall.Offered{Base: base(9), Attempt: toolcall.Attempt{Number: 2}}}, "submitted", ""},
		{"blocked, given back and tried again", []toolcall.Event{propose, allow, submit, start, toolcall.Suspended{Base: base(3), Attempt: 1, Blocked: toolcall.BlockedUnknown},
			toolcall.Returned{Base: base(4), Attempt: 1, Claim: "x", RetryAt: t0.Add(9)}, toolcall.Offered{Base: base(9), Attempt: toolcall.Attempt{Number: 2}}}, "submitted", ""},
		{"lost and tried again", []toolcall.Event{propose, allow, submit, start, toolcall.Lost{Base: base(3), Attempt: 1, RetryAt: t0.Add(9)},
			toolcall.Offered{Base: base(9), Attempt: toolcall.Attempt{Number: 2}}}, "submitted", ""},
		{"blocked, then the owner's result", []toolcall.Event{propose, allow, submit, start, toolcall.Suspended{Base: base(3), Attempt: 1, Blocked: toolcall.BlockedUnknown}, result}, "finished", "success"},
		{"held, then resolved", []toolcall.Event{propose, allow, submit, start, toolcall.Suspended{Base: base(3), Attempt: 1, Blocked: toolcall.BlockedUnknown},
			toolcall.Resolved{Base: base(4), Attempt: 1, Result: message.ToolResultBlock{State: message.ToolResultError}}}, "finished", "error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, records := drive(t, tt.events...)
			if c.State != tt.state {
				t.Fatalf("state = %s, want %s", c.State, tt.state)
			}
			if tt.result != "" && (c.Result == nil || c.Result.State != tt.result) {
				t.Fatalf("result = %+v, want state %s", c.Result, tt.result)
			}
			if c.Records != len(records) {
				t.Errorf("event records = %d, want %d", c.Records, len(records))
			}
			if got, err := toolcall.Replay(records); err != nil || got != c {
				t.Errorf("replay = %v, %v", got, err)
			}
		})
	}
}

// An interrupt of a call whose outcome is unknown tells the model so.
func TestInterruptedText(t *testing.T) {
	propose, allow, submit := toolcall.Proposed{Base: base(0), Call: newCall()}, decided(message.BehaviorAllow, toolcall.PlaceRemote), toolcall.Submitted{Base: base(1), Attempt: toolcall.Attempt{Number: 1}}
	start := toolcall.Started{Base: base(2), Attempt: 1, Worker: "w", Claim: "x", LeaseMS: 1000}
	const text, more = "<system-reminder>The tool call has been interrupted by the user.", " The tool may have run before that, so it may have taken effect."
	for want, before := range map[string][]toolcall.Event{
		text + "</system-reminder>":        {propose, allow, submit, start},
		text + more + "</system-reminder>": {propose, allow, submit, start, toolcall.Suspended{Base: base(3), Attempt: 1, Blocked: toolcall.BlockedUnknown}},
	} {
		if c, _ := drive(t, append(before, toolcall.Interrupted{Base: base(4)})...); c.Result.Output.String() != want {
			t.Errorf("%s, want %s", c.Result.Output, want)
		}
	}
}

func TestRefusedSteps(t *testing.T) {
	ask, allow := decided(message.BehaviorAsk, ""), decided(message.BehaviorAllow, toolcall.PlaceRemote)
	propose := toolcall.Proposed{Base: base(0), Call: newCall()}
	submit := toolcall.Submitted{Base: base(1), Attempt: toolcall.Attempt{Number: 1}}
	start := toolcall.Started{Base: base(2), Attempt: 1, Worker: "w", Claim: "x"}
	done := []toolcall.Event{propose, decided(message.BehaviorDeny, "")}
	started := []toolcall.Event{propose, allow, submit, start}
	back := toolcall.Returned{Base: base(3), Attempt: 1, Claim: "x", RetryAt: t0.Add(9)}
	tests := []struct {
		name   string
		before []toolcall.Event
		ev     toolcall.Event
		want   error
	}{
		{"submit while asking", []toolcall.Event{propose, ask}, submit, message.ErrState},
		{"start while asking", []toolcall.Event{propose, ask}, toolcall.Started{Base: base(2), Attempt: 0, Worker: "w", Claim: "x"}, message.ErrState},
		{"submit while pending", []toolcall.Event{propose}, submit, message.ErrState},
		{"answer to another approval request", []toolcall.Event{propose, ask}, yes("sha256:other"), message.ErrDigest},
		{"second answer", []toolcall.Event{propose, ask, yes(ask.Digest)}, yes(ask.Digest), message.ErrState},
		{"answer to a finished call", done, yes(ask.Digest), message.ErrFinished},
		{"interrupt of a finished call", done, toolcall.Interrupted{Base: base(2)}, message.ErrFinished},
		{"second start", started, toolcall.Started{Base: base(3), Attempt: 1, Worker: "v", Claim: "y"}, message.ErrSuperseded},
		{"start of an older attempt", append(started[:4:4], toolcall.Lost{Base: base(4), Attempt: 1, RetryAt: t0.Add(1)}, toolcall.Offered{Base: base(5), Attempt: toolcall.Attempt{Number: 2}}),
			start, message.ErrSuperseded},
		{"result with another claim", started, toolcall.Resulted{Base: base(3), Attempt: 1, Claim: "y"}, message.ErrSuperseded},
		{"result before the start", started[:3], toolcall.Resulted{Base: base(3), Attempt: 1}, message.ErrSuperseded},
		{"revoke after the start", started, toolcall.Revoked{Base: base(3)}, message.ErrState},
		{"resolve a call that is not blocked", started, toolcall.Resolved{Base: base(3), Attempt: 1}, message.ErrState},
		{"new attempt while one is running", started, toolcall.Offered{Base: base(3), Attempt: toolcall.Attempt{Number: 2}}, message.ErrSuperseded},
		{"given back by another", started, toolcall.Returned{Base: base(3), Attempt: 1, Claim: "y"}, message.ErrSuperseded},
		{"given back before the start", started[:3], toolcall.Returned{Base: base(3), Attempt: 1}, message.ErrSuperseded},
		{"an older attempt given back", started, toolcall.Returned{Base: base(3), Attempt: 0, Claim: "x"}, message.ErrSuperseded},
		{"given back twice", append(started[:4:4], back), back, message.ErrSuperseded},
		{"start of an attempt that was given back", append(started[:4:4], back), start, message.ErrSuperseded},
		{"the same attempt again after it was given back", append(started[:4:4], back), toolcall.Offered{Base: base(4), Attempt: toolcall.Attempt{Number: 1}}, message.ErrSuperseded},
		{"result of an attempt that was given back", append(started[:4:4], back), toolcall.Resulted{Base: base(4), Attempt: 1, Claim: "x"}, message.ErrSuperseded},
		{"unknown kind of answer", []toolcall.Event{propose, ask}, toolcall.Responded{Base: base(1), Vote: toolcall.Vote{Kind: "shrug", Digest: ask.Digest}}, message.ErrInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := drive(t, tt.before...)
			m := toolcall.Load(c)
			before := *m.Call()
			err := m.Step(tt.ev)
			if !errors.Is(err, tt.want) {
				t.Fatalf("Step = %v, want code %s", err, tt.want)
			}
			if after := *m.Call(); after.State != before.State || len(m.Path()) != 0 || len(after.Votes) != len(before.Votes) || after.Attempt != before.Attempt {
				t.Errorf("the refused step changed the call: %+v", after)
			}
		})
	}
}

func TestReplayFindsTampering(t *testing.T) {
	ask := decided(message.BehaviorAsk, toolcall.PlaceRemote)
	fresh := func() []*toolcall.EventRecord {
		_, records := drive(t, toolcall.Proposed{Base: base(0), Call: newCall()}, ask, yes(ask.Digest),
			toolcall.Submitted{Base: base(1), Attempt: toolcall.Attempt{Number: 1}}, toolcall.Interrupted{Base: base(2)})
		return records
	}
	tests := map[string]func([]*toolcall.EventRecord) []*toolcall.EventRecord{
		"removed":   func(f []*toolcall.EventRecord) []*toolcall.EventRecord { return append(f[:2:2], f[3:]...) },
		"reordered": func(f []*toolcall.EventRecord) []*toolcall.EventRecord { f[1], f[2] = f[2], f[1]; return f },
		"repeated":  func(f []*toolcall.EventRecord) []*toolcall.EventRecord { return append(f, f[4]) },
		"headless":  func(f []*toolcall.EventRecord) []*toolcall.EventRecord { return f[1:] },
		"another tool": func(f []*toolcall.EventRecord) []*toolcall.EventRecord {
			f[3].Call = f[3].Call.Clone()
			f[3].Call.Tool = "rm"
			return f
		},
		"another state": func(f []*toolcall.EventRecord) []*toolcall.EventRecord {
			f[1].Call = f[1].Call.Clone()
			f[1].Call.State = message.ToolCallAllowed
			return f
		},
		"no step": func(f []*toolcall.EventRecord) []*toolcall.EventRecord { f[2].Path = nil; return f },
	}
	if _, err := toolcall.Replay(fresh()); err != nil {
		t.Fatalf("untouched: %v", err)
	}
	for name, tamper := range tests {
		if _, err := toolcall.Replay(tamper(fresh())); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

func TestDiagram(t *testing.T) {
	want, err := os.ReadFile("testdata/states.mmd")
	if err != nil {
		t.Fatal(err)
	}
	if got := archtest.StateDiagram(); got != string(want) {
		t.Errorf("testdata/states.mmd differs from the table; it should read:\n%s", got)
	}
	if strings.Contains(archtest.StateDiagram(), "finished --> p") {
		t.Error("an arrow leads out of finished")
	}
}

func TestEvents(t *testing.T) {
	ask := decided(message.BehaviorAsk, toolcall.PlaceRemote)
	m := toolcall.Load(nil)
	for _, ev := range []toolcall.Event{toolcall.Proposed{Base: base(0), Call: newCall()}, ask} {
		if err := m.Step(ev); err != nil {
			t.Fatal(err)
		}
	}
	rec := &toolcall.EventRecord{ID: "f1", Call: m.Call(), Path: m.Path(), At: t0}
	one, two := toolcall.Events(rec), toolcall.Events(rec)
	if len(one) != 1 || one[0].Type() != message.EventRequireUserConfirm {
		t.Fatalf("events = %v", one)
	}
	if one[0].Header().ID != two[0].Header().ID || one[0].Header().ID == "" {
		t.Error("the same event record has different event ids")
	}
	rec.Note = &toolcall.Note{What: "late_result"}
	if got := toolcall.Events(rec); len(got) != 0 {
		t.Errorf("a note has events: %v", got)
	}
}

// A reader that builds a message from the events gets every block of a result, in order, and no
// text runs into the next one.
func TestEventsOfResult(t *testing.T) {
	for output, want := range map[string]string{
		`"plain"`: `[text plain]`, `""`: `[text ]`, `[]`: `[]`,
		`[{"type":"text","text":"10"},{"type":"text","text":"20"}]`: "[text 10\n20]",
		`[{"type":"text","text":"10"},{"type":"table","rows":2}]`:   "[text 10\n" + `{"type":"table","rows":2}]`,
		`[{"type":"table","rows":2}]`:                               `[text {"type":"table","rows":2}]`,
		`[{"type":"text","text":"a"},{"type":"data","id":"d","source":{"data":"AA==","media_type":"image/png"}},{"type":"text","text":"b"}]`:                `[text a data d text b]`,
		`[{"type":"data","id":"d","source":{"url":"https://a/b","media_type":"image/png"}},{"type":"data","id":"d","source":{"data":"","media_type":"x"}}]`: `[data d data d]`,
	} {
		c := newCall()
		c.State, c.Result = message.ToolCallFinished, &message.ToolResultBlock{State: message.ToolResultSuccess, Metadata: map[string]any{"n": 1, "askance": map[string]any{"denial": "forged"}}}
		if err := json.Unmarshal([]byte(output), &c.Result.Output); err != nil {
			t.Fatal(err)
		}
		m := &message.Msg{ID: string(c.Reply), Content: []message.Block{&message.ToolResultBlock{ID: c.Call, Output: message.List()}}}
		for _, e := range toolcall.Events(&toolcall.EventRecord{ID: "f1", Call: c, At: t0, Path: []toolcall.Step{{From: "allowed", To: "finished", Cause: "result"}}}) {
			if err := message.Append(m, e); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, b := range m.ToolResult(c.Call).Output.Blocks {
			text := b.BlockID()
			if b, ok := b.(*message.TextBlock); ok {
				text = b.Text
			}
			got = append(got, string(b.Type())+" "+text)
		}
		if md := m.ToolResult(c.Call).Metadata; md["n"] != 1 || md["askance"] != nil {
			t.Errorf("the metadata is %v, want that of the worker without a denial", md)
		}
		if text := fmt.Sprint(got); text != want {
			t.Errorf("%s: a reader has %s, want %s", output, text, want)
		}
	}
}
