package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// found checks, over a new connection as after a restart of the runtime, that the session's calls
// are listed as the journal has them, and that every approval request that was open is still open
// with the same digest.
func (s *stage) found(session string) {
	s.t.Helper()
	s.obs.await("the observer sees what was acknowledged", s.mind, func() bool { return s.obs.reached(s.lastAck()) })
	before := s.ofSession(session)
	again := s.world.bot()
	listed, err := again.list(toolcall.ListRequest{Session: message.SessionID(session), All: true})
	if err != nil {
		s.t.Fatal(err)
	}
	have := map[toolcall.Key]*toolcall.Call{}
	for _, c := range listed {
		have[c.Key] = c
	}
	for _, c := range before {
		now := have[c.Key]
		switch {
		case now == nil:
			s.t.Errorf("%s: the runtime does not find the call after the restart", describe(c))
		case now.Records < c.Records:
			s.t.Errorf("%s: after the restart the call went back to %s", describe(c), describe(now))
		case c.State == message.ToolCallAsking && (now.State != message.ToolCallAsking || now.Digest != c.Digest):
			s.t.Errorf("%s: the call's approval request is gone after the restart: %s", describe(c), describe(now))
		}
	}
}

// ofSession returns the calls seen of a session.
func (w *world) ofSession(session string) []*toolcall.Call {
	var out []*toolcall.Call
	for _, c := range w.obs.all() {
		if c.Session == message.SessionID(session) {
			out = append(out, c)
		}
	}
	return out
}

// answerOpen answers the open approval requests of a session, or all if it is "", each in one of
// the possible ways.
func (s *stage) answerOpen(session string) error {
	if s.answers != nil {
		return s.answers(session)
	}
	open, err := s.approver.list(toolcall.ListRequest{Session: message.SessionID(session), States: []message.ToolCallState{message.ToolCallAsking}})
	for _, c := range open {
		if err == nil {
			err = s.answer(c)
		}
	}
	return err
}

func (s *stage) answer(c *toolcall.Call) error {
	switch s.approver.dice.pick(12) {
	case 0:
		return s.approver.answer(c, toolcall.Response{Kind: toolcall.ResponseReject, Feedback: "no"})
	case 1:
		return s.approver.answer(c, toolcall.Response{Kind: toolcall.ResponseRespond, Output: "forty-two"})
	case 2, 3:
		edited := strings.Replace(c.Input, `"n":`, `"n":1`, 1)
		return s.approver.answer(c, toolcall.Response{Kind: toolcall.ResponseApprove, Input: &edited})
	case 4:
		err := s.byCommand(approverName, "approve", keyPath(c.Key), "--digest", c.Digest)
		if over(err) && s.answered(c) {
			return nil // as with client.answer
		}
		return err
	default:
		return s.approver.answer(c, toolcall.Response{Kind: toolcall.ResponseApprove})
	}
}

// exits are the exit codes that a person reacts to, as the errors of a client.
var exits = map[int]error{3: message.ErrState, tryLater: message.ErrUnavailable}

// byCommand runs a command like a person on a terminal, and tries again later if told to.
func (s *stage) byCommand(name string, args ...string) error {
	args = append(args, "--nats", s.url, "--space", string(space), "--data", s.file("data-person"), "--as", name)
	what := "askance " + strings.Join(args, " ")
	_, _, err := persist(patience, what, func(ctx context.Context) (struct{}, error) {
		_, stderr, err := command(ctx, args...)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exits[exit.ExitCode()] != nil {
			err = exits[exit.ExitCode()]
		}
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s", what, err, stderr)
		}
		return struct{}{}, err
	})
	return err
}

// keyPath returns a call's name for commands.
func keyPath(k toolcall.Key) string {
	return string(k.Session) + "/" + string(k.Reply) + "/" + string(k.Call)
}

// rest waits until nothing changes without a person: every call is finished, is blocked, or waits
// for a blocked call.
func (s *stage) rest() {
	s.t.Helper()
	s.obs.await("everything ends or waits to be resolved", s.mind, func() bool {
		s.must(s.answerOpen(""))
		held := map[toolcall.Key]bool{}
		all := s.obs.all()
		for _, c := range all {
			held[c.ReplyKey()] = held[c.ReplyKey()] || c.Open() && c.Blocked != toolcall.NotBlocked
		}
		for _, c := range all {
			if c.Open() && c.Blocked == toolcall.NotBlocked && (c.State != message.ToolCallPending || !held[c.ReplyKey()]) {
				return false
			}
		}
		return s.seen()
	})
}

// settleAll resolves blocked calls until every call has ended. Like an operator, it finds out what
// happened by looking at the effect file.
func (s *stage) settleAll() {
	s.t.Helper()
	for n := 0; ; {
		held, err := s.operator.list(toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseBlocked}})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(held) == 0 && s.ended() {
			return
		}
		all := len(held)
		if held = slices.DeleteFunc(held, s.mayReport); len(held) < all {
			<-time.After(100 * ms)
		}
		effects := s.surely()
		for _, c := range held {
			n++
			if err := s.resolve(c, len(effects[c.IdempotencyKey()]) > 0, n); err != nil {
				s.t.Fatal(err)
			}
		}
		s.rest()
	}
}

// ownersTime is how long an owner that was given up but still lives may take to report its result.
const ownersTime = 5 * time.Second

// mayReport reports whether the owner of a blocked call may still run it and report: the owner
// lives, and has not been silent for long. An operator who judges before that guesses. After that
// time the owner never received the reply to its start, or its late result would have resolved
// the call.
func (s *stage) mayReport(held *toolcall.Call) bool {
	return time.Since(held.UpdatedAt) < ownersTime && s.owned(held.Attempt)
}

// owned reports whether the owner of an attempt still lives: the engine with that id, or the worker
// with that name if it has run since before the start.
func (w *world) owned(a toolcall.Attempt) bool {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.procs {
		began, alive := p.began()
		if alive && (p.name == a.Worker && began.Before(a.StartedAt) || p.sign == servesSign && p.id() == a.Worker) {
			return true
		}
	}
	return false
}

// surely returns the effects at a moment when no tool runs. An operator who judges while a tool is
// still running guesses.
func (s *stage) surely() map[string][]effect.Mark {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	release, err := effect.Idle(ctx, s.effects())
	s.must(err)
	defer func() { s.must(release()) }()
	return s.marks(effect.EffectsFile)
}

// resolve states the outcome of the call, every fourth time with the command.
func (s *stage) resolve(c *toolcall.Call, happened bool, n int) error {
	outcome := toolcall.OutcomeHappened
	switch {
	case c.Blocked != toolcall.BlockedUnknown && c.Blocked != toolcall.BlockedReturned:
		return fmt.Errorf("%s: the call is blocked, but not because its outcome is unknown or workers returned it", describe(c))
	case !happened && c.Blocked == toolcall.BlockedReturned: // a slow machine uses up the lease of every attempt before it begins
		outcome = toolcall.OutcomeRunAgain
	case !happened:
		outcome = []toolcall.Outcome{toolcall.OutcomeDidNot, toolcall.OutcomeRunAgain}[s.operator.dice.pick(2)]
	}
	if n%4 == 1 {
		args := []string{"resolve", keyPath(c.Key), "--outcome", string(outcome)}
		if happened { // only then there is an output
			args = append(args, "--output", "resolved")
		}
		err := s.byCommand(operatorName, args...)
		if over(err) && s.movedOn(c) {
			return nil // as with client.resolve
		}
		return err
	}
	return s.operator.resolve(c, outcome)
}

// must ends the test on an error. Only the test's own goroutine may call it.
func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) ended() bool {
	for _, c := range s.obs.all() {
		if c.Open() {
			return false
		}
	}
	return s.seen()
}
