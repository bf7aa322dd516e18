package executor_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
)

func init() {
	addPrograms(map[string]func(){
		"worker": func() { // runs a command until it is killed
			self, err := os.Executable()
			must(err)
			h, err := executor.Command{Argv: []string{self}, Env: []string{helperEnv + "=stubborn", fifoEnv + "=" + os.Getenv(fifoEnv)}}.Handler()
			must(err)
			_, err = h(context.Background(), executor.Task{Tool: tool, Input: message.RawJSON("{}")})
			fmt.Fprintln(os.Stderr, "the command ended:", err)
		},
	})
}

// However the worker dies, its program does not run on unnoticed.
func TestCommandDiesWithTheWorker(t *testing.T) {
	f := newFamily(t)
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), helperEnv+"=worker", fifoEnv+"="+f.path)
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
		t.Error("the worker ended well, want killed")
	}
}
