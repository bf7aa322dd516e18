//go:build unix

package executor_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
)

// fifoEnv names a pipe that every program of a test holds open. When the pipe ends, all of the
// programs are dead.
const fifoEnv = "EXECUTOR_TEST_FIFO"

func init() {
	addPrograms(map[string]func(){
		"stubborn": func() { // ignores the request to end
			signal.Ignore(syscall.SIGTERM)
			announce("stubborn")
			forever()
		},
		"parent of stubborn": func() { // dies of SIGTERM, its child does not
			spawn("stubborn")
			forever()
		},
		"deserter": func() { // leaves a child behind that holds its output
			spawn("stubborn")
			fmt.Print("left")
		},
		"tidy": func() { // ends normally on request
			asked := make(chan os.Signal, 1)
			signal.Notify(asked, syscall.SIGTERM)
			announce("tidy")
			<-asked
			fmt.Print("tidied up")
		},
		"parent of tidy": func() {
			spawn("tidy when orphaned")
			forever()
		},
		"tidy when orphaned": func() { // needs longer than its parent
			asked := make(chan os.Signal, 1)
			signal.Notify(asked, syscall.SIGTERM)
			announce("tidy when orphaned")
			<-asked
			_, _ = io.ReadAll(os.NewFile(3, "alive")) // until the parent is dead
			_, err := fmt.Fprintln(hold(), "orphaned")
			must(err)
			_, err = os.ReadFile(os.Getenv(fifoEnv) + ".go") // until the test has read that line
			must(err)
			fmt.Print("tidied up")
		},
	})
}

// hold opens the family's pipe until the process ends.
func hold() *os.File {
	f, err := os.OpenFile(os.Getenv(fifoEnv), os.O_WRONLY, 0)
	must(err)
	kept = append(kept, f)
	return f
}

// announce tells the test and the program's parent that the program is ready.
func announce(name string) {
	_, err := fmt.Fprintln(hold(), name)
	must(err)
	if os.Getenv(spawnedEnv) != "" {
		_, _ = os.NewFile(4, "ready").WriteString(".") // the parent may be dead by now
	}
}

const spawnedEnv = "EXECUTOR_TEST_SPAWNED"

var kept []*os.File // open until the process ends

// spawn starts another program and returns when that has announced itself. The program gets our
// input and output, and as file 3 a pipe that ends with this process.
func spawn(name string) {
	hold()
	alive, ours, err := os.Pipe()
	must(err)
	ready, theirs, err := os.Pipe()
	must(err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+name, spawnedEnv+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = os.Stdin, os.Stdout, []*os.File{alive, theirs}
	must(cmd.Start())
	kept = append(kept, ours)
	_, err = io.ReadFull(ready, make([]byte, 1))
	must(err)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// forever waits until a signal kills the process.
func forever() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1) // otherwise the runtime would report a deadlock
	select {}
}

// family is the set of programs that run in a test: what they announce, and when all are dead.
type family struct {
	path  string
	lines chan string // what they announced; closed when all are dead
}

func newFamily(t *testing.T) *family {
	t.Helper()
	f := &family{path: filepath.Join(t.TempDir(), "fifo"), lines: make(chan string, 10)}
	for _, path := range []string{f.path, f.path + ".go"} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		defer close(f.lines)
		r, err := os.Open(f.path) // waits for the first of them
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			f.lines <- s.Text()
		}
	}()
	return f
}

// command is a Command that runs a program of this family.
func (f *family) command(t *testing.T, name string, grace time.Duration) executor.Command {
	c := program(t, name)
	c.Env, c.Grace = append(c.Env, fifoEnv+"="+f.path), grace
	return c
}

// release lets an orphan that has announced itself end normally.
func (f *family) release(t *testing.T) {
	if line := <-f.lines; line != "orphaned" {
		t.Errorf("read %q, want orphaned", line)
		return
	}
	if err := os.WriteFile(f.path+".go", nil, 0o600); err != nil {
		t.Error(err)
	}
}

// wantDead fails the test unless everything has ended.
func (f *family) wantDead(t *testing.T) {
	t.Helper()
	select {
	case line, ok := <-f.lines:
		if ok {
			t.Errorf("unexpected announcement %q", line)
		}
	case <-time.After(time.Minute):
		t.Error("some program still runs")
	}
}

func TestCancelledCommandDiesWithItsGroup(t *testing.T) {
	const soon, patient = 100 * time.Millisecond, time.Minute
	cases := []struct {
		program, ready string
		grace          time.Duration
		output         string
		orphan         bool
	}{
		{"stubborn", "stubborn", soon, "", false},
		{"parent of stubborn", "stubborn", soon, "", false},
		{"tidy", "tidy", patient, "tidied up\n", false},
		{"parent of tidy", "tidy when orphaned", patient, "tidied up\n", true},
	}
	for _, c := range cases {
		t.Run(c.program, func(t *testing.T) {
			f := newFamily(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				if line := <-f.lines; line != c.ready {
					t.Errorf("%q is ready, want %q", line, c.ready)
				}
				cancel(executor.ErrCancelled)
				if c.orphan {
					f.release(t)
				}
			}()
			begun := time.Now()
			res, _ := runCommand(ctx, t, f.command(t, c.program, c.grace), "{}")
			want := c.output + "cancelled by the engine"
			if res.State != message.ToolResultInterrupted || res.Output.String() != want {
				t.Errorf("result %s %q, want interrupted %q", res.State, res.Output.String(), want)
			}
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			f.wantDead(t)
		})
	}
}

// When a program ends, the processes it left behind are killed, and they do not delay its
// result.
func TestEndedCommandLeavesNothingBehind(t *testing.T) {
	f := newFamily(t)
	h, err := f.command(t, "deserter", time.Minute).Handler()
	if err != nil {
		t.Fatal(err)
	}
	out, err := h(t.Context(), executor.Task{Tool: tool, Input: message.RawJSON("{}")})
	if err != nil || out.Content.Text != "left" {
		t.Errorf("output %q, %v; want \"left\"", out.Content.Text, err)
	}
	if line := <-f.lines; line != "stubborn" {
		t.Errorf("%q was left behind, want stubborn", line)
	}
	f.wantDead(t)
}
