package agui

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/codectest"
	"github.com/askance-dev/askance/message"
)

// hostile are seeds that have broken decoders elsewhere.
var hostile = []string{
	``, `{}`, `null`, `[]`, `{"type":`, `{"type":null}`, `{"type":7}`, `{"type":"RUN_STARTED","type":"RUN_ERROR"}`,
	`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/~2","value":1}]}`, "{\"type\":\"CUSTOM\",\"name\":\"\xff\",\"value\":1}",
	`{"type":"CUSTOM","name":"\ud800","value":1}`, `{"type":"RAW","event":1e400}`, `{"type":"RAW","event":[[[[[[[[[]]]]]]]]]}`,
	`{"type":"TEXT_MESSAGE_END","messageId":"m","timestamp":-0}`, `{"type":"TEXT_MESSAGE_END","messageId":"m","timestamp":1e3}`,
	`{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"paused"}}`, `{"type":"THINKING_END"}`,
	`{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":1}`,
	`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"binary","mimeType":"image/png","data":"AA=="},{"type":"hologram"}]}`,
	`{"threadId":"","runId":"","messages":[{"id":"","role":"user","content":[{"type":"binary","mimeType":"a/b","url":"x","filename":"\u0000"}]}],"state":null,"tools":null}`,
}

// FuzzDecodeEvent reads what the client would. What was read is written as
// something that the strict decoder takes, and stays the same.
func FuzzDecodeEvent(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
	}
	for _, v := range vectors(f) {
		f.Add([]byte(v.Event))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decoder
		e, err := d.Event(data)
		if err != nil {
			return
		}
		if _, ok := e.(*Unknown); ok {
			return
		}
		codectest.Stable(t, e, MaxFrameBytes, DecodeEvent)
	})
}

// FuzzDecodeRunInput is FuzzDecodeEvent for a run's input.
func FuzzDecodeRunInput(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"i","status":"resolved","payload":{"approved":true}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := DecodeRunInput(data)
		if err != nil {
			return
		}
		d := Decoder{Strict: true}
		codectest.Stable(t, in, MaxFrameBytes, d.RunInput)
	})
}

// FuzzReader reads a whole stream, whatever its frames are.
func FuzzReader(f *testing.F) {
	f.Add([]byte("data: {\"type\":\"STEP_STARTED\",\"stepName\":\"a\"}\n\n: c\n\ndata:{}\n"))
	f.Add([]byte("\n\n\r\n\ndata:\ndata:\n\nevent: data:\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewReader(bytes.NewReader(stream), nil)
		for range len(stream) + 1 {
			if _, err := r.Next(); err != nil {
				return
			}
		}
		t.Fatal("more events than bytes")
	})
}

// FuzzAnswer answers a question with any payload. Nothing but a payload that
// says so, exactly so, approves.
func FuzzAnswer(f *testing.F) {
	for _, s := range append(hostile, yes, `{"approved":true,"editedArgs":{"a":1},"rules":[`+rule+`],"feedback":""}`, `{"approved":false}`, `{"Approved":true}`) {
		f.Add([]byte(s))
	}
	thread := Thread{Open: []Interrupt{question("i", true, true)}}
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := thread.Resume([]ResumeEntry{{InterruptID: "i", Status: ResumeResolved, Payload: payload}}, time.Time{})
		if err != nil || !r.Answers[0].Approved {
			return
		}
		var says struct {
			Approved   bool            `json:"approved"`
			EditedArgs json.RawMessage `json:"editedArgs"`
		}
		if err := json.Unmarshal(payload, &says); err != nil || !says.Approved || !bytes.Equal(says.EditedArgs, r.Answers[0].Edited) {
			t.Fatalf("approved by %q: %v", payload, err)
		}
	})
}

// FuzzImporter reads a whole stream into AgentScope events, each of which
// AgentScope's codec can write and read.
func FuzzImporter(f *testing.F) {
	var stream []byte
	for _, v := range vectors(f) {
		stream = append(append(append(stream, "data: "...), v.Event...), "\n\n"...)
		f.Add([]byte("data: " + started + "\n\ndata: " + string(v.Event) + "\n\ndata: " + finished + "\n\n"))
	}
	f.Add(stream)
	f.Fuzz(func(t *testing.T, stream []byte) {
		im, codec := &Importer{}, message.Codec{MaxBytes: MaxFrameBytes}
		for r := NewReader(bytes.NewReader(stream), nil); ; {
			e, err := r.Next()
			if err != nil {
				return
			}
			events, err := im.Import(e)
			if err != nil {
				return
			}
			for _, e := range events {
				codectest.Stable(t, e, MaxFrameBytes, codec.DecodeEvent)
			}
		}
	})
}
