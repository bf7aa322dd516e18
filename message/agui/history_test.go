package agui_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/internal/codectest"
	"github.com/askance-dev/askance/message/agui"
	"pgregory.net/rapid"
)

func hello() []agui.Message {
	return []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("hi")}}
}

// The messages equal those of the client; testdata/order/README.md says how they were recorded.
func TestHistoryAgreesWithTheClient(t *testing.T) {
	data, err := os.ReadFile("testdata/order/messages.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		var row struct{ Events, Messages json.RawMessage }
		var events []json.RawMessage
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(row.Events, &events); err != nil {
			t.Fatal(err)
		}
		h := agui.NewHistory(hello())
		var chunks aguitest.Chunks
		for _, raw := range events {
			e, err := aguitest.DecodeEvent(raw)
			if err != nil {
				t.Fatal(err)
			}
			separate, err := chunks.Expand(e)
			if err != nil {
				continue // the client ends the run
			}
			for _, e := range separate {
				h.Apply(e)
			}
		}
		got, err := agui.AppendJSON(nil, &agui.MessagesSnapshot{Messages: h.Messages()})
		if err != nil {
			t.Fatal(err)
		}
		codectest.SameJSON(t, got, []byte(`{"type":"MESSAGES_SNAPSHOT","messages":`+string(row.Messages)+`}`))
	}
	if n == 0 {
		t.Error("no rows")
	}
}

// A snapshot changes nothing that it repeats at the client, and the initial messages of a history
// stay unchanged.
func TestHistorySnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		began := hello()
		server, client := agui.NewHistory(began), agui.NewHistory(began)
		m := agui.NewMapper(agui.Run{ThreadID: "t", RunID: "1", Peer: agui.Peer10}, agui.Mapping{})
		for _, a := range drawReply(t) {
			for _, e := range m.Map(a) {
				server.Apply(e)
				client.Apply(e)
			}
		}
		before := written(t, client)
		client.Apply(server.Snapshot())
		if after := written(t, client); after != before {
			t.Fatalf("a snapshot changed\n%s\nto\n%s", before, after)
		}
		if began[0].Content.Text != "hi" || len(began) != 1 {
			t.Fatalf("the beginning changed: %+v", began)
		}
		for _, m := range server.Snapshot().Messages {
			if agui.IsOwn(m) {
				t.Fatalf("a %s message is in the snapshot", m.Role)
			}
		}
	})
}

func written(t *rapid.T, h *agui.History) string {
	raw, err := agui.AppendJSON(nil, &agui.MessagesSnapshot{Messages: h.Messages()})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
