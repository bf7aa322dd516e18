package v1_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
)

// Every message that was recorded from AgentScope 2.0 can be encoded in both dialects, decoded,
// and converted back to a message with the same id, role and inputs.
func TestRecordedMessages(t *testing.T) {
	data, err := os.ReadFile("../testdata/agentscope/events_to_msg.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range bytes.Lines(data) {
		var row struct {
			Name string
			Msg  json.RawMessage
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		m, err := message.DecodeMsg(row.Msg)
		if err != nil {
			continue // recorded because 2.0 itself cannot decode it
		}
		rows++
		for _, d := range []v1.Dialect{v1.V1, v1.V01} {
			t.Run(row.Name+" "+d.String(), func(t *testing.T) { thereAndBack(t, v1.Codec{Dialect: d}, m) })
		}
	}
	if rows < 40 {
		t.Errorf("%d rows", rows)
	}
}

func thereAndBack(t *testing.T, c v1.Codec, m *message.Msg) {
	list, err := c.DecodeMsgs([]byte(back(t, c, []*message.Msg{m})))
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := c.ToMsgs(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(msgs) == 0 || msgs[0].ID != m.ID || msgs[0].Role != m.Role || msgs[0].Name != m.Name {
		t.Fatalf("%v", msgs)
	}
	for _, call := range message.BlocksOf[*message.ToolCallBlock](m) {
		found := false
		for _, got := range msgs {
			for _, b := range message.BlocksOf[*message.ToolCallBlock](got) {
				same := b.ID == call.ID && b.Name == call.Name
				found = found || same && (b.Input == call.Input || c.Dialect == v1.V01)
			}
		}
		if !found {
			t.Errorf("the call %s with %s is lost", call.ID, call.Input)
		}
	}
}
