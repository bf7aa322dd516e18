package agent_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
)

// FuzzThread folds events that a stranger may have written to their own session. Two readers
// agree, every open turn was opened by a record, and nothing panics.
func FuzzThread(f *testing.F) {
	f.Add([]byte(`{"type":"CUSTOM","name":"askance.turn","value":{"v":1,"reply_id":"r","agent":"a","runner":"g","by":"b","messages":[{"id":"m","name":"u","role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"name":"t","description":"","parameters":{}}],"input":{"state":null}}}
{"type":"REPLY_START","reply_id":"r","session_id":"s","name":"a"}
{"type":"TEXT_BLOCK_START","reply_id":"r","block_id":"b"}
{"type":"TOOL_CALL_START","reply_id":"r","tool_call_id":"c","tool_call_name":"t"}
{"type":"USER_INTERRUPT","reply_id":"r"}
{"type":"REPLY_END","reply_id":"r","session_id":"s"}`))
	f.Add([]byte(`{"type":"CUSTOM","name":"askance.turn","value":{"v":1,"reply_id":"r","agent":"a","runner":"g","by":"b","messages":[null]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var events []message.Event
		for line := range bytes.Lines(data) {
			e, err := message.DecodeEvent(bytes.TrimSpace(line))
			if err != nil {
				return
			}
			if h := e.Header(); h.ID == "" || h.CreatedAt == "" {
				return // decoding generates it each time
			}
			events = append(events, e)
		}
		one, two := agent.NewThread(), agent.NewThread()
		for _, e := range events {
			one.Add(e)
			two.Add(e)
		}
		a, errA := json.Marshal(one)
		b, errB := json.Marshal(two)
		if (errA == nil) != (errB == nil) || !bytes.Equal(a, b) {
			t.Fatalf("two readers disagree: %s\n%v, %v", cmp.Diff(string(a), string(b)), errA, errB)
		}
		opened := one.Open == ""
		for _, r := range one.Turns {
			opened = opened || r.Reply == one.Open
		}
		if !opened {
			t.Fatalf("the turn %q is open, but no record opened it", one.Open)
		}
	})
}
