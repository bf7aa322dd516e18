package executor_test

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/toolcall"
)

// helperEnv makes this test binary a program for Command to run.
const helperEnv = "EXECUTOR_TEST_PROGRAM"

func TestMain(m *testing.M) {
	name := os.Getenv(helperEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	program := programs[name]
	if program == nil {
		fmt.Fprintln(os.Stderr, "no such test program:", name)
		os.Exit(2)
	}
	program()
}

// addPrograms adds programs from files that are not built on every system.
func addPrograms(more map[string]func()) { maps.Copy(programs, more) }

// programs are run by the command tests. Each ends the process, at the latest when it returns.
var programs = map[string]func(){
	"cat": func() { _, _ = io.Copy(os.Stdout, os.Stdin) },
	"env": func() {
		env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, helperEnv) || strings.HasPrefix(s, "GOCOVERDIR=") })
		slices.Sort(env)
		fmt.Print(strings.Join(env, "\n"))
	},
	"fail": func() {
		fmt.Print("half")
		fmt.Fprint(os.Stderr, "reading\n\nno such file\n")
		os.Exit(3)
	},
	"deaf": func() { fmt.Print("never read its input") },
	"flood": func() {
		chunk := strings.Repeat("x", 1<<20)
		for range 8 {
			fmt.Print(chunk)
		}
	},
	"mumble": func() {
		fmt.Fprint(os.Stderr, "10%\r20%\rdone\xff\n", strings.Repeat("y", 5000), "\nno newline")
	},
	"complain": func() {
		for i := range 1000 {
			fmt.Fprintf(os.Stderr, "complaint %d\n", i)
		}
		os.Exit(1)
	},
	"binary": func() { _, _ = os.Stdout.Write([]byte{'a', 0, 0xff, 'b'}) },
	"big":    func() { fmt.Print(strings.Repeat("z", toolcall.MaxOutputBytes/2)) },
}
