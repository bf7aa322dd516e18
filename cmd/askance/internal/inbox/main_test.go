package inbox_test

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

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/cmd/askance/internal/clitest"
)

// TestMain lets the test binary stand in for askance itself, so that the inbox
// runs as it does for people: a process of its own on a terminal of its own.
func TestMain(m *testing.M) { clitest.Main(m, cli.Process) }

// patience bounds every wait for something on the screen.
const patience = time.Minute

// terminal is a terminal with the inbox on it.
type terminal struct {
	t    *testing.T
	pty  *os.File
	done chan struct{} // the process has ended
	code int           // its exit code, after done

	mu     sync.Mutex // guards all below
	screen *vt.Emulator
	sent   strings.Builder // every byte that the process sent
	news   chan struct{}   // closed when something arrived
}

// open starts askance on a terminal of that size.
func open(t *testing.T, width, height int, env []string, args ...string) *terminal {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"TERM=xterm-256color", "LANG=C.UTF-8", "HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, env...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, pty: f, done: make(chan struct{}), screen: vt.NewEmulator(width, height), news: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(x.read)
	wg.Go(x.reply)
	go func() {
		_ = cmd.Wait() // the code says it all
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

// read shows what the process sends.
func (x *terminal) read() {
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

// reply sends what the terminal itself answers: where the cursor is, its colours.
func (x *terminal) reply() {
	buf := make([]byte, 1024)
	for {
		n, err := x.screen.Read(buf)
		if err != nil {
			return
		}
		_, _ = x.pty.Write(buf[:n])
	}
}

// look gives the screen as it is, and a channel that is closed when it changes.
func (x *terminal) look() (string, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []string
	for line := range strings.SplitSeq(x.screen.String(), "\n") {
		out = append(out, strings.TrimRight(line, " "))
	}
	return strings.Join(out, "\n"), x.news
}

// raw is every byte that the process has sent.
func (x *terminal) raw() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent.String()
}

// until waits for a screen.
func (x *terminal) until(what string, is func(screen string) bool) string {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	for {
		screen, news := x.look()
		if is(screen) {
			return screen
		}
		select {
		case <-news:
		case <-ctx.Done():
			x.t.Fatalf("the screen never had %s:\n%s", what, screen)
		}
	}
}

// see waits until all texts are on the screen.
func (x *terminal) see(texts ...string) string {
	x.t.Helper()
	return x.until(strings.Join(texts, " and "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// miss waits until a text has left the screen.
func (x *terminal) miss(text string) {
	x.t.Helper()
	x.until("no "+text, func(screen string) bool { return !strings.Contains(screen, text) })
}

// press types, and waits until all texts are on the screen.
func (x *terminal) press(keys string, texts ...string) string {
	x.t.Helper()
	if _, err := x.pty.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
	return x.see(texts...)
}

// resize makes the terminal another size.
func (x *terminal) resize(width, height int) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(width, height)
	x.mu.Unlock()
	if err := pty.Setsize(x.pty, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		x.t.Fatal(err)
	}
}

// ends waits for the end of the process.
func (x *terminal) ends(code int) {
	x.t.Helper()
	select {
	case <-x.done:
		if x.code != code {
			x.t.Errorf("exit code %d, want %d\n%s", x.code, code, x.raw())
		}
	case <-time.After(patience):
		screen, _ := x.look()
		x.t.Fatalf("the inbox does not end:\n%s", screen)
	}
}

// The keys with names.
const (
	enter = "\r"
	esc   = "\x1b"
	ctrlC = "\x03"
	ctrlS = "\x13"
)

// volatile is what differs from run to run.
var volatile = []clitest.Volatile{
	{What: regexp.MustCompile(`[0-9a-f]{16,}`), With: "HASH"},
	{What: regexp.MustCompile(`(?m)^( +)[0-9a-f]{2,15}[\]"}]*$`), With: "${1}TAIL"}, // of one that was cut
	{What: regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), With: "INSTANT"},
	{What: regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), With: "DATE TIME"},
	{What: regexp.MustCompile(`\b\d+(s|m\d\ds|h\d\dm|d\d\dh)\b +`), With: "T  "},
	{What: regexp.MustCompile(`\b\d+(s|m\d\ds|h\d\dm|d\d\dh)\b`), With: "T"},
}

// golden compares a screen with a file in testdata.
func golden(t *testing.T, name, screen string) {
	t.Helper()
	clitest.Golden(t, name, strings.TrimRight(screen, "\n")+"\n", volatile...)
}
