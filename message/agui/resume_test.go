package agui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/codectest"
	"github.com/askance-dev/askance/message"
)

// question is an open interrupt about the call c-ID.
func question(id string, edits, rules bool) Interrupt {
	return Interrupt{
		ID: id, Reason: ReasonToolCall, ToolCallID: new("c-" + id), ResponseSchema: AnswerSchema(edits, rules),
		Metadata: message.RawJSON(`{"askance":{"toolCallId":"c-` + id + `","toolName":"refund","arguments":"{\"cents\":500}"}}`),
	}
}

func resolved(id, payload string) ResumeEntry {
	return ResumeEntry{InterruptID: id, Status: ResumeResolved, Payload: message.RawJSON(payload)}
}

func cancelled(id string) ResumeEntry {
	return ResumeEntry{InterruptID: id, Status: ResumeCancelled}
}

const (
	yes  = `{"approved":true}`
	rule = `{"tool_name":"refund","rule_content":null,"behavior":"allow","source":"suggested"}`
)

func TestResume(t *testing.T) {
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	plain, editable, full := question("i", false, false), question("i", true, false), question("i", true, true)
	late, broken := plain, plain
	late.ExpiresAt, broken.ExpiresAt = new("2026-03-01T09:00:00Z"), new("tomorrow")
	soon := plain
	soon.ExpiresAt = new("2026-03-01T10:00:01+01:00")
	bare := plain
	bare.ResponseSchema = nil
	busy := Interrupt{ID: "i", Reason: ReasonExternal}
	two := []Interrupt{plain, question("j", false, false)}
	settled := map[string]ResumeEntry{"i": resolved("i", `{"approved":true,"editedArgs":{"a":1}}`)}
	tests := []struct {
		name    string
		thread  Thread
		entries []ResumeEntry
		want    string // code of the refusal, or a summary
	}{
		{"nothing open", Thread{}, nil, ""},
		{"no entries", Thread{Open: two}, nil, CodeInterruptPending},
		{"empty entries", Thread{Open: two}, []ResumeEntry{}, CodeInterruptPending},
		{"partial", Thread{Open: two}, []ResumeEntry{resolved("i", yes)}, CodeResumeIncomplete},
		{"only a stray", Thread{Open: two}, []ResumeEntry{resolved("x", yes)}, CodeResumeIncomplete},
		{"both", Thread{Open: two}, []ResumeEntry{resolved("j", `{"approved":false}`), resolved("i", yes)}, "i yes, j no"},
		{"stray beside", Thread{Open: two[:1]}, []ResumeEntry{resolved("x", "1"), resolved("i", yes)}, "i yes, stray x"},
		{"cancelled", Thread{Open: two[:1]}, []ResumeEntry{cancelled("i")}, "i abandoned"},
		{"twice the same", Thread{Open: two[:1]}, []ResumeEntry{resolved("i", yes), resolved("i", ` { "approved" : true } `)}, "i yes"},
		{"twice otherwise", Thread{Open: two[:1]}, []ResumeEntry{resolved("i", yes), cancelled("i")}, CodeResumeConflict},
		{"twice a stray, otherwise", Thread{}, []ResumeEntry{resolved("i", yes), cancelled("i")}, CodeResumeConflict},

		{"no payload", Thread{Open: two[:1]}, []ResumeEntry{{InterruptID: "i", Status: ResumeResolved}}, CodePayloadInvalid},
		{"payload is no object", Thread{Open: two[:1]}, []ResumeEntry{resolved("i", "true")}, CodePayloadInvalid},
		{"not said", Thread{Open: two[:1]}, []ResumeEntry{resolved("i", "{}")}, CodePayloadInvalid},
		{"said as text", Thread{Open: two[:1]}, []ResumeEntry{resolved("i", `{"approved":"true"}`)}, CodePayloadInvalid},
		{"other case", Thread{Open: two[:1]}, []ResumeEntry{resolved("i", `{"Approved":true}`)}, CodePayloadInvalid},
		{"misspelt edit", Thread{Open: []Interrupt{full}}, []ResumeEntry{resolved("i", `{"approved":true,"editedargs":{}}`)}, CodePayloadInvalid},
		{"edit", Thread{Open: []Interrupt{editable}}, []ResumeEntry{resolved("i", `{"approved":true,"editedArgs":{"a": 1}}`)}, `i yes {"a": 1}`},
		{"edit that is not offered", Thread{Open: two[:1]}, []ResumeEntry{resolved("i", `{"approved":true,"editedArgs":{}}`)}, CodePayloadInvalid},
		{"edit without a schema", Thread{Open: []Interrupt{bare}}, []ResumeEntry{resolved("i", `{"approved":true,"editedArgs":{}}`)}, CodePayloadInvalid},
		{"edit is no object", Thread{Open: []Interrupt{editable}}, []ResumeEntry{resolved("i", `{"approved":true,"editedArgs":[]}`)}, CodePayloadInvalid},
		{"denied, with an edit", Thread{Open: []Interrupt{editable}}, []ResumeEntry{resolved("i", `{"approved":false,"editedArgs":{}}`)}, CodePayloadInvalid},
		{"rule", Thread{Open: []Interrupt{full}}, []ResumeEntry{resolved("i", `{"approved":true,"rules":[`+rule+`]}`)}, "i yes, 1 rules"},
		{"rule that is not offered", Thread{Open: []Interrupt{editable}}, []ResumeEntry{resolved("i", `{"approved":true,"rules":[]}`)}, CodePayloadInvalid},
		{"rule that is none", Thread{Open: []Interrupt{full}}, []ResumeEntry{resolved("i", `{"approved":true,"rules":[{}]}`)}, CodePayloadInvalid},
		{"denied, with a rule", Thread{Open: []Interrupt{full}}, []ResumeEntry{resolved("i", `{"approved":false,"rules":[`+rule+`]}`)}, CodePayloadInvalid},
		{"feedback", Thread{Open: two[:1]}, []ResumeEntry{resolved("i", `{"approved":false,"feedback":"too much"}`)}, "i no too much"},

		{"expired", Thread{Open: []Interrupt{late}}, []ResumeEntry{resolved("i", yes)}, CodeInterruptExpired},
		{"expired, cancelled", Thread{Open: []Interrupt{late}}, []ResumeEntry{cancelled("i")}, "i abandoned"},
		{"not yet expired", Thread{Open: []Interrupt{soon}}, []ResumeEntry{resolved("i", yes)}, "i yes"},
		{"unreadable expiry", Thread{Open: []Interrupt{broken}}, []ResumeEntry{resolved("i", yes)}, CodeInterruptExpired},
		{"worker", Thread{Open: []Interrupt{busy}}, []ResumeEntry{{InterruptID: "i", Status: ResumeResolved}}, "i no"},

		{"replayed", Thread{Settled: settled}, []ResumeEntry{resolved("i", `{"editedArgs":{"a":1},"approved":true}`)}, "replayed i"},
		{"overtaken", Thread{Settled: settled}, []ResumeEntry{resolved("i", yes)}, "overtaken i"},
		{"overtaken while open", Thread{Open: two[:1], Settled: settled}, []ResumeEntry{cancelled("i")}, "overtaken i"},
		{"settled needs no entry", Thread{Open: two, Settled: settled}, []ResumeEntry{resolved("j", yes)}, "j yes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.thread.Resume(tt.entries, now)
			if refusal, ok := errors.AsType[*RefusalError](err); ok {
				if got != nil || refusal.Code != tt.want || !errors.Is(err, message.ErrInvalid) {
					t.Errorf("refused with %s (%v), want %s", refusal.Code, err, tt.want)
				}
				if e := refusal.Event(); *e.Code != tt.want || e.Message == "" {
					t.Errorf("event %+v", e)
				}
				return
			}
			if s := summary(got); err != nil || s != tt.want {
				t.Errorf("got %q and %v, want %q", s, err, tt.want)
			}
		})
	}
}

func summary(r *Resumption) string {
	var out []string
	for _, a := range r.Answers {
		s := a.Interrupt.ID + map[bool]string{true: " yes", false: " no"}[a.Approved]
		if a.Abandoned {
			s = a.Interrupt.ID + " abandoned"
		}
		if a.Edited != nil {
			s += " " + string(a.Edited)
		}
		if a.Feedback != "" {
			s += " " + a.Feedback
		}
		out = append(out, s)
		if a.Rules != nil {
			out = append(out, fmt.Sprintf("%d rules", len(a.Rules)))
		}
	}
	for name, entries := range map[string][]ResumeEntry{"replayed ": r.Replayed, "overtaken ": r.Overtaken, "stray ": r.Strays} {
		for _, e := range entries {
			out = append(out, name+e.InterruptID)
		}
	}
	return strings.Join(out, ", ")
}

func TestResumptionEvent(t *testing.T) {
	h := message.EventHeader{ID: "e", CreatedAt: "t", Reply: "r"}
	thread := Thread{Open: []Interrupt{question("i", true, true), question("j", true, true)}}
	tests := []struct {
		name    string
		entries []ResumeEntry
		want    string
	}{
		{
			"answers", []ResumeEntry{resolved("i", `{"approved":true,"editedArgs":{"cents":400},"rules":[`+rule+`]}`), cancelled("j")},
			`{"id":"e","created_at":"t","metadata":{},"reply_id":"r","confirm_results":[` +
				`{"confirmed":true,"tool_call":{"type":"tool_call","id":"c-i","name":"refund","input":"{\"cents\":400}","state":"asking","suggested_rules":[],"created_at":"","finished_at":null},"rules":[` + rule + `]},` +
				`{"confirmed":false,"tool_call":{"type":"tool_call","id":"c-j","name":"refund","input":"{\"cents\":500}","state":"asking","suggested_rules":[],"created_at":"","finished_at":null},"rules":null}]` +
				`,"type":"USER_CONFIRM_RESULT"}`,
		},
		{
			"all abandoned", []ResumeEntry{cancelled("i"), cancelled("j")},
			`{"id":"e","created_at":"t","metadata":{},"reply_id":"r","type":"USER_INTERRUPT"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := thread.Resume(tt.entries, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			e, err := r.Event(h)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			codectest.SameJSON(t, got, []byte(tt.want))
		})
	}
	if e, err := (&Resumption{}).Event(h); e != nil || err != nil {
		t.Errorf("nothing open gives %v, %v", e, err)
	}
	foreign := Resumption{Answers: []Answer{{Approved: true, Interrupt: Interrupt{ID: "i", Reason: ReasonToolCall}}}}
	if _, err := foreign.Event(h); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
}

// What a mapper asks, the answer to it says again.
func TestAnswerNamesWhatWasAsked(t *testing.T) {
	m := NewMapper(Run{Peer: Peer10}, Mapping{})
	out := mapAll(m, scope(t, append(modelTurn, askRefund)...))
	end, ok := out[len(out)-1].(*RunFinished)
	if !ok {
		t.Fatalf("ended with %T", out[len(out)-1])
	}
	thread := Thread{Open: end.Outcome.Interrupts}
	r, err := thread.Resume([]ResumeEntry{resolved(thread.Open[0].ID, yes)}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Answers[0].Confirm()
	if err != nil || !c.Confirmed || c.ToolCall.ID != "c1" || c.ToolCall.Name != "refund" || c.ToolCall.Input != `{"cents":500}` {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestToolResults(t *testing.T) {
	in, err := DecodeRunInput([]byte(`{"threadId":"t","runId":"r","messages":[
		{"id":"m1","role":"tool","toolCallId":"a","content":"one"},
		{"id":"m2","role":"tool","toolCallId":"a","content":"two"},
		{"id":"m3","role":"tool","toolCallId":"x","content":"not asked"},
		{"id":"m4","role":"tool","toolCallId":"b","content":"","error":"no"},
		{"id":"m5","role":"tool","toolCallId":"c","content":[{"type":"text","text":"see"},
			{"type":"image","id":"p","source":{"type":"data","value":"AA==","mimeType":"image/png"}},
			{"type":"document","source":{"type":"url","value":"https://x.test/a"}},
			{"type":"document","source":{"type":"url","value":"no url"}},
			{"type":"document","source":{"type":"file","value":"f1","provider":"p"}}],"error":"partly"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got := in.ToolResults(map[string]message.ToolCallBlock{"a": {ID: "a", Name: "ta"}, "b": {ID: "b", Name: "tb"}, "c": {ID: "c", Name: "tc"}, "d": {ID: "d", Name: "td"}})
	want := []string{
		`{"type":"tool_result","id":"a","name":"ta","output":"one","state":"success","metadata":{},"created_at":"","finished_at":null}`,
		`{"type":"tool_result","id":"b","name":"tb","output":"no","state":"error","metadata":{},"created_at":"","finished_at":null}`,
		`{"type":"tool_result","id":"c","name":"tc","output":[{"type":"text","text":"see","id":"","created_at":"","finished_at":null},` +
			`{"type":"data","id":"p","source":{"type":"base64","data":"AA==","media_type":"image/png"},"name":null,"created_at":"","finished_at":null},` +
			`{"type":"data","id":"","source":{"type":"url","url":"https://x.test/a","media_type":"application/octet-stream"},"name":null,"created_at":"","finished_at":null},` +
			`{"type":"text","text":"{\"type\":\"document\",\"source\":{\"type\":\"url\",\"value\":\"no url\"}}","id":"","created_at":"","finished_at":null},` +
			`{"type":"text","text":"{\"type\":\"document\",\"source\":{\"type\":\"file\",\"value\":\"f1\",\"provider\":\"p\"}}","id":"","created_at":"","finished_at":null}` +
			`],"state":"error","metadata":{"ag-ui":{"error":"partly"}},"created_at":"","finished_at":null}`,
	}
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
	for i := range want {
		raw, err := got[i].MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		codectest.SameJSON(t, raw, []byte(want[i]))
	}
}

func TestUserMsg(t *testing.T) {
	codec := message.Codec{Now: func() time.Time { return time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC) }, NewID: func() string { return "new" }}
	m := Message{ID: "m", Role: RoleUser, Content: &Content{Parts: []Part{
		{Type: PartText, Text: "look"}, {Type: PartImage, ID: new("p"), Source: &Source{Type: SourceData, Value: "AA==", MimeType: new("image/png")}},
	}}}
	got, err := m.UserMsg(codec, "bob")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := got.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	codectest.SameJSON(t, raw, []byte(`{"name":"bob","role":"user","id":"m","metadata":{},"created_at":"2026-03-01T09:00:00","usage":null,"finished_at":"2026-03-01T09:00:00","finished_reason":null,"structured_output":null,"error":null,"content":[
		{"type":"text","text":"look","id":"new","created_at":"2026-03-01T09:00:00","finished_at":null},
		{"type":"data","id":"p","source":{"type":"base64","data":"AA==","media_type":"image/png"},"name":null,"created_at":"2026-03-01T09:00:00","finished_at":null}]}`))
	named := Message{ID: "m", Role: RoleUser, Name: new("ann"), Content: Text("hi")}
	if got, err := named.UserMsg(codec, "bob"); err != nil || got.Name != "ann" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := (&Message{Role: RoleSystem, Content: Text("x")}).UserMsg(codec, "bob"); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
}
