package blockstream_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const shop = `
version: 1
name: shop
rules:
  - {name: large-refunds, tool_name: refund, behavior: ask, when: "args.cents > 5000"}
`

// stage is an engine in memory and a viewer of one of its sessions.
type stage struct {
	t        *testing.T
	bot, ann engine.Client
	calls    map[message.CallID]*toolcall.Call
	after    uint64
	m        *blockstream.Mapper
	frames   []blockstream.Frame
}

func newStage(t *testing.T) *stage {
	t.Helper()
	tool := permission.Tool{Name: "refund"}
	bundle, err := permission.Load([]permission.File{{Name: "shop.yaml", Data: []byte(shop)}}, permission.Options{Tools: []permission.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	var tools executor.Registry
	if err := tools.Register("refund", func(_ context.Context, task executor.Task) (executor.Output, error) {
		return executor.Textf("refunded %s", task.Input), nil
	}); err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New("default", engine.NewMemory(), bundle, []engine.Tool{{Tool: tool}}, engine.WithExecutor(&tools))
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &stage{t: t, calls: map[message.CallID]*toolcall.Call{},
		bot: eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}),
		ann: eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})}
	s.m = newMapper(t, func(c *blockstream.Config) {
		c.OpenRequest = func(k toolcall.Key, tool, input string) blockstream.OpenRequest {
			call := s.calls[k.Call]
			if call == nil || call.Tool != tool || call.Input != input {
				return blockstream.OpenRequest{}
			}
			return blockstream.OpenRequest{Digest: call.Digest, Text: call.Request.Text}
		}
	})
	return s
}

// propose proposes calls that all need approval, one after the other. While a request is open,
// calls that its suggested rule would cover wait for it.
func (s *stage) propose(calls ...message.ToolCallBlock) {
	s.t.Helper()
	if _, err := s.bot.Propose(s.t.Context(), toolcall.ProposeRequest{Session: "s_1", Reply: "r1", Calls: calls}); err != nil {
		s.t.Fatal(err)
	}
}

// watch maps what has happened since, and what happens within a moment.
func (s *stage) watch() {
	s.t.Helper()
	r, err := s.bot.Events(s.t.Context(), toolcall.EventsRequest{Session: "s_1", After: s.after, WaitMS: 100})
	if err != nil {
		s.t.Fatal(err)
	}
	s.after = r.Next
	list, err := s.bot.List(s.t.Context(), toolcall.ListRequest{Session: "s_1"})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range list.Calls {
		s.calls[c.Call] = c
	}
	for _, raw := range r.Events {
		e, err := message.DecodeEvent(raw.Event)
		if err != nil {
			s.t.Fatal(err)
		}
		frames, err := s.m.Event(e)
		if err != nil {
			s.t.Fatal(err)
		}
		blockstream.Stamp(frames, raw.Seq)
		s.frames = append(s.frames, frames...)
	}
}

// decide sends an approval command and passes its responses to the engine.
func (s *stage) decide(command string) error {
	s.t.Helper()
	cmd, err := blockstream.DecodeCommand([]byte(command))
	if err != nil {
		s.t.Fatal(err)
	}
	responses, err := s.m.Responses(cmd.(*blockstream.Approval))
	for _, resp := range responses {
		if err == nil {
			_, err = s.ann.SubmitResponse(s.t.Context(), resp)
		}
	}
	return err
}

func (s *stage) keyOf(call message.CallID) string {
	for range 100 { // a call that waited is decided again after a while
		for _, a := range s.m.Open() {
			if a.Calls[0].Call == call {
				return a.Key
			}
		}
		s.watch()
	}
	s.t.Fatalf("no approval request is open about %s", call)
	return ""
}

// An engine's approval requests reach the clients, and the clients' decisions reach the engine.
// What was shown is what runs.
func TestWithAnEngine(t *testing.T) {
	s := newStage(t)
	s.propose(message.ToolCallBlock{ID: "c1", Name: "refund", Input: `{"cents": 6000}`},
		message.ToolCallBlock{ID: "c2", Name: "refund", Input: `{"cents": 7000}`},
		message.ToolCallBlock{ID: "c3", Name: "refund", Input: `{"cents": 8000}`},
		message.ToolCallBlock{ID: "c4", Name: "refund", Input: `{"cents": 9000}`})
	s.watch()
	k1, k3 := s.keyOf("c1"), ""
	for i, decision := range []string{`"approve"`, `{"type":"edit","edited_action":{"name":"refund","args":{"cents":6500}}}`, `{"type":"reject","message":"too much"}`} {
		k3 = s.keyOf(message.CallID("c" + strconv.Itoa(i+1)))
		if err := s.decide(`{"type":"approval","approval_key":"` + k3 + `","decisions":[` + decision + `]}`); err != nil {
			t.Fatal(err)
		}
	}
	// The client does not know this yet and answers again, which is a typed conflict.
	err := s.decide(`{"type":"approval","approval_key":"` + k3 + `","decisions":["approve"]}`)
	if f := blockstream.ErrorFrame(err, k3); f.Code != blockstream.CodeApprovalResolved {
		t.Errorf("%v: %+v", err, f)
	}
	s.keyOf("c4")
	if _, err := s.bot.Interrupt(t.Context(), toolcall.InterruptRequest{Session: "s_1", Reply: "r1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.bot.Wait(t.Context(), toolcall.WaitRequest{Session: "s_1", Reply: "r1"}); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if len(s.m.Open()) == 0 {
			break
		}
		s.watch()
	}
	if err := s.decide(`{"type":"approval","approval_key":"` + k1 + `","decisions":["approve"]}`); !errors.Is(err, blockstream.ErrApprovalResolved) {
		t.Error(err)
	}
	s.check()
}

// check checks the whole turn with both clients.
func (s *stage) check() {
	s.t.Helper()
	lines(s.t, s.frames)
	r, d := newReact(), newDart()
	feed(s.t, r, s.frames)
	feed(s.t, d, s.frames)
	if r.ignored+d.ignored+d.rangeErrors != 0 || len(s.m.Open()) != 0 {
		s.t.Errorf("ignored %d and %d, lost %d, open %d", r.ignored, d.ignored, d.rangeErrors, len(s.m.Open()))
	}
	if n := len(r.of("approval_request")); n != 4 {
		s.t.Errorf("%d cards", n)
	}
	got := map[string]string{}
	for _, u := range r.of("tool_use") {
		result, _ := u["toolResult"].(string)
		got[u["id"].(string)] = result
	}
	for id, want := range map[string]string{"c1": `refunded {"cents": 6000}`, "c2": `refunded {"cents":6500}`, "c3": "too much", "c4": "interrupted"} {
		if !strings.Contains(got[id], want) {
			s.t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
}
