package agenthook

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// request is one request about an agent's call. It stops before everything that it asks the engine,
// so that others come between.
type request struct {
	id      message.CallID
	expired bool // its time has run out
	fault   int  // what happens to its next read or start
	call    *toolcall.Call
	told    bool // to run the call
	next    func() (string, bool)
	stop    func()
}

const (
	works = iota
	lost  // the engine does not get the operation
	mute  // the engine does it, and the answer is lost
)

// stepped is the engine as a request sees it.
type stepped struct {
	engine.Client
	r     *request
	pause func(string) bool
}

var errCut = errors.New("cut")

func step[Q, R any](s stepped, name string, f func(context.Context, Q) (R, error), q Q) (R, error) {
	var none R
	if !s.pause(name) {
		return none, errCut
	}
	fault := s.r.fault
	s.r.fault = works
	if name != "begin" && name != "events" { // a release that is lost would keep its call
		fault = works
	}
	if fault == lost {
		return none, errCut
	}
	reply, err := f(context.Background(), q)
	if err == nil && fault == mute {
		return none, errCut
	}
	return reply, err
}

func (s stepped) Show(_ context.Context, q toolcall.ShowRequest) (toolcall.ShowReply, error) {
	return step(s, "show", s.Client.Show, q)
}

func (s stepped) List(_ context.Context, q toolcall.ListRequest) (toolcall.ListReply, error) {
	return step(s, "list", s.Client.List, q)
}

func (s stepped) Propose(_ context.Context, q toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	return step(s, "propose", s.Client.Propose, q)
}

func (s stepped) Events(_ context.Context, q toolcall.EventsRequest) (toolcall.EventsReply, error) {
	return step(s, "events", s.Client.Events, q)
}

func (s stepped) Emit(_ context.Context, q toolcall.EmitRequest) (toolcall.EmitReply, error) {
	return step(s, "emit", s.Client.Emit, q)
}

func (s stepped) Begin(_ context.Context, q toolcall.BeginRequest) (*toolcall.Call, error) {
	return step(s, "begin", s.Client.Begin, q)
}

// story is what the hooks of an agent ask of two engines, as from two gateways.
type story struct {
	engines  []*engine.Engine
	ann      engine.Client
	requests []*request // those that have not ended
	ran      map[message.CallID]message.CallID
	problems []string
}

func (s *story) problem(format string, a ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, a...))
}

func newStory(t *testing.T) *story {
	t.Helper()
	policy := gatewaytest.CompilePolicy(t, "version: 1\nname: hooks\nrules:\n  - {name: ask, tool: frontend/Bash, behavior: ask}\n", nil)
	s, journal := &story{ran: map[message.CallID]message.CallID{}}, engine.NewMemory()
	for range 2 {
		e, err := engine.New("default", journal, policy, nil)
		if err == nil {
			err = e.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		s.engines = append(s.engines, e)
	}
	s.ann = s.engines[0].As(toolcall.Principal{Name: "ann", Role: toolcall.RoleApprover})
	return s
}

// arrive starts a request about the agent's call id.
func (s *story) arrive(engine int, id message.CallID) *request {
	r := &request{id: id}
	bot := s.engines[engine].As(toolcall.Principal{Name: "bot", Role: toolcall.RoleRuntime})
	g := &gate{ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Turn: "t", Call: string(id), Tool: "Bash", Input: message.RawJSON(`{}`), Cwd: "/w"}}
	ctx := context.Background()
	r.next, r.stop = iter.Pull(iter.Seq[string](func(yield func(string) bool) {
		gone := false
		g.c = stepped{bot, r, func(name string) bool {
			gone = gone || !yield(name)
			return !gone
		}}
		var err error
		if r.call, err = g.enter(ctx); err != nil {
			return
		}
		waited := false
		for !isDecided(r.call) {
			waited = true
			if r.expired {
				_ = g.release(ctx, r.call)
				return
			}
			shown, err := g.c.Show(ctx, toolcall.ShowRequest{Key: r.call.Key})
			if err != nil {
				return
			}
			r.call = shown.Call
		}
		v, err := g.finish(ctx, r.call, waited)
		r.told = err == nil && v.Behavior == message.BehaviorAllow
	}))
	s.requests = append(s.requests, r)
	return r
}

// advance lets a request take its next step.
func (s *story) advance(i int) {
	r := s.requests[i]
	if _, more := r.next(); more {
		return
	}
	s.requests = append(s.requests[:i:i], s.requests[i+1:]...)
	if !r.told {
		return
	}
	if other, ok := s.ran[r.call.Call]; ok && other != r.id {
		s.problem("%s and %s run on the approval of %s", other, r.id, r.call.Call)
	}
	s.ran[r.call.Call] = r.id
}

// exists reports whether the agent's call id was proposed itself.
func (s *story) exists(id message.CallID) bool {
	_, err := s.ann.Show(context.Background(), toolcall.ShowRequest{Key: toolcall.Key{Session: "s", Reply: "t", Call: id}})
	if err != nil && !errors.Is(err, message.ErrNotFound) {
		s.problem("show %s: %v", id, err)
	}
	return err == nil
}

// end lets the requests that are open end.
func (s *story) end() {
	for len(s.requests) > 0 {
		s.requests[0].expired = true
		s.advance(0)
		synctest.Wait()
	}
}

func (s *story) approve() {
	list, err := s.ann.List(context.Background(), toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallAsking}})
	for _, c := range list.Calls {
		if err == nil {
			_, err = s.ann.SubmitResponse(context.Background(), toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest})
		}
	}
	if err != nil {
		s.problem("approve: %v", err)
	}
	synctest.Wait()
}

// act takes one step of a plot.
func (s *story) act(what, about int) {
	switch {
	case what == 0:
		s.arrive(about%2, message.CallID(fmt.Sprint("c", about%3)))
	case what == 1:
		s.approve()
	case len(s.requests) == 0:
	case what == 2:
		s.requests[about%len(s.requests)].expired = true
	case what == 3:
		s.requests[about%len(s.requests)].fault = lost + about%2
	default:
		s.advance(about % len(s.requests))
	}
	synctest.Wait()
}

// Of any sequence of requests, at most one call of the agent runs on an approval. It gets the same
// answer again, and an approval on which none began is left for a later call.
func TestOneCallRunsPerApproval(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plot := rapid.SliceOfN(rapid.IntRange(0, 99), 10, 80).Draw(rt, "plot")
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t)
			for _, n := range plot {
				s.act(n%10, n/10)
			}
			s.end()
			for call, id := range s.ran {
				if call != id && s.exists(id) {
					continue // two requests about it came at the same time, and one proposed it
				}
				r := s.arrive(0, id)
				if s.end(); !r.told || r.call.Call != call {
					s.problem("%s ran on the approval of %s, and again it was told %t about %+v", id, call, r.told, r.call)
				}
			}
			s.approve()
			for i := range 4 {
				s.arrive(i%2, message.CallID(fmt.Sprint("later", i)))
				s.end()
			}
			list, err := s.ann.List(context.Background(), toolcall.ListRequest{})
			for _, c := range list.Calls {
				if isDecided(c) && !c.Started() {
					s.problem("no later call can run on the approval of %s", c.Call)
				}
			}
			if err != nil {
				s.problem("list: %v", err)
			}
			problems = s.problems
		})
		if len(problems) > 0 {
			rt.Fatalf("%s", strings.Join(problems, "\n"))
		}
	})
}
