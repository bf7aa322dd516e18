package agui_test

import (
	"slices"
	"testing"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
)

func TestPeerOf(t *testing.T) {
	tests := []struct {
		version *string
		want    agui.Peer
		refused bool
	}{
		{nil, agui.PeerLegacy, false},
		{new("1.0"), agui.Peer10, false},
		{new("1.7"), agui.Peer10, false},
		{new("2.0"), agui.PeerLegacy, true},
		{new("0.9"), agui.PeerLegacy, true},
		{new("99999999999999999999.0"), agui.PeerLegacy, true},
		{new("0.0.59"), agui.Peer10, false}, // not MAJOR.MINOR, so it counts as newer
		{new(""), agui.Peer10, false},
		{new("-1.0"), agui.Peer10, false},
		{new("next"), agui.Peer10, false},
	}
	for _, tt := range tests {
		got, err := agui.PeerOf(tt.version)
		if got != tt.want || (err != nil) != tt.refused {
			t.Errorf("PeerOf(%v) = %v, %v; want %v, refused %t", tt.version, got, err, tt.want, tt.refused)
		}
	}
}

// Adapt changes exactly what peers before 1.0 refuse. The echo of an input is in the list because
// the recorded one lacks tools and context, which the encoder always writes.
func TestAdaptVectors(t *testing.T) {
	for _, v := range vectors(t) {
		if !v.Schema.Valid || v.ID == "run-started-input-resume" {
			continue
		}
		e, err := aguitest.DecodeEvent(v.Event)
		if err != nil {
			t.Fatal(err)
		}
		if same, lost := agui.Peer10.Adapt(e); same != e || lost != nil {
			t.Errorf("%s: changed for a peer of 1.0", v.ID)
		}
		got, _ := agui.PeerLegacy.Adapt(e)
		if (got == e) != v.Pre1.Valid {
			t.Errorf("%s: changed: %t, accepted by the schema before 1.0: %t", v.ID, got != e, v.Pre1.Valid)
		}
	}
}

func TestAdapt(t *testing.T) {
	text := agui.Part{Type: agui.PartText, Text: "see "}
	image := agui.Part{Type: agui.PartImage, Source: &agui.Source{Type: agui.SourceData, Value: "AA==", MimeType: new("image/png")}}
	file := agui.Part{Type: agui.PartDocument, Source: &agui.Source{Type: agui.SourceFile, Value: "file-1"}}
	user := agui.Message{ID: "u", Role: agui.RoleUser, Content: &agui.Content{Parts: []agui.Part{text, image, file}}}
	plain := agui.Message{ID: "a", Role: agui.RoleAssistant}
	tool := agui.Message{ID: "t", Role: agui.RoleTool, ToolCallID: "c", Content: &agui.Content{Parts: []agui.Part{text, image, text}}}
	meta := agui.Base{Metadata: message.RawJSON(`{"k":1}`)}
	tests := []struct {
		name string
		in   agui.Event
		want string
		lost []agui.Loss
	}{
		{
			"cancelled", &agui.RunFinished{Base: meta, ThreadID: "t", RunID: "r", Outcome: &agui.Outcome{Type: agui.OutcomeCancelled}},
			`{"type":"RUN_ERROR","message":"the run was cancelled","code":"cancelled","metadata":{"k":1}}`,
			[]agui.Loss{agui.LossCancelled},
		},
		{
			"pending calls", &agui.RunFinished{ThreadID: "t", RunID: "r", Outcome: &agui.Outcome{Type: agui.OutcomeSuccess, PendingToolCallIDs: []string{"c"}}},
			`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}`,
			[]agui.Loss{agui.LossPending},
		},
		{
			"result with text alone", &agui.ToolCallResult{MessageID: "m", ToolCallID: "c", Content: agui.Content{Parts: []agui.Part{text, text}}},
			`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"see \nsee "}`,
			nil,
		},
		{
			"result with media", &agui.ToolCallResult{MessageID: "m", ToolCallID: "c", Content: *tool.Content},
			`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"see \nsee "}`,
			[]agui.Loss{agui.LossResultMedia},
		},
		{
			"messages", &agui.MessagesSnapshot{Messages: []agui.Message{plain, user, tool}},
			`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant"},{"id":"u","role":"user","content":[{"type":"text","text":"see "},` +
				`{"type":"image","source":{"type":"data","value":"AA==","mimeType":"image/png"}}]},{"id":"t","role":"tool","toolCallId":"c","content":"see \nsee "}]}`,
			[]agui.Loss{agui.LossResultMedia, agui.LossResultMedia},
		},
		{
			"echo", &agui.RunStarted{ThreadID: "t", RunID: "r", Input: &agui.RunInput{ThreadID: "t", RunID: "r", Messages: []agui.Message{tool}}},
			`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[{"id":"t","role":"tool","toolCallId":"c","content":"see \nsee "}],"tools":[],"context":[]}}`,
			[]agui.Loss{agui.LossResultMedia},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, err := agui.AppendJSON(nil, tt.in)
			if err != nil {
				t.Fatal(err)
			}
			out, lost := agui.PeerLegacy.Adapt(tt.in)
			got, err := agui.AppendJSON(nil, out)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want || !slices.Equal(lost, tt.lost) {
				t.Errorf("got %s, lost %v\nwant %s, lost %v", got, lost, tt.want, tt.lost)
			}
			if after, _ := agui.AppendJSON(nil, tt.in); string(after) != string(before) {
				t.Errorf("the event itself changed: %s", after)
			}
		})
	}
}
