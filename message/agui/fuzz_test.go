package agui_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/internal/codectest"
	"github.com/askance-dev/askance/message/agui"
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

func encodeObject[T agui.Object](v T) ([]byte, error) { return agui.AppendJSON(nil, v) }

// FuzzDecodeEvent decodes as the client would. Decoded events encode to something that the strict
// decoder accepts, and stay the same.
func FuzzDecodeEvent(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
	}
	for _, v := range vectors(f) {
		f.Add([]byte(v.Event))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d aguitest.Decoder
		e, err := d.Event(data)
		if err != nil || e == nil {
			return
		}
		codectest.Stable(t, e, agui.MaxFrameBytes, encodeObject, aguitest.DecodeEvent)
	})
}

// FuzzDecodeRunInput is FuzzDecodeEvent for a run's input.
func FuzzDecodeRunInput(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"i","status":"resolved","payload":{"approved":true}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := agui.DecodeRunInput(data)
		if err != nil {
			return
		}
		d := agui.Decoder{Strict: true}
		codectest.Stable(t, in, agui.MaxFrameBytes, encodeObject, func(data []byte) (*agui.RunInput, error) {
			back := new(agui.RunInput)
			return back, d.Decode(data, back)
		})
	})
}

// FuzzResponse answers an approval request with any payload. Only a payload that says so exactly
// approves.
func FuzzResponse(f *testing.F) {
	for _, s := range append(hostile, yes, `{"approved":true,"editedArgs":{"a":1},"rules":[`+rule+`],"feedback":""}`, `{"approved":false}`, `{"Approved":true}`) {
		f.Add([]byte(s))
	}
	thread := agui.Thread{Open: []agui.Interrupt{request("i", true, true)}}
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := thread.Resume([]agui.ResumeEntry{{InterruptID: "i", Status: agui.ResumeResolved, Payload: payload}}, time.Time{})
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
