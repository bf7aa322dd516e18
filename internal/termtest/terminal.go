package termtest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// patience limits every wait for something on the screen.
const patience = 2 * time.Minute

// settle is how long a screen must stay unchanged before it is used, because the kernel may
// deliver a frame in parts.
const settle = 20 * time.Millisecond

// Terminal is a terminal with a process on it. Its methods are called from the
// test's goroutine.
type Terminal struct {
	t      testing.TB
	pty    *os.File
	done   chan struct{} // the process has ended
	code   int           // its exit code, after done
	silent chan struct{} // every byte that it sent has been read

	mu     sync.Mutex // guards the fields below
	screen *vt.Emulator
	sent   strings.Builder // every byte that the process sent
	news   chan struct{}   // closed when something arrived
}

// Open starts a command on a terminal of the given size, with few variables and a new folder as
// its working folder and home. The variables of cmd.Env are added. The process is killed when the
// test ends.
func Open(t testing.TB, width, height int, cmd *exec.Cmd) *Terminal {
	t.Helper()
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"TERM=xterm-256color", "LANG=C.UTF-8", "HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, cmd.Env...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
	if err != nil {
		t.Fatal(err)
	}
	x := &Terminal{t: t, pty: f, done: make(chan struct{}), silent: make(chan struct{}), screen: vt.NewEmulator(width, height), news: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() { defer close(x.silent); x.read() })
	wg.Go(x.reply)
	go func() {
		_ = cmd.Wait() // only the exit code matters
		x.code = cmd.ProcessState.ExitCode()
		close(x.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-x.done
		_ = f.Close()
		if in, ok := x.screen.InputPipe().(io.Closer); ok { // Close races with Read
			_ = in.Close()
		}
		wg.Wait()
	})
	return x
}

// read draws what the process sends.
func (x *Terminal) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := x.pty.Read(buf)
		x.mu.Lock()
		_, _ = x.screen.Write(buf[:n])
		x.sent.Write(buf[:n])
		close(x.news)
		x.news = make(chan struct{})
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// reply sends the terminal's own answers: the position of the cursor, its colours.
func (x *Terminal) reply() {
	buf := make([]byte, 1024)
	for {
		n, err := x.screen.Read(buf)
		if err != nil {
			return
		}
		_, _ = x.pty.Write(buf[:n])
	}
}

// look returns the current screen and a channel that is closed when it changes. drawn reports
// whether a frame on the alternate screen is complete: each ends with the cursor at the beginning
// of the last line.
func (x *Terminal) look() (screen string, drawn bool, news <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at, last := x.screen.CursorPosition(), x.screen.Height()-1
	drawn = !x.screen.IsAltScreen() || at.X == 0 && (at.Y == last || last < smallScreen)
	var out []string
	for line := range strings.SplitSeq(x.screen.String(), "\n") {
		out = append(out, strings.TrimRight(line, " "))
	}
	return strings.Join(out, "\n"), drawn, x.news
}

// smallScreen is the number of lines below which programs may draw less than the whole screen.
const smallScreen = 12

// Raw returns every byte that the process has sent.
func (x *Terminal) Raw() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent.String()
}

// Until waits for a screen for which is returns true.
func (x *Terminal) Until(what string, is func(screen string) bool) string {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	for {
		screen, drawn, news := x.look()
		var settled <-chan time.Time
		if drawn && is(screen) {
			settled = time.After(settle)
		}
		select {
		case <-settled:
			return screen
		case <-news:
		case <-ctx.Done():
			x.t.Fatalf("the screen never showed %s:\n%s", what, screen)
		}
	}
}

// See waits until all texts are on the screen.
func (x *Terminal) See(texts ...string) string {
	x.t.Helper()
	return x.Until(strings.Join(texts, " and "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// Match waits until the screen matches all regular expressions.
func (x *Terminal) Match(patterns ...string) string {
	x.t.Helper()
	return x.Until(strings.Join(patterns, " and "), func(screen string) bool {
		for _, pattern := range patterns {
			if !regexp.MustCompile(pattern).MatchString(screen) {
				return false
			}
		}
		return true
	})
}

// Miss waits until a text has left the screen.
func (x *Terminal) Miss(text string) {
	x.t.Helper()
	x.Until("no "+text, func(screen string) bool { return !strings.Contains(screen, text) })
}

// Press types keys, and waits until all texts are on the screen.
func (x *Terminal) Press(keys string, texts ...string) string {
	x.t.Helper()
	if _, err := x.pty.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
	return x.See(texts...)
}

// Resize changes the size of the terminal.
func (x *Terminal) Resize(width, height int) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(width, height)
	x.mu.Unlock()
	if err := pty.Setsize(x.pty, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		x.t.Fatal(err)
	}
}

// Ends waits until the process has ended and its output was read, and checks its exit code.
func (x *Terminal) Ends(code int) {
	x.t.Helper()
	late := time.After(patience)
	for _, end := range []<-chan struct{}{x.done, x.silent} {
		select {
		case <-end:
		case <-late:
			screen, _, _ := x.look()
			x.t.Fatalf("the process does not end:\n%s", screen)
		}
	}
	if x.code != code {
		x.t.Errorf("exit code %d, want %d\n%s", x.code, code, x.Raw())
	}
}
