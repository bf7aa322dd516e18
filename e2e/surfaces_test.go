package e2e_test

import (
	"fmt"
	"testing"
)

// approval is a call that asks, with what every surface shows of it.
type approval struct {
	session string
	cents   int // distinguishes it from the others
	reply   string
	call    string
	digest  string
}

func (a approval) text() string { return fmt.Sprintf("Pay %d cents?", a.cents) }
func (a approval) path() string { return a.session + "/" + a.reply + "/" + a.call }

// ending is how an approval request ended, as a surface shows it. A member is empty if the
// surface's format has no place for it: see gateway/SURFACES.md.
type ending struct {
	Verdict string // approve, reject or respond
	By      string // who gave it
	State   string // of the result
	Output  string // the result
}

// conflict is how a surface refuses an answer that came too late.
type conflict struct {
	Code string // the surface's own code
	By   string // who was faster, if the refusal says so
}

// surface is a way to see and answer approval requests: a real client with a person in front of
// it.
type surface interface {
	// who returns the name of the person who answers.
	who() string
	// shown waits until it shows the open approval request.
	shown(q approval)
	// answer answers the approval request that is shown.
	answer(q approval)
	// waitForOutcome waits until the surface shows how the approval request ended. now is set while
	// the surface follows the request; otherwise it has reconnected since.
	waitForOutcome(q approval, now bool) ending
	// late answers what was shown before.
	late(q approval) conflict
	// tells returns an ending as the surface's format expresses it.
	tells(e ending, now bool) ending
	// tooLate returns what late must return, except for the name of the faster person: By is not
	// empty if the format has the name.
	tooLate() conflict
	// reconnect makes new connections after the old ones were cut.
	reconnect()
}

// TestOneRequest shows one approval request on every surface at once and lets each surface win
// once. The others show the same outcome, and get a typed conflict when they answer what they
// showed before. Then the server is killed and started again: all surfaces still agree, and an
// approval request that was open is still open on all of them and is answered once.
func TestOneRequest(t *testing.T) {
	h := newHouse(t)
	all := h.surfaces()
	var done []approval
	ended := map[string]ending{}
	for i, winner := range all {
		ok := t.Run(winner.who(), func(t *testing.T) {
			h.in(t)
			q := h.ask(fmt.Sprintf("won-by-%s", winner.who()), 101+i)
			each(all, func(s surface) { s.shown(q) })
			winner.answer(q)
			ended[q.session] = h.agree(all, q, winner, true)
			done = append(done, q)
		})
		h.in(t)
		if !ok { // the surfaces are not ready for the next approval request
			return
		}
	}
	open := h.ask("open-when-killed", 200)
	each(all, func(s surface) { s.shown(open) })
	h.server.kill()
	h.server.start()
	h.server.up()
	each(all, func(s surface) { s.reconnect() })
	for _, q := range done {
		if got := h.ending(q); got != ended[q.session] {
			t.Errorf("%s ended as %+v, after the restart as %+v", q.session, ended[q.session], got)
		}
		each(all, func(s surface) { h.same(s, q, ended[q.session], false) })
	}
	each(all, func(s surface) { s.shown(open) })
	winner := all[3] // not the surface that began the turn
	winner.answer(open)
	h.agree(all, open, winner, true)
}

func each(all []surface, f func(surface)) {
	for _, s := range all {
		f(s)
	}
}

// agree checks that an approval request ended once, with the winner's answer, that every surface
// shows that, and that the others are too late. It returns the ending.
func (h *house) agree(all []surface, q approval, winner surface, now bool) ending {
	h.t.Helper()
	e := h.ending(q)
	if e.By != winner.who() {
		h.t.Errorf("%s was answered by %s, not by %s", q.session, e.By, winner.who())
	}
	for _, s := range all {
		h.same(s, q, e, now)
		if s == winner {
			continue
		}
		want := s.tooLate()
		if want.By != "" {
			want.By = e.By
		}
		if got := s.late(q); got != want {
			h.t.Errorf("%s answered %s too late and was told %+v, want %+v", s.who(), q.session, got, want)
		}
	}
	if again := h.ending(q); again != e {
		h.t.Errorf("%s had ended as %+v, and after the late answers as %+v", q.session, e, again)
	}
	return e
}

// same checks that a surface shows the ending as far as its format can express it.
func (h *house) same(s surface, q approval, e ending, now bool) {
	h.t.Helper()
	if got, want := s.waitForOutcome(q, now), s.tells(e, now); got != want {
		h.t.Errorf("%s shows that %s ended as %+v, want %+v", s.who(), q.session, got, want)
	}
}
