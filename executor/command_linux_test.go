package executor_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Environment variables that tell the program "worker" what to run.
const (
	toolEnv = "EXECUTOR_TEST_TOOL"  // the program
	sizeEnv = "EXECUTOR_TEST_INPUT" // the length of its input
	roomEnv = "EXECUTOR_TEST_ROOM"  // the maximum size of files; unset: no limit
)

func init() {
	addPrograms(map[string]func(){
		"worker": func() { // runs a command until it is killed
			self, err := os.Executable()
			must(err)
			size, err := strconv.Atoi(os.Getenv(sizeEnv))
			must(err)
			if room, err := strconv.ParseUint(os.Getenv(roomEnv), 10, 64); err == nil {
				must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: room}))
			}
			h, err := executor.Command{Argv: []string{self}, Env: []string{helperEnv + "=" + os.Getenv(toolEnv), fifoEnv + "=" + os.Getenv(fifoEnv)}}.Handler()
			must(err)
			_, err = h(context.Background(), executor.Task{Tool: tool, Input: message.RawJSON(inputOf(size))})
			fmt.Fprintln(os.Stderr, "the command ended:", err)
		},
		"late reader": func() { // reads when the test allows it
			there, err := os.Stdin.Stat()
			must(err)
			announce(fmt.Sprintf("%d bytes are there", there.Size()))
			_, err = os.ReadFile(os.Getenv(fifoEnv) + ".go")
			must(err)
			got, err := io.ReadAll(os.Stdin)
			must(err)
			_, err = fmt.Fprintln(hold(), received(string(got)))
			must(err)
		},
		"parent of late reader": func() { // a pipeline: the leader dies with the worker, this reader does not
			spawn("late reader")
			forever()
		},
		"mark": func() { must(os.WriteFile(os.Getenv(fifoEnv), nil, 0o600)) },
	})
}

// inputOf is an object of n bytes with a beginning and an end.
func inputOf(n int) string {
	return `{"pad":"` + strings.Repeat("x", n-len(`{"pad":""}`)) + `"}`
}

// received describes how much a program read, and what.
func received(input string) string {
	return fmt.Sprintf("%d bytes, %x", len(input), sha256.Sum256([]byte(input)))
}

// workerOf describes a worker process that runs one program.
func workerOf(program, path string, size int) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), helperEnv+"=worker", toolEnv+"="+program, fifoEnv+"="+path, sizeEnv+"="+strconv.Itoa(size))
	return c
}

// When the worker is killed, its program dies as well.
func TestCommandDiesWithTheWorker(t *testing.T) {
	f := newFamily(t)
	worker := workerOf("stubborn", f.path, 60<<10)
	worker.Stderr = os.Stderr
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	if line := <-f.lines; line != "stubborn" {
		t.Errorf("%q is ready, want stubborn", line)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.wantDead(t)
	if err := worker.Wait(); err == nil {
		t.Error("the worker ended normally, want killed")
	}
}

// The complete input is available before the program reads, and a process that outlives the
// worker can still read all of it.
func TestCommandInputOutlivesTheWorker(t *testing.T) {
	for _, size := range []int{60 << 10, 200_020, toolcall.MaxInputBytes} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			f := newFamily(t)
			worker := workerOf("parent of late reader", f.path, size)
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			if line, want := <-f.lines, fmt.Sprintf("%d bytes are there", size); line != want {
				t.Errorf("before the program reads, %s, want %s", line, want)
			}
			if err := worker.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := worker.Wait(); err == nil {
				t.Error("the worker ended normally, want killed")
			}
			if err := os.WriteFile(f.path+".go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, want := <-f.lines, received(inputOf(size)); got != want {
				t.Errorf("the program read %s, want %s", got, want)
			}
			f.wantDead(t)
		})
	}
}

// If there is no room for the complete input, the program does not start.
func TestCommandWithoutRoomForItsInput(t *testing.T) {
	for size, runs := range map[int]bool{4 << 10: true, 60 << 10: false} {
		mark := filepath.Join(t.TempDir(), "ran")
		worker := workerOf("mark", mark, size)
		worker.Env = append(worker.Env, roomEnv+"="+strconv.Itoa(8<<10))
		said, err := worker.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		_, err = os.Stat(mark)
		if ran := err == nil; ran != runs || strings.Contains(string(said), "the program was not started") == runs {
			t.Errorf("with %d bytes of input the program ran: %t, want %t; %s", size, ran, runs, said)
		}
	}
}
