package agui_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
	"pgregory.net/rapid"
)

// A client reads the frames of a stream as the events that were encoded.
func TestFramesAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 5).Draw(t, "events")
		var stream []byte
		for _, e := range events {
			if rapid.Bool().Draw(t, "idle") {
				stream = append(stream, ":\n\n"...)
			}
			var err error
			if stream, err = agui.AppendFrame(stream, e); err != nil {
				t.Fatal(err)
			}
		}
		r := aguitest.NewReader(iotest.HalfReader(bytes.NewReader(stream)), &aguitest.Decoder{Strict: true})
		for _, want := range events {
			got, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			a, _ := agui.AppendJSON(nil, want)
			b, _ := agui.AppendJSON(nil, got)
			if !bytes.Equal(a, b) {
				t.Fatalf("got %s, want %s", b, a)
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("got %v, want EOF", err)
		}
	})
}

// An event that cannot be encoded leaves the buffer unchanged.
func TestAppendFrameRefuses(t *testing.T) {
	for _, e := range []agui.Event{
		&agui.Base{},
		&agui.StateSnapshot{},
		&agui.TextMessageEnd{MessageID: "\xff"},
		&agui.RunFinished{Outcome: &agui.Outcome{Type: agui.OutcomeInterrupt}},
		&agui.RunFinished{Outcome: &agui.Outcome{Type: "paused"}},
		&agui.RunFinished{Outcome: &agui.Outcome{Type: agui.OutcomeCancelled, PendingToolCallIDs: []string{}}},
		&agui.TextMessageStart{Role: new(agui.RoleTool)},
		&agui.TextMessageEnd{Tagged: agui.Tagged{Base: agui.Base{Metadata: message.RawJSON("null")}}},
		&agui.TextMessageEnd{Tagged: agui.Tagged{Base: agui.Base{Metadata: message.RawJSON("{")}}},
		&agui.TextMessageEnd{Tagged: agui.Tagged{Base: agui.Base{Timestamp: new(agui.MaxSafe + 1)}}},
		&agui.ActivitySnapshot{Content: message.RawJSON("[]")},
		&agui.StateDelta{Delta: []agui.PatchOp{{Op: agui.PatchAdd}}},
		&agui.StateDelta{Delta: []agui.PatchOp{{Op: agui.PatchRemove, Path: "a"}}},
		&agui.MessagesSnapshot{Messages: []agui.Message{{Role: agui.RoleSystem, Content: &agui.Content{Parts: []agui.Part{}}}}},
		&agui.MessagesSnapshot{Messages: []agui.Message{{Role: agui.RoleUser}}},
		&agui.MessagesSnapshot{Messages: []agui.Message{{Role: agui.RoleUser, Content: agui.Text(""), ToolCallID: "c"}}},
		&agui.ToolCallResult{Content: agui.Content{Parts: []agui.Part{{Type: agui.PartImage}}}},
		&agui.ToolCallResult{Content: agui.Content{Parts: []agui.Part{{Type: agui.PartImage, Source: &agui.Source{Type: agui.SourceData}}}}},
	} {
		out, err := agui.AppendFrame([]byte("before"), e)
		if !errors.Is(err, message.ErrInvalid) || string(out) != "before" {
			t.Errorf("%T: got %q and %v, want an invalid error", e, out, err)
		}
	}
	large := &agui.Custom{Name: strings.Repeat("x", agui.MaxFrameBytes), Value: message.RawJSON("1")}
	if out, err := agui.AppendFrame([]byte("before"), large); !errors.Is(err, message.ErrTooLarge) || string(out) != "before" {
		t.Errorf("%d bytes and %v, want too large", len(out), err)
	}
}
