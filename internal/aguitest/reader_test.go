package aguitest_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
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
				n, err := drain(aguitest.NewReader(in, nil))
				if n != tt.want || (err != nil) != tt.fatal {
					t.Errorf("%d events and %v, want %d and fatal %t", n, err, tt.want, tt.fatal)
				}
			}
		})
	}
}

// drain reads to the end and checks that the error at the end is repeated.
func drain(r *aguitest.Reader) (n int, err error) {
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
	long := "data: " + strings.Repeat(" ", agui.MaxFrameBytes)
	_, err := aguitest.NewReader(strings.NewReader(long), nil).Next()
	if !errors.Is(err, message.ErrTooLarge) {
		t.Errorf("got %v, want too large", err)
	}
	broken := errors.New("broken")
	if _, err := aguitest.NewReader(iotest.ErrReader(broken), nil).Next(); !errors.Is(err, broken) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

// The five THINKING events had no ids. The events of one span get the same id, and so do those of
// its message, so the stream verifies.
func TestDecoderTranslatesThinking(t *testing.T) {
	frames := []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, `{"type":"THINKING_START","title":"plan"}`,
		`{"type":"THINKING_TEXT_MESSAGE_START","rawEvent":null,"role":"x"}`, `{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"hm"}`,
		`{"type":"THINKING_TEXT_MESSAGE_END"}`, `{"type":"THINKING_END"}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
	}
	var seen []string
	d := &aguitest.Decoder{OnDeviation: func(dev agui.Deviation) { seen = append(seen, fmt.Sprint(dev.Kind, " ", dev.Path)) }}
	r := aguitest.NewReader(strings.NewReader("data: "+strings.Join(frames, "\n\ndata: ")), d)
	var v aguitest.Verifier
	for range frames {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Check(e); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"retired /type", "retired /title", "retired /type", "unknown_member /role", "null /rawEvent", "retired /type", "retired /type", "retired /type"}
	if !slices.Equal(seen, want) {
		t.Errorf("reported %q, want %q", seen, want)
	}
}

// The client drops events of unknown types and continues.
func TestDecoderDropsUnknownTypes(t *testing.T) {
	var seen []agui.Deviation
	d := &aguitest.Decoder{OnDeviation: func(dev agui.Deviation) { seen = append(seen, dev) }}
	e, err := aguitest.NewReader(strings.NewReader("data: {\"type\":\"NEW_THING\", \"a\":1}\n\ndata: {\"type\":\"STEP_STARTED\",\"stepName\":\"s\"}\n\n"), d).Next()
	if err != nil || agui.TypeOf(e) != "STEP_STARTED" {
		t.Errorf("got %v, %v; want the event after the unknown one", e, err)
	}
	if len(seen) != 1 || seen[0].Kind != aguitest.DeviationType || seen[0].Path != "/type" {
		t.Errorf("reported %v", seen)
	}
}
