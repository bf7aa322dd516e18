package e2e_test

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/coder/websocket"
)

// blocksSurface is a frontend of content blocks, with a socket for each session.
type blocksSurface struct {
	h     *house
	token string
	socks map[string]*blocksSocket
}

func newBlocksSurface(h *house, token string) *blocksSurface {
	return &blocksSurface{h: h, token: token, socks: map[string]*blocksSocket{}}
}

// blockFrame is what the client reads of a frame.
type blockFrame struct {
	Type    string
	EventID string `json:"event_id"`
	Status  string
	Code    string
	Message string
	Index   int
	Block   struct {
		Type        string
		ApprovalKey string `json:"approval_key"`
		Status      string
		Content     any
	} `json:"content_block"`
	Delta struct {
		Decisions []struct {
			Type      string
			DecidedBy string `json:"decided_by"`
			Message   string
		}
		ActionRequests []struct {
			Name string
			Args map[string]any
		} `json:"action_requests"`
	}
}

// blocksSocket is a connection that follows a session.
type blocksSocket struct {
	s    *blocksSurface
	ws   *websocket.Conn
	key  string // of the card that is shown
	last string // event_id
	end  ending
}

// follow connects, identifies itself and follows a session.
func (s *blocksSurface) follow(session, last string) *blocksSocket {
	t := s.h.t
	t.Helper()
	ws, res, err := websocket.Dial(t.Context(), "ws://"+s.h.http+"/blocks", nil)
	if err != nil {
		t.Fatalf("dial: %v %v", err, res)
	}
	ws.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = ws.CloseNow() })
	c := &blocksSocket{s: s, ws: ws}
	s.socks[session] = c
	c.until("connected")
	c.send(map[string]any{"type": "auth", "token": s.token})
	c.until("auth_ok")
	c.send(map[string]any{"type": "subscribe", "session_id": session, "last_event_id": last})
	return c
}

func (c *blocksSocket) send(command map[string]any) {
	c.s.h.t.Helper()
	for k, v := range command {
		if v == "" {
			delete(command, k)
		}
	}
	b, err := json.Marshal(command)
	if err == nil {
		err = c.ws.Write(c.s.h.t.Context(), websocket.MessageText, b)
	}
	if err != nil {
		c.s.h.t.Fatal(err)
	}
}

// until reads up to a frame of that type, and keeps the content of the other frames.
func (c *blocksSocket) until(kind string) blockFrame {
	c.s.h.t.Helper()
	return c.find(kind, func(f blockFrame) bool { return f.Type == kind })
}

func (c *blocksSocket) find(what string, is func(blockFrame) bool) blockFrame {
	t := c.s.h.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for {
		_, b, err := c.ws.Read(ctx)
		var f blockFrame
		if err == nil {
			err = json.Unmarshal(b, &f)
		}
		if err != nil {
			t.Fatalf("waiting for %s: %v\n%s", what, err, b)
		}
		c.see(f)
		if is(f) {
			return f
		}
	}
}

func (c *blocksSocket) see(f blockFrame) {
	if f.EventID != "" {
		c.last = f.EventID
	}
	if f.Block.Type == "approval_request" {
		c.key = f.Block.ApprovalKey
	}
	if len(f.Delta.Decisions) == 1 {
		c.end.Verdict, c.end.By = f.Delta.Decisions[0].Type, f.Delta.Decisions[0].DecidedBy
	}
	if f.Block.Type == "tool_result" {
		c.end.State = f.Block.Status
		c.end.Output, _ = f.Block.Content.(string)
	}
}

func (*blocksSurface) who() string { return "bo" }

func (s *blocksSurface) shown(q approval) {
	s.h.t.Helper()
	c := s.socks[q.session]
	if c == nil {
		c = s.follow(q.session, "")
	}
	f := c.find("the card of "+q.text(), func(f blockFrame) bool { return len(f.Delta.ActionRequests) == 1 })
	if f.Delta.ActionRequests[0].Name != "pay" || f.Delta.ActionRequests[0].Args["cents"] != float64(q.cents) || c.key == "" {
		s.h.t.Errorf("the content-block client shows %+v under %q", f.Delta.ActionRequests, c.key)
	}
}

func (s *blocksSurface) decide(q approval, decision map[string]any) *blocksSocket {
	s.h.t.Helper()
	c := s.socks[q.session]
	c.send(map[string]any{"type": "approval", "approval_key": c.key, "decisions": []any{decision}})
	return c
}

// answer rejects with feedback for the model.
func (s *blocksSurface) answer(q approval) {
	s.decide(q, map[string]any{"type": "reject", "message": "too much"})
}

func (s *blocksSurface) waitForOutcome(q approval, now bool) ending {
	s.h.t.Helper()
	c := s.socks[q.session]
	if !now {
		c = s.follow(q.session, "")
	}
	c.until("message_stop")
	c.end.Verdict = strings.Replace(c.end.Verdict, "edit", "approve", 1) // an edit is an approval with other arguments
	return c.end
}

// tells adapts an ending: in this format a result is a success or an error, and a response with a
// result is an approval. Clients that connect later do not see resolved cards.
func (*blocksSurface) tells(e ending, now bool) ending {
	switch {
	case !now:
		e.Verdict, e.By = "", ""
	case e.Verdict == "respond":
		e.Verdict = "approve"
	}
	if e.State != "success" {
		e.State = "error"
	}
	return e
}

func (s *blocksSurface) late(q approval) conflict {
	s.h.t.Helper()
	f := s.decide(q, map[string]any{"type": "approve"}).until("error")
	if f.Message == "" {
		s.h.t.Errorf("the content-block client is told %+v", f)
	}
	return conflict{Code: f.Code}
}

func (*blocksSurface) tooLate() conflict { return conflict{Code: "APPROVAL_ALREADY_RESOLVED"} }

func (s *blocksSurface) reconnect() {
	for session, c := range s.socks {
		_ = c.ws.CloseNow()
		delete(s.socks, session)
	}
}
