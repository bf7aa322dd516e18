package e2e_test

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go"
)

// natsSurface uses only a NATS client and what bus/PROTOCOL.md says.
type natsSurface struct {
	h     *house
	nc    *nats.Conn
	hints *nats.Subscription
}

// natsCall is what it reads of a call.
type natsCall struct {
	Session string `json:"session_id"`
	Reply   string `json:"reply_id"`
	Call    string `json:"tool_call_id"`
	State   string
	Digest  string
	Request struct{ Text string }
	Votes   []struct {
		Kind string
		By   struct{ Name string }
	}
	Result struct{ State, Output string }
}

// natsReply is an answer to a request.
type natsReply struct {
	Body struct {
		natsCall
		Calls []natsCall
		Done  bool
	}
	Error *struct {
		Code string
		Call *natsCall
	}
}

func newNATSSurface(h *house) *natsSurface {
	s := &natsSurface{h: h}
	s.connect()
	return s
}

func (s *natsSurface) connect() {
	t := s.h.t
	t.Helper()
	nc, err := nats.Connect("nats://"+s.h.nats, nats.CustomInboxPrefix("_INBOX_nat"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s.nc = nc
	if s.hints, err = nc.SubscribeSync("askance.v1.default.ask.*.*.*"); err != nil {
		t.Fatal(err)
	}
}

func (s *natsSurface) request(kind, op string, body map[string]any) natsReply {
	t := s.h.t
	t.Helper()
	raw, err := json.Marshal(map[string]any{"v": 1, "op": op, "body": body})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	m, err := s.nc.RequestWithContext(ctx, "askance.v1.default."+kind+".nat", raw)
	var r natsReply
	if err == nil {
		err = json.Unmarshal(m.Data, &r)
	}
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return r
}

func (*natsSurface) who() string { return "nat" }

// shown lists, and lists again when a hint arrives.
func (s *natsSurface) shown(q approval) {
	t := s.h.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for {
		for _, c := range s.request("query", "list", map[string]any{"states": []string{"asking"}}).Body.Calls {
			if c.Session == q.session && c.Digest == q.digest && c.Request.Text == q.text() {
				return
			}
		}
		if _, err := s.hints.NextMsgWithContext(ctx); err != nil {
			t.Fatalf("the NATS client does not see %s: %v", q.text(), err)
		}
	}
}

func (a approval) key() map[string]any {
	return map[string]any{"space": "default", "session_id": a.session, "reply_id": a.reply, "tool_call_id": a.call}
}

func (s *natsSurface) decide(q approval, kind, output string) natsReply {
	s.h.t.Helper()
	body := q.key()
	body["digest"], body["kind"] = q.digest, kind
	if output != "" {
		body["output"] = output
	}
	return s.request("decide", "submit_response", body)
}

// answer supplies the tool's result.
func (s *natsSurface) answer(q approval) {
	s.h.t.Helper()
	if r := s.decide(q, "respond", "paid by hand"); r.Error != nil {
		s.h.t.Errorf("the NATS client is told %+v", r.Error)
	}
}

func (s *natsSurface) waitForOutcome(q approval, _ bool) ending {
	s.h.t.Helper()
	r := s.request("query", "wait", map[string]any{"session_id": q.session, "reply_id": q.reply, "timeout_ms": soon.Milliseconds()})
	if r.Error != nil || !r.Body.Done || len(r.Body.Calls) != 1 || len(r.Body.Calls[0].Votes) != 1 {
		s.h.t.Fatalf("the NATS client waited for %+v", r)
	}
	c := r.Body.Calls[0]
	return ending{Verdict: c.Votes[0].Kind, By: c.Votes[0].By.Name, State: c.Result.State, Output: c.Result.Output}
}

func (*natsSurface) tells(e ending, _ bool) ending { return e }

func (s *natsSurface) late(q approval) conflict {
	s.h.t.Helper()
	r := s.decide(q, "approve", "")
	if r.Error == nil || r.Error.Call == nil || len(r.Error.Call.Votes) != 1 {
		s.h.t.Errorf("too late, the NATS client gets %+v", r)
		return conflict{}
	}
	return conflict{Code: r.Error.Code, By: r.Error.Call.Votes[0].By.Name}
}

func (*natsSurface) tooLate() conflict { return conflict{Code: "finished", By: "yes"} }

func (s *natsSurface) reconnect() {
	s.nc.Close()
	s.connect()
}
