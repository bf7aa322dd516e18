package e2e_test

import (
	"fmt"
	"testing"
)

// approval request is a call that asks, by what every surface shows of it.
type approval struct {
	session string
	cents   int // what tells it from the others
	reply   string
	call    string
	digest  string
}

func (q approval) text() string { return fmt.Sprintf("Pay %d cents?", q.cents) }
func (q approval) path() string { return q.session + "/" + q.reply + "/" + q.call }

// ending is how an approval request ended, as a surface tells it. A member is empty where
// the surface's format has no place for it: see gateway/SURFACES.md.
type ending struct {
	Verdict string // approve, reject or respond
	By      string // who gave it
	State   string // of the result
	Output  string // the result
}

// conflict is what a surface says to an answer that came too late.
type conflict struct {
	Code string // the surface's own word for it
	By   string // who was faster, where the answer says so
}

// surface is a way to see and answer approval requests: a client as its users have it,
// with a person in front of it.
type surface interface {
	// who is the name under which it answers.
	who() string
	// shown waits until it shows the open approval request.
	shown(q approval)
	// answer answers the approval request that is shown.
	answer(q approval)
	// resolved waits until it shows how the approval request ended. now is what it tells
	// while it follows the approval request; otherwise it has come back since.
	waitForOutcome(q approval, now bool) ending
	// late answers what was shown before.
	late(q approval) conflict
	// tells is an ending in the words of the surface's format.
	tells(e ending, now bool) ending
	// tooLate is what late must come to, but for the name of who was faster;
	// By has a word if the format says it.
	tooLate() conflict
	// reconnect makes new connections, the old ones having been cut.
	reconnect()
}

// TestOneRequest shows one approval request on every surface at once and has each of
// them win once. The others show the same outcome, and get a typed conflict when
// they answer what they showed before. Then the server is killed and started
// again: everybody still agrees, and an approval request that was open is open still,
// everywhere, and is answered once.
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
		if !ok { // the screens are not where the next approval request needs them
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
	winner := all[3] // not the one that began the turn
	winner.answer(open)
	h.agree(all, open, winner, true)
}

func each(all []surface, f func(surface)) {
	for _, s := range all {
		f(s)
	}
}

// agree checks that an approval request ended once, as the winner said, that everybody
// shows that, and that the others are too late. It gives the ending.
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
			h.t.Errorf("%s answers %s too late and is told %+v, want %+v", s.who(), q.session, got, want)
		}
	}
	if again := h.ending(q); again != e {
		h.t.Errorf("%s had ended as %+v, and after the late answers as %+v", q.session, e, again)
	}
	return e
}

// same checks that a surface shows the ending, as far as it can.
func (h *house) same(s surface, q approval, e ending, now bool) {
	h.t.Helper()
	if got, want := s.waitForOutcome(q, now), s.tells(e, now); got != want {
		h.t.Errorf("%s shows that %s ended as %+v, want %+v", s.who(), q.session, got, want)
	}
}
