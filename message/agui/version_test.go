package agui

import (
	"slices"
	"testing"

	"github.com/askance-dev/askance/message"
)

func TestPeerOf(t *testing.T) {
	tests := []struct {
		version *string
		want    Peer
		refused bool
	}{
		{nil, PeerLegacy, false},
		{new("1.0"), Peer10, false},
		{new("1.7"), Peer10, false},
		{new("2.0"), PeerLegacy, true},
		{new("0.9"), PeerLegacy, true},
		{new("99999999999999999999.0"), PeerLegacy, true},
		{new("0.0.59"), Peer10, false}, // no MAJOR.MINOR: taken for newer
		{new(""), Peer10, false},
		{new("-1.0"), Peer10, false},
		{new("next"), Peer10, false},
	}
	for _, tt := range tests {
		got, err := PeerOf(tt.version)
		if got != tt.want || (err != nil) != tt.refused {
			t.Errorf("PeerOf(%v) = %v, %v; want %v, refused %t", tt.version, got, err, tt.want, tt.refused)
		}
	}
}

// Adapt changes exactly what peers before 1.0 refuse. The echo of an input is
// in the list because the recorded one lacks tools and context; the encoder
// always writes both.
func TestAdaptVectors(t *testing.T) {
	for _, v := range vectors(t) {
		if !v.Schema.Valid || v.ID == "run-started-input-resume" {
			continue
		}
		e, err := DecodeEvent(v.Event)
		if err != nil {
			t.Fatal(err)
		}
		if same, lost := Peer10.Adapt(e); same != e || lost != nil {
			t.Errorf("%s: changed for a peer of 1.0", v.ID)
		}
		got, _ := PeerLegacy.Adapt(e)
		if (got == e) != v.Pre1.Valid {
			t.Errorf("%s: changed is %t, the schema before 1.0 takes it: %t", v.ID, got != e, v.Pre1.Valid)
		}
	}
}

func TestAdapt(t *testing.T) {
	text := Part{Type: PartText, Text: "see "}
	image := Part{Type: PartImage, Source: &Source{Type: SourceData, Value: "AA==", MimeType: new("image/png")}}
	file := Part{Type: PartDocument, Source: &Source{Type: SourceFile, Value: "file-1"}}
	user := Message{ID: "u", Role: RoleUser, Content: &Content{Parts: []Part{text, image, file}}}
	plain := Message{ID: "a", Role: RoleAssistant}
	tool := Message{ID: "t", Role: RoleTool, ToolCallID: "c", Content: &Content{Parts: []Part{text, image, text}}}
	meta := Base{Metadata: message.RawJSON(`{"k":1}`)}
	tests := []struct {
		name string
		in   Event
		want string
		lost []Loss
	}{
		{
			"cancelled", &RunFinished{Base: meta, ThreadID: "t", RunID: "r", Outcome: &Outcome{Type: OutcomeCancelled}},
			`{"type":"RUN_ERROR","message":"the run was cancelled","code":"cancelled","metadata":{"k":1}}`,
			[]Loss{LossCancelled},
		},
		{
			"pending calls", &RunFinished{ThreadID: "t", RunID: "r", Outcome: &Outcome{Type: OutcomeSuccess, PendingToolCallIDs: []string{"c"}}},
			`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}`,
			[]Loss{LossPending},
		},
		{
			"result with text alone", &ToolCallResult{MessageID: "m", ToolCallID: "c", Content: Content{Parts: []Part{text, text}}},
			`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"see see "}`,
			nil,
		},
		{
			"result with media", &ToolCallResult{MessageID: "m", ToolCallID: "c", Content: *tool.Content},
			`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"see see "}`,
			[]Loss{LossResultMedia},
		},
		{
			"messages", &MessagesSnapshot{Messages: []Message{plain, user, tool}},
			`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant"},{"id":"u","role":"user","content":[{"type":"text","text":"see "},` +
				`{"type":"image","source":{"type":"data","value":"AA==","mimeType":"image/png"}}]},{"id":"t","role":"tool","toolCallId":"c","content":"see see "}]}`,
			[]Loss{LossResultMedia, LossResultMedia},
		},
		{
			"echo", &RunStarted{ThreadID: "t", RunID: "r", Input: &RunInput{ThreadID: "t", RunID: "r", Messages: []Message{tool}}},
			`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[{"id":"t","role":"tool","toolCallId":"c","content":"see see "}],"tools":[],"context":[]}}`,
			[]Loss{LossResultMedia},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, err := AppendJSON(nil, tt.in)
			if err != nil {
				t.Fatal(err)
			}
			out, lost := PeerLegacy.Adapt(tt.in)
			got, err := AppendJSON(nil, out)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want || !slices.Equal(lost, tt.lost) {
				t.Errorf("got %s, lost %v\nwant %s, lost %v", got, lost, tt.want, tt.lost)
			}
			if after, _ := AppendJSON(nil, tt.in); string(after) != string(before) {
				t.Errorf("the event itself changed: %s", after)
			}
		})
	}
}
