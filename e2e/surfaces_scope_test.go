package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// scopeSurface is an AgentScope frontend: it reads the events of a session over SSE, answers by
// POST, and reads the history as messages.
type scopeSurface struct {
	h       *house
	token   string
	streams map[string]*scopeStream
	asked   map[string]json.RawMessage // the call of each session as the approval request showed it
}

func newScopeSurface(h *house, token string) *scopeSurface {
	return &scopeSurface{h: h, token: token, streams: map[string]*scopeStream{}, asked: map[string]json.RawMessage{}}
}

// scopeEvent is what the frontend reads of an event.
type scopeEvent struct {
	Type           string
	Reply          string                     `json:"reply_id"`
	ToolCalls      []json.RawMessage          `json:"tool_calls"`
	ConfirmResults []struct{ Confirmed bool } `json:"confirm_results"`
	Delta          string
	State          string
}

type scopeStream struct {
	s     *scopeSurface
	lines *bufio.Scanner
	end   func()
}

// send makes a request; ctx also bounds the reading of the response.
func (s *scopeSurface) send(ctx context.Context, method, path string, body any) *http.Response {
	t := s.h.t
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.h.http+"/agentscope/sessions/"+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func (s *scopeSurface) stream(session string) *scopeStream {
	s.h.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.h.t.Context()))
	s.h.t.Cleanup(cancel)
	res := s.send(ctx, http.MethodGet, session+"/stream?after=0", nil)
	if res.StatusCode != http.StatusOK {
		s.h.t.Fatalf("the stream of %s: %s", session, res.Status)
	}
	st := &scopeStream{s: s, lines: bufio.NewScanner(res.Body), end: cancel}
	st.lines.Buffer(nil, 1<<20)
	s.streams[session] = st
	return st
}

// until reads up to an event of that type.
func (st *scopeStream) until(kind string, see func(scopeEvent)) scopeEvent {
	t := st.s.h.t
	t.Helper()
	for st.lines.Scan() {
		data, ok := strings.CutPrefix(st.lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e scopeEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		see(e)
		if e.Type == kind {
			return e
		}
	}
	t.Fatalf("the AgentScope stream ended before %s: %v", kind, st.lines.Err())
	return scopeEvent{}
}

func (*scopeSurface) who() string { return "sam" }

func (s *scopeSurface) shown(q approval) {
	s.h.t.Helper()
	st := s.streams[q.session]
	if st == nil {
		st = s.stream(q.session)
	}
	e := st.until("REQUIRE_USER_CONFIRM", func(scopeEvent) {})
	var call struct{ ID, Name, Input string }
	if err := json.Unmarshal(e.ToolCalls[0], &call); err != nil {
		s.h.t.Fatal(err)
	}
	if e.Reply != q.reply || call.ID != q.call || call.Name != "pay" || !strings.Contains(q.text(), strings.Trim(call.Input, `{"cents:}`)) {
		s.h.t.Errorf("the AgentScope frontend shows %+v", call)
	}
	s.asked[q.session] = e.ToolCalls[0]
}

func (s *scopeSurface) confirm(q approval, yes bool) (status int, body []byte) {
	s.h.t.Helper()
	ctx, cancel := context.WithTimeout(s.h.t.Context(), soon)
	defer cancel()
	res := s.send(ctx, http.MethodPost, q.session+"/events", map[string]any{
		"type": "USER_CONFIRM_RESULT", "reply_id": q.reply,
		"confirm_results": []any{map[string]any{"confirmed": yes, "tool_call": s.asked[q.session], "rules": nil}},
	})
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.h.t.Fatal(err)
	}
	return res.StatusCode, body
}

func (s *scopeSurface) answer(q approval) {
	s.h.t.Helper()
	if status, body := s.confirm(q, true); status/100 != 2 {
		s.h.t.Errorf("the AgentScope frontend is told %d %s", status, body)
	}
}

func (s *scopeSurface) waitForOutcome(q approval, now bool) ending {
	s.h.t.Helper()
	st := s.streams[q.session]
	if !now {
		st = s.stream(q.session)
	}
	var e ending
	st.until("REPLY_END", func(ev scopeEvent) {
		switch ev.Type {
		case "USER_CONFIRM_RESULT":
			e.Verdict = map[bool]string{true: "approve", false: "reject"}[ev.ConfirmResults[0].Confirmed]
		case "TOOL_RESULT_TEXT_DELTA":
			e.Output += ev.Delta
		case "TOOL_RESULT_END":
			e.State = ev.State
		}
	})
	s.history(q, e)
	return e
}

// history checks that the messages agree with the events.
func (s *scopeSurface) history(q approval, e ending) {
	s.h.t.Helper()
	ctx, cancel := context.WithTimeout(s.h.t.Context(), soon)
	defer cancel()
	var out struct {
		Messages []struct {
			Content []struct {
				Type, State string
				Output      json.RawMessage
			}
		}
	}
	if err := json.NewDecoder(s.send(ctx, http.MethodGet, q.session+"/messages", nil).Body).Decode(&out); err != nil {
		s.h.t.Fatal(err)
	}
	results := 0
	for _, m := range out.Messages {
		for _, b := range m.Content {
			if b.Type != "tool_result" {
				continue
			}
			results++
			if b.State != e.State || s.words(b.Output) != e.Output {
				s.h.t.Errorf("the AgentScope history of %s has %s %s, the events %+v", q.session, b.State, b.Output, e)
			}
		}
	}
	if results != 1 {
		s.h.t.Errorf("the AgentScope history of %s has %d results", q.session, results)
	}
}

// words returns the text of an output, which is a text or blocks of text.
func (s *scopeSurface) words(output json.RawMessage) string {
	s.h.t.Helper()
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	var blocks []struct{ Text string }
	if err := json.Unmarshal(output, &blocks); err != nil {
		s.h.t.Fatalf("%v: %s", err, output)
	}
	for _, b := range blocks {
		text += b.Text
	}
	return text
}

// tells adapts an ending: events do not say who answered, and a response with a result counts as
// confirmed.
func (*scopeSurface) tells(e ending, _ bool) ending {
	if e.Verdict == "respond" {
		e.Verdict = "approve"
	}
	e.By = ""
	return e
}

func (s *scopeSurface) late(q approval) conflict {
	s.h.t.Helper()
	status, body := s.confirm(q, true)
	var p struct {
		Code string
		Call natsCall
	}
	if err := json.Unmarshal(body, &p); err != nil || status != http.StatusConflict || len(p.Call.Votes) != 1 {
		s.h.t.Errorf("too late, the AgentScope frontend gets %d %s", status, body)
		return conflict{}
	}
	return conflict{Code: p.Code, By: p.Call.Votes[0].By.Name}
}

func (*scopeSurface) tooLate() conflict { return conflict{Code: "finished", By: "yes"} }

func (s *scopeSurface) reconnect() {
	for session, st := range s.streams {
		st.end()
		delete(s.streams, session)
	}
}
