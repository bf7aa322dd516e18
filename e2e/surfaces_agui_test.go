package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
)

// nodeFolder contains the published clients; see its README.
const nodeFolder = "../gateway/testdata/node"

// aguiSurface is the published AG-UI client, in Node. It also makes the calls.
type aguiSurface struct {
	h     *house
	token string
	in    io.WriteCloser
	out   *bufio.Scanner
	open  map[string]string // interrupts by session
	made  int
}

func newAGUISurface(h *house, token string) *aguiSurface {
	h.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(h.t.Context()), "node", "agui.mjs", "agui-1") // it ends with its input
	cmd.Dir = nodeFolder
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatalf("Node 20 or later is needed (apt-get install nodejs npm): %v", err)
	}
	s := &aguiSurface{h: h, token: token, in: in, out: bufio.NewScanner(out), open: map[string]string{}}
	s.out.Buffer(nil, 16<<20)
	h.t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			h.t.Errorf("node: %v\n%s\nIf a package is missing, run make node.", err, stderr.String())
		}
	})
	return s
}

// aguiRun is what the client has received when a run has ended.
type aguiRun struct {
	Broken    string
	RunErrors []struct{ Code, Message string }
	Custom    []struct {
		Name  string
		Value struct{ Cause, By string }
	}
	Rejected *struct{ Message string }
	Failed   []string
	Messages []struct {
		Role, Error string
		Content     any
	}
	Interrupts []struct {
		ID, Message string
		Metadata    struct{ Askance struct{ Digest string } }
	}
}

// do sends a command to the client.
func (s *aguiSurface) do(command map[string]any) aguiRun {
	s.h.t.Helper()
	raw, err := json.Marshal(command)
	if err != nil {
		s.h.t.Fatal(err)
	}
	if _, err := s.in.Write(append(raw, '\n')); err != nil || !s.out.Scan() {
		s.h.t.Fatalf("node has ended: %v %v; is it installed? run make node", err, s.out.Err())
	}
	var r aguiRun
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil || r.Broken != "" {
		s.h.t.Fatalf("node: %v\n%s", err, r.Broken)
	}
	if r.Rejected != nil || len(r.Failed) > 0 || len(r.RunErrors) > 0 {
		s.h.t.Fatalf("the AG-UI client: rejected %+v, failed %q, errors %+v", r.Rejected, r.Failed, r.RunErrors)
	}
	return r
}

// agent makes an HttpAgent for a thread; page is the endpoint.
func (s *aguiSurface) agent(name, thread, page string) {
	s.h.t.Helper()
	s.do(map[string]any{
		"do": "new", "agent": name, "url": "http://" + s.h.http + page, "thread": thread,
		"headers": map[string]string{"Authorization": "Bearer " + s.token},
	})
}

// say begins a turn, which must end with an approval request.
func (s *aguiSurface) say(thread, text string) {
	s.h.t.Helper()
	s.agent(thread, thread, "/agui")
	r := s.do(map[string]any{"do": "run", "agent": thread, "say": text})
	s.keep(thread, r)
}

func (s *aguiSurface) keep(thread string, r aguiRun) {
	s.h.t.Helper()
	if len(r.Interrupts) != 1 {
		s.h.t.Fatalf("the AG-UI client has %d interrupts of %s, want 1", len(r.Interrupts), thread)
	}
	s.open[thread] = r.Interrupts[0].ID
}

func (*aguiSurface) who() string { return "gina" }

// connect returns what a reloaded page receives.
func (s *aguiSurface) connect(thread string) aguiRun {
	s.h.t.Helper()
	s.made++
	name := thread + strings.Repeat("'", s.made)
	s.agent(name, thread, "/agui/connect")
	return s.do(map[string]any{"do": "run", "agent": name})
}

func (s *aguiSurface) shown(q approval) {
	s.h.t.Helper()
	r := s.connect(q.session)
	if len(r.Interrupts) != 1 || r.Interrupts[0].ID != s.open[q.session] || r.Interrupts[0].Metadata.Askance.Digest != q.digest || !strings.Contains(r.Interrupts[0].Message, q.text()) {
		s.h.t.Fatalf("the AG-UI client shows %+v, want %s", r.Interrupts, q.text())
	}
}

func (s *aguiSurface) resume(q approval, payload map[string]any) aguiRun {
	s.h.t.Helper()
	entry := map[string]any{"interruptId": s.open[q.session], "status": "resolved", "payload": payload}
	return s.do(map[string]any{"do": "run", "agent": q.session, "resume": []any{entry}})
}

// answer approves with other arguments.
func (s *aguiSurface) answer(q approval) {
	s.h.t.Helper()
	if r := s.resume(q, map[string]any{"approved": true, "editedArgs": map[string]any{"cents": 7}}); len(r.Custom) != 0 {
		s.h.t.Errorf("the winner is told %+v", r.Custom)
	}
}

func (s *aguiSurface) waitForOutcome(q approval, _ bool) ending {
	s.h.t.Helper()
	r := s.connect(q.session)
	if len(r.Interrupts) != 0 {
		s.h.t.Errorf("the AG-UI client still shows %+v", r.Interrupts)
	}
	var e ending
	for _, m := range r.Messages {
		if m.Role == "tool" {
			e.Output, _ = m.Content.(string)
		}
	}
	return e
}

// tells keeps only the output, because an AG-UI message has no place for the rest.
func (*aguiSurface) tells(e ending, _ bool) ending { return ending{Output: e.Output} }

// late sends the opposite of the decision, because the same answer would be no conflict.
func (s *aguiSurface) late(q approval) conflict {
	s.h.t.Helper()
	yes := s.h.ending(q).Verdict == "reject"
	r := s.resume(q, map[string]any{"approved": yes})
	if len(r.Interrupts) != 0 || len(r.Custom) != 1 {
		s.h.t.Errorf("too late, the AG-UI client has %d interrupts and is told %+v", len(r.Interrupts), r.Custom)
		return conflict{}
	}
	return conflict{Code: r.Custom[0].Name, By: r.Custom[0].Value.By}
}

func (*aguiSurface) tooLate() conflict { return conflict{Code: "askance.overtaken", By: "yes"} }

// reconnect does nothing, because each request is its own connection.
func (*aguiSurface) reconnect() {}
