package blocks_test

import (
	"testing"

	"github.com/coder/websocket"

	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/toolcall"
)

// FuzzCommands sends arbitrary commands on a connection that may not approve and follows an open
// approval request. The connection stays open or ends with one of our codes, and the request
// stays open.
func FuzzCommands(f *testing.F) {
	for _, seed := range []string{
		`{"type":"auth","token":"x"}`, `{"type":"subscribe","session_id":"s1"}`, `{"type":"subscribe","session_id":"s1","last_event_id":"00000000000000000001-000000"}`,
		`{"type":"chat","session_id":"s1","message":"say hi"}`, `{"type":"stop"}`, `{"type":"ping"}`, `{"type":"approval","decisions":["approve"]}`,
		`{"type":"approval","approval_key":"s1_1","decisions":[{"type":"edit","edited_action":{"name":"pay","args":{}}}]}`, `{"type":`, `[]`, "\x00",
	} {
		f.Add([]byte(seed))
	}
	s := newStage(f, blocks.Config{})
	k := s.A.Ask("s1", "r1", "c1")
	records, token, ann := s.A.Show(k).Records, s.A.Token(gatewaytest.Audie), s.A.Client(gatewaytest.Ann)
	f.Fuzz(func(t *testing.T, command []byte) {
		c := (&stage{World: s.World, t: t}).dial(token, "")
		c.resumed = true // the session changes, which the order check does not allow
		c.send(&blockstream.Subscribe{Session: "s1"})
		block[*blockstream.ApprovalRequest](c)
		if err := c.ws.Write(t.Context(), websocket.MessageText, command); err != nil {
			t.Fatal(err)
		}
		c.send(&blockstream.PingCommand{})
		for {
			frame, err := c.read()
			if code := websocket.CloseStatus(err); err != nil && code != blockstream.CloseUnauthenticated && code != blockstream.CloseTooBig {
				t.Fatalf("%q ended the connection: %v", command, err)
			}
			if err != nil || blockstream.FrameTypeOf(frame) == blockstream.FramePong {
				break
			}
		}
		_ = c.ws.CloseNow()
		now, err := ann.Show(t.Context(), toolcall.ShowRequest{Key: k})
		if err != nil || now.Call.State != message.ToolCallAsking || now.Call.Records != records {
			t.Fatalf("%q moved the call: %+v %v", command, now.Call, err)
		}
	})
}
