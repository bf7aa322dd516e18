package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os/exec"
	"regexp"
	"strings"

	"github.com/askance-dev/askance/internal/termtest"
)

// terminalSurface is askance inbox on a real terminal. Other commands show what the inbox no longer
// lists, and answer like scripts.
type terminalSurface struct {
	*termtest.Terminal
	h   *house
	own ending // of the approval request that it answered, which the list shows only for some seconds
}

func newTerminalSurface(h *house) *terminalSurface {
	h.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(h.t.Context()), bin.askance, "inbox", "--nats", "nats://"+h.nats, "--as", "tess")
	return &terminalSurface{Terminal: termtest.Open(h.t, 120, 50, cmd), h: h}
}

// framed yields the lines of a screen without its frame.
func framed(screen string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.SplitSeq(screen, "\n") {
			if !yield(strings.Trim(line, "│ ")) {
				return
			}
		}
	}
}

func (*terminalSurface) who() string { return "tess" }

// shown opens the approval request and asks to approve it, which one more key would confirm.
func (s *terminalSurface) shown(q approval) {
	s.h.t.Helper()
	s.See(q.text(), "1 open")
	s.Press("G") // resolved ones stay on the list for a while
	s.Until("the cursor on "+q.text(), func(screen string) bool {
		for line := range framed(screen) {
			if strings.HasPrefix(line, ">") && strings.Contains(line, q.text()) {
				return true
			}
		}
		return false
	})
	s.Press("\r", q.text(), "digest")
	s.Press("a", "These arguments run", fmt.Sprint(q.cents), "y approve  Y")
}

func (s *terminalSurface) answer(q approval) {
	s.h.t.Helper()
	s.own = s.verdict(s.Press("y", "approved by tess", q.call+": approved"))
}

var (
	termVerdict = regexp.MustCompile(`(?:edited and )?(approv|reject|respond)ed[a-z ]* by ([a-z]+)`)
	termStory   = regexp.MustCompile(`(?m)^ +response +.*?(approve|reject|respond)\b.* by approver ([a-z]+)`)
)

func (s *terminalSurface) waitForOutcome(q approval, now bool) ending {
	s.h.t.Helper()
	if !now {
		return s.story(q)
	}
	e := s.own
	s.own = ending{}
	screen := s.Until("who answered "+q.text(), func(screen string) bool {
		if e == (ending{}) {
			e = s.verdict(screen)
		}
		return e != ending{}
	})
	if strings.Contains(screen, "─ Approve:") {
		s.Press("y") // too late: the key no longer does anything
	}
	s.back()
	return e
}

// verdict finds who answered, on the approval request or, after its own answer, on the list.
func (s *terminalSurface) verdict(screen string) (e ending) {
	for line := range framed(screen) {
		if !strings.HasPrefix(line, "Closed") && !strings.HasPrefix(line, "Decided") && !strings.Contains(line, " by "+s.who()) {
			continue
		}
		if m := termVerdict.FindStringSubmatch(line); m != nil {
			e = ending{Verdict: verdicts[m[1]], By: m[2]}
		}
	}
	return e
}

// back goes back to the list.
func (s *terminalSurface) back() {
	s.h.t.Helper()
	s.Until("the list", func(screen string) bool {
		if strings.Contains(screen, "4 History") && !strings.Contains(screen, "esc back") { // only the list has tabs
			return true
		}
		s.Press("\x1b")
		return false
	})
}

// story returns the ending that askance show prints for people.
func (s *terminalSurface) story(q approval) ending {
	s.h.t.Helper()
	out, errs, err := command(s.h.t.Context(), "show", q.path(), "--nats", "nats://"+s.h.nats)
	if err != nil {
		s.h.t.Fatalf("askance show: %v\n%s", err, errs)
	}
	m := termStory.FindStringSubmatch(out)
	if m == nil {
		s.h.t.Fatalf("askance show does not say who answered:\n%s", out)
	}
	return ending{Verdict: m[1], By: m[2]}
}

func (*terminalSurface) tells(e ending, _ bool) ending { return ending{Verdict: e.Verdict, By: e.By} }

// winner finds who was faster. The name is followed by how that person was authenticated.
var winner = regexp.MustCompile(`; (\S+) \(.*\) responded first`)

func (s *terminalSurface) late(q approval) conflict {
	s.h.t.Helper()
	_, errs, err := command(s.h.t.Context(), "approve", q.path(), "--digest", q.digest, "--yes", "--json", "--as", s.who(), "--nats", "nats://"+s.h.nats)
	var got struct {
		Error struct {
			Exit       int
			Code, What string
		}
	}
	if err == nil || json.Unmarshal([]byte(errs), &got) != nil || got.Error.Exit != 3 {
		s.h.t.Errorf("too late, the terminal gets %v %s", err, errs)
		return conflict{}
	}
	by := ""
	if m := winner.FindStringSubmatch(got.Error.What); m != nil {
		by = m[1]
	}
	return conflict{Code: got.Error.Code, By: by}
}

func (*terminalSurface) tooLate() conflict { return conflict{Code: "finished", By: "yes"} }

// reconnect waits, because the inbox reconnects automatically.
func (s *terminalSurface) reconnect() {
	s.h.t.Helper()
	s.Until("the engine", func(screen string) bool { return !strings.Contains(screen, "no connection for") })
	s.back()
}
