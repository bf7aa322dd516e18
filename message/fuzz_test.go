package message

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/askance-dev/askance/internal/codectest"
)

// seedRows adds the named members of every row of a vector file.
func seedRows(f *testing.F, file string, add func(row map[string]json.RawMessage)) {
	f.Helper()
	data, err := os.ReadFile("testdata/agentscope/" + file)
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var row map[string]json.RawMessage
		if err := json.Unmarshal(line, &row); err != nil {
			f.Fatal(err)
		}
		add(row)
	}
}

// hostile are seeds that have broken decoders elsewhere.
var hostile = []string{
	``, `{}`, `null`, `[]`, `[[[[[[`, `{"type":`, `{"type":null}`, `{"type":"text"}`, `{"type":"TEXT"}`,
	`{"type":"text","text":"a","text":"b"}`, `{"type":"text","Text":"a"}`, "{\"type\":\"text\",\"text\":\"\xff\"}",
	`{"type":"text","text":"\ud800"}`, `{"type":"hologram","deep":[[[[[[[[{}]]]]]]]]}`, `{"type":"NEW_EVENT","reply_id":1}`,
	`{"type":"thinking","thinking":"","type ":1,"id2":1e400}`, `{"type":"data","source":{"url":"http://[::1","media_type":""}}`,
	`{"type":"CUSTOM","name":"","value":{"n":123456789012345678901234567890,"z":-0.0,"e":1e30}}`,
}

// roomy decodes values that encoding made larger.
var roomy = Codec{MaxBytes: 16 << 20}

func FuzzDecodeEvent(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
	}
	seedRows(f, "serialization.jsonl", func(row map[string]json.RawMessage) { f.Add([]byte(row["input"])) })
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := DecodeEvent(data)
		if err != nil {
			return
		}
		codectest.Stable(t, e, 0, Event.MarshalJSON, roomy.DecodeEvent)
	})
}

func FuzzDecodeMsg(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
		f.Add([]byte(`{"name":"n","role":"assistant","content":[` + s + `]}`))
	}
	seedRows(f, "serialization.jsonl", func(row map[string]json.RawMessage) { f.Add([]byte(row["input"])) })
	seedRows(f, "events_to_msg.jsonl", func(row map[string]json.RawMessage) { f.Add([]byte(row["msg"])) })
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMsg(data)
		if err != nil {
			return
		}
		codectest.Stable(t, m, 0, (*Msg).MarshalJSON, roomy.DecodeMsg)
	})
}

// FuzzAppend applies a list of events to a message. For any events, the message can be encoded,
// and a refused event changes nothing.
func FuzzAppend(f *testing.F) {
	seedRows(f, "events_to_msg.jsonl", func(row map[string]json.RawMessage) {
		f.Add([]byte(row["initial"]), []byte(row["events"]))
	})
	f.Fuzz(func(t *testing.T, initial, events []byte) {
		m, err := DecodeMsg(initial)
		if err != nil {
			return
		}
		var list []json.RawMessage
		if json.Unmarshal(events, &list) != nil || len(list) > 50 {
			return
		}
		for _, raw := range list {
			e, err := DecodeEvent(raw)
			if err != nil {
				continue
			}
			before, err := m.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			applyErr := Append(m, e)
			after, err := m.MarshalJSON()
			if err != nil {
				t.Fatalf("%v after %s", err, raw)
			}
			if applyErr != nil && !bytes.Equal(before, after) {
				t.Fatalf("refused (%v), but the message changed\n%s\n%s", applyErr, before, after)
			}
		}
	})
}
