package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestStoreFull fills a NATS server with a bounded store. Requests that do not fit are refused
// with a typed error and change nothing, what was acknowledged remains, and work continues when
// there is more room.
func TestStoreFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nats := w.external(2 << 20)
	nats.start()
	nats.up()
	engine := w.replica("engine")
	engine.start()
	s := &stage{world: w, engine: engine, workers: map[string]*process{}}
	s.open()

	s.begun()
	refused := s.fill()
	s.unchanged(refused)

	nats.stop()
	w.natsConfig(64 << 20)
	nats.start()
	s.resumes(refused)
}

// begun starts calls whose tools are still running when the store is full.
func (s *stage) begun() {
	s.t.Helper()
	_, err := s.bot.propose(proposal("full", "running",
		s.block("c1", charge, effect.Input{N: 1, Before: 20, After: 1500}),
		s.block("c2", note, effect.Input{N: 2, Before: 20, After: 1500}),
	))
	s.must(err)
}

// fill proposes large approval requests, then ever smaller ones, until not even a small one fits,
// and returns the proposal that was refused last.
func (s *stage) fill() toolcall.ProposeRequest {
	s.t.Helper()
	var refused toolcall.ProposeRequest
	n := 0
	for _, size := range []int{100_000, 10_000, 1_000, 0} {
		for {
			n++
			in := effect.Input{N: n, Ask: true, Pad: strings.Repeat("x", size)}
			refused = proposal("full", fmt.Sprintf("r%d", n), s.block("c", allTools[n%4], in))
			_, err := s.bot.propose(refused)
			if err == nil {
				continue
			}
			if !errors.Is(err, message.ErrFull) {
				s.t.Fatalf("proposal %d of a full store: %v, want an error with code %s", n, err, message.CodeFull)
			}
			break
		}
	}
	s.t.Logf("%d proposals until the store was full", n)
	return refused
}

// unchanged checks that a full store lost nothing: the refused call is unknown, approval requests
// are still open, and an answer is refused and changes nothing.
func (s *stage) unchanged(refused toolcall.ProposeRequest) {
	s.t.Helper()
	k := key(string(refused.Session), string(refused.Reply), "c")
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if _, err := s.bot.Show(ctx, toolcall.ShowRequest{Key: k}); !errors.Is(err, message.ErrNotFound) {
		s.t.Errorf("show of the refused call: %v, want %s", err, message.CodeNotFound)
	}
	open, err := s.approver.list(toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallAsking}})
	s.must(err)
	asked := open[0]
	err = s.approver.answer(asked, toolcall.Response{Kind: toolcall.ResponseApprove})
	if !errors.Is(err, message.ErrFull) {
		s.t.Errorf("answer with a full store: %v, want an error with code %s", err, message.CodeFull)
	}
	show, err := s.approver.Show(ctx, toolcall.ShowRequest{Key: asked.Key})
	s.must(err)
	if now := show.Call; now.State != message.ToolCallAsking || now.Digest != asked.Digest || now.Seq != asked.Seq {
		s.t.Errorf("%s: an answer that was refused changed it to %s", describe(asked), describe(now))
	}
}

// resumes completes everything once there is room: the refused proposal, open requests, and
// results that could not be stored.
func (s *stage) resumes(refused toolcall.ProposeRequest) {
	s.t.Helper()
	began := time.Now()
	_, err := s.bot.propose(refused)
	s.must(err)
	s.t.Logf("work continued %s after there was room", time.Since(began).Round(ms))
	s.finish()
}
