package agui

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/askance-dev/askance/message"
	"pgregory.net/rapid"
)

func TestReaderFrames(t *testing.T) {
	const a, b = `{"type":"STEP_STARTED","stepName":"a"}`, `{"type":"STEP_FINISHED","stepName":"a"}`
	tests := []struct {
		name, stream string
		want         int
		fatal        bool
	}{
		{"two frames", "data: " + a + "\n\ndata: " + b + "\n\n", 2, false},
		{"no space", "data:" + a + "\n\n", 1, false},
		{"two spaces are one too many, and white space", "data:  " + a + "\n\n", 1, false},
		{"other fields", "event: x\nid: 7\nretry: 1\ndata: " + a + "\n\n", 1, false},
		{"comments", ": keep-alive\n\n: keep-alive\n\ndata: " + a + "\n\n", 1, false},
		{"several data lines", "data: {\"type\":\"STEP_STARTED\",\ndata: \"stepName\":\"a\"}\n\n", 1, false},
		{"no last empty line", "data: " + a + "\n\ndata: " + b, 2, false},
		{"one last line feed", "data: " + a + "\n", 1, false},
		{"more empty lines", "\n\n\ndata: " + a + "\n\n\n\ndata: " + b + "\n\n\n", 2, false},
		{"empty", "", 0, false},
		{"CRLF", "data: " + a + "\r\n\r\ndata: " + b + "\r\n\r\n", 0, true},
		{"two values", "data: " + a + "\ndata: " + b + "\n\n", 0, true},
		{"array", "data: []\n\n", 0, true},
		{"null", "data: null\n\n", 0, true},
		{"no type", "data: {}\n\n", 0, true},
		{"empty type", `data: {"type":""}` + "\n\n", 0, true},
		{"empty data", "data:\n\n", 0, true},
		{"upper case", "DATA: x\n\n", 0, false},
		{"no JSON", "data: <html>\n\n", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(tt.stream), iotest.OneByteReader(strings.NewReader(tt.stream))} {
				n, err := drain(NewReader(in, nil))
				if n != tt.want || (err != nil) != tt.fatal {
					t.Errorf("%d events and %v, want %d and fatal %t", n, err, tt.want, tt.fatal)
				}
			}
		})
	}
}

// drain reads to the end and expects the end to stay.
func drain(r *Reader) (n int, err error) {
	for {
		_, err := r.Next()
		if err == nil {
			n++
			continue
		}
		if _, again := r.Next(); !errors.Is(again, err) {
			return n, errors.New("the error did not stay")
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
}

func TestReaderLimits(t *testing.T) {
	long := "data: " + strings.Repeat(" ", MaxFrameBytes)
	_, err := NewReader(strings.NewReader(long), nil).Next()
	if !errors.Is(err, message.ErrTooLarge) {
		t.Errorf("got %v, want too large", err)
	}
	broken := errors.New("broken")
	if _, err := NewReader(iotest.ErrReader(broken), nil).Next(); !errors.Is(err, broken) {
		t.Errorf("got %v, want the reader's error", err)
	}
	_, err = AppendFrame(nil, &Custom{Name: strings.Repeat("x", MaxFrameBytes), Value: message.RawJSON("1")})
	if !errors.Is(err, message.ErrTooLarge) {
		t.Errorf("got %v, want too large", err)
	}
}

func TestWriterReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire bytes.Buffer
		w := NewWriter(&wire, Peer10)
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 5).Draw(t, "events")
		for _, e := range events {
			if rapid.Bool().Draw(t, "idle") {
				if err := w.KeepAlive(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		r := NewReader(iotest.HalfReader(&wire), &Decoder{Strict: true})
		for _, want := range events {
			got, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			a, _ := want.MarshalJSON()
			b, _ := got.MarshalJSON()
			if !bytes.Equal(a, b) {
				t.Fatalf("got %s, want %s", b, a)
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("got %v, want EOF", err)
		}
	})
}

// A failed write leaves nothing on the wire.
func TestWriterRefuses(t *testing.T) {
	var wire bytes.Buffer
	for _, e := range []Event{
		&Unknown{Kind: "NEW"},
		&StateSnapshot{},
		&TextMessageEnd{MessageID: "\xff"},
		&RunFinished{Outcome: &Outcome{Type: OutcomeInterrupt}},
		&RunFinished{Outcome: &Outcome{Type: "paused"}},
		&RunFinished{Outcome: &Outcome{Type: OutcomeCancelled, PendingToolCallIDs: []string{}}},
		&TextMessageStart{Role: new(RoleTool)},
		&TextMessageEnd{Tagged: Tagged{Base: Base{Metadata: message.RawJSON("null")}}},
		&TextMessageEnd{Tagged: Tagged{Base: Base{Metadata: message.RawJSON("{")}}},
		&TextMessageEnd{Tagged: Tagged{Base: Base{Timestamp: new(int64(maxSafe + 1))}}},
		&ActivitySnapshot{Content: message.RawJSON("[]")},
		&StateDelta{Delta: []PatchOp{{Op: PatchAdd}}},
		&StateDelta{Delta: []PatchOp{{Op: PatchRemove, Path: "a"}}},
		&MessagesSnapshot{Messages: []Message{{Role: RoleSystem, Content: &Content{Parts: []Part{}}}}},
		&MessagesSnapshot{Messages: []Message{{Role: RoleUser}}},
		&MessagesSnapshot{Messages: []Message{{Role: RoleUser, Content: Text(""), ToolCallID: "c"}}},
		&ToolCallResult{Content: Content{Parts: []Part{{Type: PartImage}}}},
		&ToolCallResult{Content: Content{Parts: []Part{{Type: PartImage, Source: &Source{Type: SourceData}}}}},
	} {
		if err := NewWriter(&wire, Peer10).Write(e); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%T: got %v, want an invalid error", e, err)
		}
	}
	if wire.Len() > 0 {
		t.Errorf("wrote %s", wire.Bytes())
	}
}
