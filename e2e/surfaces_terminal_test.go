package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// terminalSurface is askance inbox on a real terminal. What the inbox has let
// go of, and answers of scripts, are the other commands of the terminal.
type terminalSurface struct {
	h    *house
	file *os.File

	mu     sync.Mutex // guards all below
	screen *vt.Emulator
	news   chan struct{} // closed when something arrived
}

func newTerminalSurface(h *house) *terminalSurface {
	t := h.t
	t.Helper()
	const width, height = 120, 50
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), bin.askance, "inbox", "--nats", "nats://"+h.nats, "--as", "tess")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"TERM=xterm-256color", "LANG=C.UTF-8", "HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + cmd.Dir}
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: height, Cols: width})
	if err != nil {
		t.Fatal(err)
	}
	s := &terminalSurface{h: h, file: f, screen: vt.NewEmulator(width, height), news: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(s.read)
	wg.Go(func() { _, _ = io.Copy(s.file, s.screen) }) // what the terminal itself answers
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		_ = f.Close()
		if in, ok := s.screen.InputPipe().(io.Closer); ok { // Close races with Read
			_ = in.Close()
		}
		wg.Wait()
	})
	return s
}

// read shows what the process sends.
func (s *terminalSurface) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.file.Read(buf)
		s.mu.Lock()
		_, _ = s.screen.Write(buf[:n])
		close(s.news)
		s.news = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *terminalSurface) look() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String(), s.news
}

// until waits for a screen.
func (s *terminalSurface) until(what string, is func(screen string) bool) string {
	s.h.t.Helper()
	ctx, cancel := context.WithTimeout(s.h.t.Context(), soon)
	defer cancel()
	for {
		screen, news := s.look()
		if is(screen) {
			return screen
		}
		select {
		case <-news:
		case <-ctx.Done():
			s.h.t.Fatalf("the terminal never had %s:\n%s", what, screen)
		}
	}
}

// see waits until all texts are on the screen.
func (s *terminalSurface) see(texts ...string) {
	s.h.t.Helper()
	s.until(strings.Join(texts, " and "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// press types, and waits until all texts are on the screen.
func (s *terminalSurface) press(keys string, texts ...string) {
	s.h.t.Helper()
	if _, err := s.file.WriteString(keys); err != nil {
		s.h.t.Fatal(err)
	}
	s.see(texts...)
}

func (*terminalSurface) who() string { return "tess" }

// shown opens the question, and asks to approve it: a key is missing.
func (s *terminalSurface) shown(q question) {
	s.h.t.Helper()
	s.see(q.text(), "1 open")
	s.press("G") // settled ones stay on the list for a while
	s.until("the cursor on "+q.text(), func(screen string) bool {
		for line := range strings.SplitSeq(screen, "\n") {
			if strings.HasPrefix(line, ">") && strings.Contains(line, q.text()) {
				return true
			}
		}
		return false
	})
	s.press("\r", q.text(), "digest")
	s.press("a", "These arguments run", fmt.Sprint(q.cents), "y approve  esc")
}

func (s *terminalSurface) answer(q question) {
	s.h.t.Helper()
	s.press("y", "approved by tess", q.call+": approved")
}

var (
	termVerdict = regexp.MustCompile(`(?:edited and )?(approv|reject|answer)ed[a-z ]* by ([a-z]+)`)
	termStory   = regexp.MustCompile(`(?m)^ +answer +.*?(approve|reject|answer)\b.* by approver ([a-z]+)`)
)

func (s *terminalSurface) settled(q question, now bool) ending {
	s.h.t.Helper()
	if !now {
		return s.story(q)
	}
	var m []string
	screen := s.until("who answered "+q.text(), func(screen string) bool {
		for line := range strings.SplitSeq(screen, "\n") { // of the question, or, after an answer of its own, of the list
			if strings.HasPrefix(line, "Settled") || strings.Contains(line, " by "+s.who()) {
				m = termVerdict.FindStringSubmatch(line)
			}
		}
		return m != nil
	})
	if strings.HasPrefix(screen, "Approve:") {
		s.press("y") // too late: it is no key any more
	}
	s.back()
	return ending{Verdict: verdicts[m[1]], By: m[2]}
}

// back goes back to the list.
func (s *terminalSurface) back() {
	s.h.t.Helper()
	s.until("the list", func(screen string) bool {
		if strings.Contains(screen, "open") && strings.Contains(screen, "askance inbox") && !strings.Contains(screen, "digest") && !strings.Contains(screen, "esc back") {
			return true
		}
		_, _ = s.file.WriteString("\x1b")
		return false
	})
}

// story is what askance show says, for people.
func (s *terminalSurface) story(q question) ending {
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

func (s *terminalSurface) late(q question) conflict {
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
	by, _, _ := strings.Cut(got.Error.What, " gave the answer")
	return conflict{Code: got.Error.Code, By: by[strings.LastIndex(by, " ")+1:]}
}

func (*terminalSurface) tooLate() conflict { return conflict{Code: "finished", By: "yes"} }

// reconnect: the inbox comes back by itself.
func (s *terminalSurface) reconnect() {
	s.h.t.Helper()
	s.until("the engine", func(screen string) bool { return !strings.Contains(screen, "no answer for") })
	s.back()
}
