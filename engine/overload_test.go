package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// refusesMore checks that a new call is refused as overloaded, and that nothing of it was
// written.
func (r *replica) refusesMore(id message.CallID, tool, input string) {
	r.w.Helper()
	size := len(r.w.records())
	_, err := r.bot().Propose(r.w.Context(), request(call(id, tool, input)))
	if !errors.Is(err, message.ErrOverloaded) || !errors.Is(err, message.ErrUnavailable) {
		r.w.Errorf("%s: %v, want an error with the code %s", id, err, message.CodeOverloaded)
	}
	r.w.wantSize(size)
}

// Above the limit of open calls new calls are refused, and known ones are answered and
// finished.
func TestOpenCallsHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), t, newMemory)
		e := w.engine(engine.WithMaxOpen(2))
		first := e.ask("c1", pay, `{"amount":500}`)
		e.ask("c2", pay, `{"amount":500}`)
		e.refusesMore("c3", pay, `{"amount":500}`)
		e.refusesMore("c4", echo, `{}`)
		if again := e.ask("c1", pay, `{"amount":500}`); again.Digest != first.Digest {
			t.Errorf("the known call is answered with the digest %s, want %s", again.Digest, first.Digest)
		}
		_, err := e.ann().SubmitResponse(t.Context(), approve(first))
		w.must(err)
		w.until("the approved call finishes", func() bool { return !w.known(first.Key).Open() })
		e.ask("c3", pay, `{"amount":500}`)
	})
}

// Above the limit of running calls new local calls are refused; what is approved, what
// workers run and what running calls propose goes on.
func TestRunningCallsHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), t, newMemory)
		e := w.engine(engine.WithMaxRunning(1))
		asked := e.ask("asked", pay, `{"amount":500}`)
		running := e.propose(call("running", block, `{}`))[0]
		w.until("it runs", func() bool { return len(w.effects.of(running.Key)) == 1 })
		e.refusesMore("more", echo, `{}`)
		e.submit("remote", remote)
		_, err := e.within(running, "sub", call("nested", echo, `{}`))
		w.must(err)
		_, err = e.ann().SubmitResponse(t.Context(), approve(asked))
		w.must(err)
		w.until("the approved call finishes", func() bool { return !w.known(asked.Key).Open() })
		w.effects.release(running.Key)
		w.until("it ends", func() bool { return !w.known(running.Key).Open() })
		e.propose(call("more", echo, `{}`))
	})
}
