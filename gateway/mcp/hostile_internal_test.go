package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// judge is an askance server that asks about each call and keeps it in memory.
type judge struct {
	Client
	mu      sync.Mutex // guards the rest
	calls   map[message.CallID]*toolcall.Call
	tools   map[message.CallID]string // descriptions under which they were proposed
	changed chan struct{}
}

func (j *judge) update(id message.CallID, f func(*toolcall.Call) error) (*toolcall.Call, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.calls[id].Clone()
	if !c.Open() {
		return nil, &message.Error{Code: message.CodeFinished, Call: toolcall.ErrorCall(c)}
	}
	if err := f(c); err != nil {
		return nil, err
	}
	j.calls[id] = c
	close(j.changed)
	j.changed = make(chan struct{})
	return c, nil
}

func (j *judge) Propose(_ context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	id := r.Calls[0].ID
	if j.calls[id] == nil {
		j.tools[id] = r.Tools[0].Description
		j.calls[id] = &toolcall.Call{
			Key: toolcall.Key{Session: r.Session, Reply: r.Reply, Call: id}, Tool: r.Calls[0].Name, Input: r.Calls[0].Input,
			State: message.ToolCallAsking, Placement: toolcall.PlaceExternal, Attempt: toolcall.Attempt{Number: 1},
		}
	}
	return toolcall.ProposeReply{Calls: []*toolcall.Call{j.calls[id]}}, nil
}

func (j *judge) Wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error) {
	for {
		j.mu.Lock()
		c, changed := j.calls[r.Calls[0]], j.changed
		j.mu.Unlock()
		if !c.Open() || r.TimeoutMS > 0 || r.Until == toolcall.UntilRunnable && c.State == message.ToolCallSubmitted {
			return toolcall.WaitReply{Calls: []*toolcall.Call{c}, Done: true}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return toolcall.WaitReply{}, ctx.Err()
		}
	}
}

func (j *judge) Begin(_ context.Context, r toolcall.BeginRequest) (*toolcall.Call, error) {
	return j.update(r.Call, func(c *toolcall.Call) error {
		if c.Started() && c.Attempt.Claim != r.Claim || c.State != message.ToolCallSubmitted {
			return &message.Error{Code: message.CodeSuperseded, Call: toolcall.ErrorCall(c)}
		}
		c.Attempt.Claim, c.Begun = r.Claim, 1
		return nil
	})
}

func (j *judge) Report(_ context.Context, r toolcall.ReportRequest) (*toolcall.Call, error) {
	return j.update(r.Call, func(c *toolcall.Call) error {
		if c.Blocked = toolcall.BlockedUnknown; !r.Unknown {
			c.State, c.Cause, c.Result, c.Blocked = message.ToolCallFinished, string(toolcall.CauseResult), &r.Result, toolcall.NotBlocked
		}
		return nil
	})
}

func (j *judge) Interrupt(_ context.Context, r toolcall.InterruptRequest) (toolcall.InterruptReply, error) {
	_, err := j.update(message.CallID(r.Reply), func(c *toolcall.Call) error {
		c.State, c.Cause, c.Blocked = message.ToolCallFinished, string(toolcall.CauseInterrupt), toolcall.NotBlocked
		return nil
	})
	if errors.Is(err, message.ErrFinished) {
		err = nil
	}
	return toolcall.InterruptReply{}, err
}

func (j *judge) List(context.Context, toolcall.ListRequest) (toolcall.ListReply, error) {
	return toolcall.ListReply{}, nil
}

// approve approves every call that waits.
func (j *judge) approve() {
	j.mu.Lock()
	var asking []message.CallID
	for id, c := range j.calls {
		if c.State == message.ToolCallAsking {
			asking = append(asking, id)
		}
	}
	j.mu.Unlock()
	for _, id := range asking {
		_, _ = j.update(id, func(c *toolcall.Call) error { c.State = message.ToolCallSubmitted; return nil }) // it may have ended
	}
}

// liar is a hostile server, and the wire to it.
type liar struct {
	j *judge
	l *link

	mu       sync.Mutex // guards the rest
	version  int        // of the tool's definition
	silent   bool       // it lists no tools
	ids      []string   // of the calls that it got
	names    map[string]string
	first    map[string]string // the text of the first response with an id
	sent     map[string]int    // how often it got each call, by its arguments
	problems []string
	last     string
}

func (s *liar) close() {}

func (s *liar) send(_ context.Context, f *frame, of *waiting) error {
	switch {
	case of == nil:
	case f.method == "tools/list":
		s.mu.Lock()
		version, silent := s.version, s.silent
		s.mu.Unlock()
		if !silent {
			s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"lookup","description":"%d","inputSchema":{"type":"object"}}]}}`, f.id, version))
		}
	default:
		s.got(f)
	}
	return nil
}

// got checks that a call that the server gets was allowed and begun, as it is, and once.
func (s *liar) got(f *frame) {
	input := string(objectOf(f.params).get("arguments"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, string(f.id))
	s.names[string(f.id)] = input
	if s.sent[input]++; s.sent[input] > 1 {
		s.problems = append(s.problems, "the call "+input+" runs twice")
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	for id, c := range s.j.calls {
		if c.Input != input {
			continue
		}
		if !c.Started() || !c.Open() || s.j.tools[id] != fmt.Sprint(s.version) {
			s.problems = append(s.problems, fmt.Sprintf("the call %s runs: %s, begun %d, definition %s of %d", input, c.Phase(), c.Begun, s.j.tools[id], s.version))
		}
		return
	}
	s.problems = append(s.problems, "the call "+input+" was never proposed")
}

func (s *liar) say(line string) {
	if f, _ := readMessage([]byte(line)); f != nil {
		s.l.receive(f, nil)
	}
}

// answer says a result or an error with the id of the nth call, and remembers the first one.
func (s *liar) answer(n int, form string) {
	s.mu.Lock()
	if len(s.ids) == 0 {
		s.mu.Unlock()
		return
	}
	id, text := s.ids[n%len(s.ids)], fmt.Sprintf("text-%d", len(s.first)+n*1000)
	if s.first[id] == "" {
		s.first[id] = text
	}
	s.last = strings.NewReplacer("ID", id, "TEXT", text).Replace(form)
	line := s.last
	s.mu.Unlock()
	s.say(line)
}

// act does one hostile thing.
func (s *liar) act(move, n int) {
	switch move {
	case 0, 1:
		s.answer(n, `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"TEXT"}]}}`)
	case 2:
		s.answer(n, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32055,"message":"TEXT"}}`)
	case 3:
		s.mu.Lock()
		line := s.last
		s.mu.Unlock()
		s.say(line)
	case 4:
		s.say([]string{
			`{"jsonrpc":"2.0","id":999,"result":{}}`, `[{"jsonrpc":"2.0","id":3,"result":{}}]`, `{"jsonrpc":"2.0","id":3,"res`, `{"jsonrpc":"2.0","id":null,"result":{}}`,
			`{"jsonrpc":"2.0","id":"3","result":{}}`, `not JSON`, `{"jsonrpc":"2.0","id":3,"result":{},"error":{"code":1,"message":"x"}}`, `{}`,
		}[n%8])
	case 5:
		s.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, n))
	case 6:
		s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	case 7:
		s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s"}`, n, []string{"elicitation/create", "ping", "tools/call", "x"}[n%4]))
	case 8:
		s.mu.Lock()
		s.version++
		s.mu.Unlock()
	case 9:
		s.mu.Lock()
		s.silent = !s.silent
		s.mu.Unlock()
	}
}

// Whatever a server sends, and in whatever order, each call runs at most once, allowed and begun and
// under the definition that was decided about; its client gets the first response with its id, and
// every request ends.
func TestHostileServer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plot := rapid.SliceOfN(rapid.Map(rapid.Uint16(), func(n uint16) [2]int { return [2]int{int(n) * 40503 >> 8 % 15, int(n) % 10} }), 4, 40).Draw(rt, "plot")
		var problems []string
		synctest.Test(t, func(t *testing.T) { problems = playHostile(t, plot) })
		if len(problems) > 0 {
			rt.Fatalf("%s", strings.Join(problems, "\n"))
		}
	})
}

func playHostile(t *testing.T, plot [][2]int) []string {
	j := &judge{calls: map[message.CallID]*toolcall.Call{}, tools: map[message.CallID]string{}, changed: make(chan struct{})}
	g, err := New(Config{Key: make([]byte, 32), Upstreams: []*Upstream{{Command: []string{"/nonexistent"}}}, Askance: j, Hold: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	p := g.newPeer("bot", false, legacyNewest, []byte(`{"elicitation":{}}`), nil)
	g.adopt(p)
	l := &link{up: g.cfg.Upstreams[0], peer: p, log: slog.New(slog.DiscardHandler), pending: map[string]*waiting{}}
	s := &liar{j: j, l: l, names: map[string]string{}, first: map[string]string{}, sent: map[string]int{}}
	l.wire = s
	p.links[""].link = l
	var all sync.WaitGroup
	var live inflight
	var mu sync.Mutex
	answers := map[string]*frame{} // by arguments
	requests := 0
	request := func() {
		requests++
		input := fmt.Sprintf(`{"n":%d}`, requests)
		params := json.RawMessage(`{"name":"lookup","arguments":` + input + `,"_meta":{"progressToken":1}}`)
		x := newExchange(p, &frame{id: intID(int64(requests)), method: "tools/call", params: params}, func(*frame) {})
		serve := p.accept(g.life, x, &live)
		all.Go(func() {
			f := serve()
			mu.Lock()
			defer mu.Unlock()
			answers[input] = f
		})
	}
	for i, step := range plot {
		switch i % 4 {
		case 0:
			request()
		case 2:
			j.approve()
		}
		synctest.Wait()
		switch move, n := step[0], step[1]; move {
		case 10:
			if n > 7 { // the server ends
				l.fail(errNotSent)
			}
		case 11: // an operator ends a call
			for id, c := range j.calls {
				if c.Input == fmt.Sprintf(`{"n":%d}`, n%4) {
					_, _ = j.Interrupt(t.Context(), toolcall.InterruptRequest{Reply: message.ReplyID(id)}) // it may have ended
				}
			}
		case 12:
			j.approve()
		case 13:
			live.cancel(&frame{params: object{{Name: "requestId", Value: intID(int64(n))}}.bytes()})
		case 14:
			time.Sleep(time.Duration(n*n) * time.Second)
		default:
			s.act(move, n)
		}
		synctest.Wait()
	}
	j.approve()
	time.Sleep(time.Hour)
	synctest.Wait()
	for n := range s.ids {
		s.answer(n, `{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`)
	}
	synctest.Wait()
	all.Wait() // a request that does not end is a deadlock
	for id, text := range s.first {
		f := answers[s.names[id]]
		if f == nil {
			continue
		}
		if got := string(f.result) + string(f.fault); strings.Contains(got, "text-") && !strings.Contains(got, `"`+text+`"`) {
			s.problems = append(s.problems, fmt.Sprintf("the client of %s got %s, not %s", s.names[id], got, text))
		}
	}
	g.Close()
	synctest.Wait()
	return s.problems
}
