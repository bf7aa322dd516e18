package e2e_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// post posts to a route of the server, and returns the status of the response.
func (h *house) post(token, path, kind, body string) int {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, "http://"+h.http+path, bytes.NewReader([]byte(body)))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", kind)
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// events returns the events of a session as the command prints them.
func (h *house) events(session string) string {
	h.t.Helper()
	out, errs, err := command(h.t.Context(), "events", "tail", session, "--once", "--nats", "nats://"+h.nats, "--json")
	if err != nil {
		h.t.Fatalf("events: %v\n%s", err, errs)
	}
	return out
}

// TestInterruptAfterTheEnd checks that an interrupt of a reply that has ended changes nothing, by
// any route.
func TestInterruptAfterTheEnd(t *testing.T) {
	h := newHouse(t)
	gina := h.token("gina", "runtime", "approver", "operator")
	h.server.start()
	h.server.up()
	h.chat = newAGUISurface(h, gina)
	q := h.ask("s", 101)
	h.chat.resume(q, map[string]any{"approved": true})
	var before string
	eventually(t, "the reply ends", func() bool { before = h.events("s"); return strings.Contains(before, `"REPLY_END"`) })
	reply, err := json.Marshal(q.reply)
	if err != nil {
		t.Fatal(err)
	}
	event := `{"type":"USER_INTERRUPT","reply_id":` + string(reply) + `}`
	fine := func(status int) bool { return status/100 == 2 || status == http.StatusSeeOther }
	for name, interrupt := range map[string]func() bool{
		"REST": func() bool {
			return fine(h.post(gina, "/v1/sessions/s/replies/"+q.reply+"/interrupt", "application/json", `{}`))
		},
		"NATS, approver": func() bool {
			r := newNATSSurface(h).request("decide", "interrupt", map[string]any{"v": 1, "session_id": "s", "reply_id": q.reply})
			return r.Error == nil
		},
		"NATS, operator": func() bool {
			return newNATSSurface(h).request("operate", "interrupt", map[string]any{"v": 1, "session_id": "s", "reply_id": q.reply}).Error == nil
		},
		"CLI": func() bool {
			_, _, err := command(t.Context(), "interrupt", "--session", "s", "--reply", q.reply, "--nats", "nats://"+h.nats)
			return err == nil
		},
		"web console": func() bool {
			form := url.Values{"session": {"s"}, "reply": {q.reply}, "call": {q.call}}
			return fine(h.post(gina, "/inbox/interrupt", "application/x-www-form-urlencoded", form.Encode()))
		},
		"block stream": func() bool {
			c := newBlocksSurface(h, gina).follow("s", "")
			c.until("subscribed")
			c.send(map[string]any{"type": "stop"})
			c.send(map[string]any{"type": "ping"})
			return c.until("pong").Type == "pong"
		},
		"AgentScope": func() bool {
			return fine(h.post(gina, "/agentscope/sessions/s/interrupt", "application/json", `{}`))
		},
		"AgentScope, event": func() bool {
			return fine(h.post(gina, "/agentscope/sessions/s/events", "application/json", event))
		},
		"AgentScope, chat": func() bool {
			return fine(h.post(gina, "/agentscope/chat", "application/json", `{"agent_id":"demo","session_id":"s","input":`+event+`}`))
		},
		"AG-UI": func() bool {
			cancel := map[string]any{"interruptId": h.chat.open["s"], "status": "cancelled"}
			h.chat.do(map[string]any{"do": "run", "agent": "s", "resume": []any{cancel}})
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			h.in(t)
			if !interrupt() {
				t.Error("the interrupt was refused")
			}
			if after := h.events("s"); after != before {
				t.Errorf("the session has changed:\n%s", strings.TrimPrefix(after, before))
			}
		})
	}
}
