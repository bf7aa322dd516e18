package judge_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bin has the programs that TestMain builds.
var bin struct {
	askance    string // the command under test
	everything string // the server of the Go SDK that the conformance suite knows
	self       string // this test binary, which is a stdio server if relayArg is its first argument
}

// relayArg makes the test binary a stdio server, see relayMain.
const relayArg = "relay"

// nodeFolder has the pinned suite and the TypeScript clients; make node installs them.
const nodeFolder = "testdata/node"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == relayArg {
		os.Exit(relayMain(os.Args[2]))
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "askance-judge-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if bin.self, err = os.Executable(); err != nil {
		return 1, err
	}
	for _, b := range []struct {
		out        *string
		name, from string
	}{
		{&bin.askance, "askance", "../../../cmd/askance"},
		{&bin.everything, "everything", "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"},
	} {
		*b.out = filepath.Join(dir, b.name)
		if out, err := exec.Command("go", "build", "-o", *b.out, b.from).CombinedOutput(); err != nil {
			return 1, fmt.Errorf("go build %s: %w\n%s", b.from, err, out)
		}
	}
	return m.Run(), nil
}
