package agui_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/codectest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
)

// request returns an open interrupt about the call c-ID.
func request(id string, edits, rules bool) agui.Interrupt {
	return agui.Interrupt{
		ID: id, Reason: agui.ReasonToolCall, ToolCallID: new("c-" + id), ResponseSchema: agui.ResponseSchema(edits, rules),
		Metadata: message.RawJSON(`{"askance":{"toolCallId":"c-` + id + `","toolName":"refund","arguments":"{\"cents\":500}"}}`),
	}
}

func resolved(id, payload string) agui.ResumeEntry {
	return agui.ResumeEntry{InterruptID: id, Status: agui.ResumeResolved, Payload: message.RawJSON(payload)}
}

func cancelled() agui.ResumeEntry {
	return agui.ResumeEntry{InterruptID: "i", Status: agui.ResumeCancelled}
}

const (
	yes  = `{"approved":true}`
	rule = `{"tool_name":"refund","rule_content":null,"behavior":"allow","source":"suggested"}`
)

func TestResume(t *testing.T) {
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	plain, editable, full := request("i", false, false), request("i", true, false), request("i", true, true)
	late, broken := plain, plain
	late.ExpiresAt, broken.ExpiresAt = new("2026-03-01T09:00:00Z"), new("tomorrow")
	soon := plain
	soon.ExpiresAt = new("2026-03-01T10:00:01+01:00")
	bare := plain
	bare.ResponseSchema = nil
	busy := agui.Interrupt{ID: "i", Reason: agui.ReasonExternal}
	two := []agui.Interrupt{plain, request("j", false, false)}
	settled := map[string]agui.ResumeEntry{"i": resolved("i", `{"approved":true,"editedArgs":{"a":1}}`)}
	tests := []struct {
		name    string
		thread  agui.Thread
		entries []agui.ResumeEntry
		want    string // code of the refusal, or a summary
	}{
		{"nothing open", agui.Thread{}, nil, ""},
		{"no entries", agui.Thread{Open: two}, nil, agui.CodeInterruptPending},
		{"empty entries", agui.Thread{Open: two}, []agui.ResumeEntry{}, agui.CodeInterruptPending},
		{"partial", agui.Thread{Open: two}, []agui.ResumeEntry{resolved("i", yes)}, agui.CodeResumeIncomplete},
		{"only a stray", agui.Thread{Open: two}, []agui.ResumeEntry{resolved("x", yes)}, agui.CodeResumeIncomplete},
		{"both", agui.Thread{Open: two}, []agui.ResumeEntry{resolved("j", `{"approved":false}`), resolved("i", yes)}, "i yes, j no"},
		{"stray and known", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{resolved("x", "1"), resolved("i", yes)}, "i yes, stray x"},
		{"cancelled", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{cancelled()}, "i abandoned"},
		{"twice the same", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{resolved("i", yes), resolved("i", ` { "approved" : true } `)}, "i yes"},
		{"twice, with inexact edits", agui.Thread{Open: []agui.Interrupt{editable}}, []agui.ResumeEntry{resolved("i", `{"approved":true,"editedArgs":{"a":9007199254740993.0}}`), resolved("i", `{"approved":true,"editedArgs":{"a":9007199254740992.0}}`)}, agui.CodeResumeConflict},
		{"twice otherwise", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{resolved("i", yes), cancelled()}, agui.CodeResumeConflict},
		{"twice a stray, otherwise", agui.Thread{}, []agui.ResumeEntry{resolved("i", yes), cancelled()}, agui.CodeResumeConflict},

		{"no payload", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{{InterruptID: "i", Status: agui.ResumeResolved}}, agui.CodePayloadInvalid},
		{"payload is no object", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{resolved("i", "true")}, agui.CodePayloadInvalid},
		{"not said", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{resolved("i", "{}")}, agui.CodePayloadInvalid},
		{"said as text", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{resolved("i", `{"approved":"true"}`)}, agui.CodePayloadInvalid},
		{"other case", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{resolved("i", `{"Approved":true}`)}, agui.CodePayloadInvalid},
		{"misspelt edit", agui.Thread{Open: []agui.Interrupt{full}}, []agui.ResumeEntry{resolved("i", `{"approved":true,"editedargs":{}}`)}, agui.CodePayloadInvalid},
		{"edit", agui.Thread{Open: []agui.Interrupt{editable}}, []agui.ResumeEntry{resolved("i", `{"approved":true,"editedArgs":{"a": 1}}`)}, `i yes {"a": 1}`},
		{"edit that is not offered", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{resolved("i", `{"approved":true,"editedArgs":{}}`)}, agui.CodePayloadInvalid},
		{"edit without a schema", agui.Thread{Open: []agui.Interrupt{bare}}, []agui.ResumeEntry{resolved("i", `{"approved":true,"editedArgs":{}}`)}, agui.CodePayloadInvalid},
		{"edit is no object", agui.Thread{Open: []agui.Interrupt{editable}}, []agui.ResumeEntry{resolved("i", `{"approved":true,"editedArgs":[]}`)}, agui.CodePayloadInvalid},
		{"denied, with an edit", agui.Thread{Open: []agui.Interrupt{editable}}, []agui.ResumeEntry{resolved("i", `{"approved":false,"editedArgs":{}}`)}, agui.CodePayloadInvalid},
		{"rule", agui.Thread{Open: []agui.Interrupt{full}}, []agui.ResumeEntry{resolved("i", `{"approved":true,"rules":[`+rule+`]}`)}, "i yes, 1 rules"},
		{"rule that is not offered", agui.Thread{Open: []agui.Interrupt{editable}}, []agui.ResumeEntry{resolved("i", `{"approved":true,"rules":[]}`)}, agui.CodePayloadInvalid},
		{"rule that is none", agui.Thread{Open: []agui.Interrupt{full}}, []agui.ResumeEntry{resolved("i", `{"approved":true,"rules":[{}]}`)}, agui.CodePayloadInvalid},
		{"denied, with a rule", agui.Thread{Open: []agui.Interrupt{full}}, []agui.ResumeEntry{resolved("i", `{"approved":false,"rules":[`+rule+`]}`)}, agui.CodePayloadInvalid},
		{"feedback", agui.Thread{Open: two[:1]}, []agui.ResumeEntry{resolved("i", `{"approved":false,"feedback":"too much"}`)}, "i no too much"},

		{"expired", agui.Thread{Open: []agui.Interrupt{late}}, []agui.ResumeEntry{resolved("i", yes)}, agui.CodeInterruptExpired},
		{"expired, cancelled", agui.Thread{Open: []agui.Interrupt{late}}, []agui.ResumeEntry{cancelled()}, "i abandoned"},
		{"not yet expired", agui.Thread{Open: []agui.Interrupt{soon}}, []agui.ResumeEntry{resolved("i", yes)}, "i yes"},
		{"unreadable expiry", agui.Thread{Open: []agui.Interrupt{broken}}, []agui.ResumeEntry{resolved("i", yes)}, agui.CodeInterruptExpired},
		{"worker", agui.Thread{Open: []agui.Interrupt{busy}}, []agui.ResumeEntry{{InterruptID: "i", Status: agui.ResumeResolved}}, "i no"},

		{"replayed", agui.Thread{Settled: settled}, []agui.ResumeEntry{resolved("i", `{"editedArgs":{"a":1},"approved":true}`)}, "replayed i"},
		{"overtaken", agui.Thread{Settled: settled}, []agui.ResumeEntry{resolved("i", yes)}, "overtaken i"},
		{"overtaken while open", agui.Thread{Open: two[:1], Settled: settled}, []agui.ResumeEntry{cancelled()}, "overtaken i"},
		{"resolved needs no entry", agui.Thread{Open: two, Settled: settled}, []agui.ResumeEntry{resolved("j", yes)}, "j yes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.thread.Resume(tt.entries, now)
			if refusal, ok := errors.AsType[*agui.RefusalError](err); ok {
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

func summary(r *agui.Resumption) string {
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
	for name, entries := range map[string][]agui.ResumeEntry{"replayed ": r.Replayed, "overtaken ": r.Overtaken, "stray ": r.Strays} {
		for _, e := range entries {
			out = append(out, name+e.InterruptID)
		}
	}
	return strings.Join(out, ", ")
}

// The answer repeats what a mapper asked.
func TestResponseNamesWhatWasAsked(t *testing.T) {
	m := agui.NewMapper(agui.Run{Peer: agui.Peer10}, agui.Mapping{})
	out := mapAll(m, scope(t, append(modelTurn, askRefund)...))
	end, ok := out[len(out)-1].(*agui.RunFinished)
	if !ok {
		t.Fatalf("ended with %T", out[len(out)-1])
	}
	thread := agui.Thread{Open: end.Outcome.Interrupts}
	r, err := thread.Resume([]agui.ResumeEntry{resolved(thread.Open[0].ID, yes)}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `"toolCallId":"c1","toolName":"refund"`
	if got := string(r.Answers[0].Interrupt.Metadata); !strings.Contains(got, want) || !strings.Contains(got, `"arguments":"{\"cents\":500}"`) {
		t.Errorf("the answer is about %s", got)
	}
}

func TestToolResults(t *testing.T) {
	in, err := agui.DecodeRunInput([]byte(`{"threadId":"t","runId":"r","messages":[
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
	m := agui.Message{ID: "m", Role: agui.RoleUser, Content: &agui.Content{Parts: []agui.Part{
		{Type: agui.PartText, Text: "look"}, {Type: agui.PartImage, ID: new("p"), Source: &agui.Source{Type: agui.SourceData, Value: "AA==", MimeType: new("image/png")}},
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
	named := agui.Message{ID: "m", Role: agui.RoleUser, Name: new("ann"), Content: agui.Text("hi")}
	if got, err := named.UserMsg(codec, "bob"); err != nil || got.Name != "ann" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := (&agui.Message{Role: agui.RoleSystem, Content: agui.Text("x")}).UserMsg(codec, "bob"); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
}
