package judge_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// bin contains the programs that TestMain builds.
var bin struct {
	askance    string // the command under test
	everything string // the server of the Go SDK that the conformance suite expects
	client     string // its client
	self       string // this test binary, which acts as another program if relayArg or proxiedArg is its first argument
}

// First arguments that make the test binary another program; see relayMain and proxiedMain.
const (
	relayArg   = "relay"
	proxiedArg = "proxied"
)

// minParallel is the minimum number of tests that run in parallel.
const minParallel = 6

// nodeFolder contains the pinned suite and the TypeScript clients, which make node installs.
const nodeFolder = "testdata/node"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == relayArg {
		os.Exit(relayMain(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == proxiedArg {
		os.Exit(proxiedMain(os.Args[2]))
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
		{&bin.client, "client", "github.com/modelcontextprotocol/go-sdk/conformance/everything-client"},
	} {
		*b.out = filepath.Join(dir, b.name)
		if out, err := exec.Command("go", "build", "-o", *b.out, b.from).CombinedOutput(); err != nil {
			return 1, fmt.Errorf("go build %s: %w\n%s", b.from, err, out)
		}
	}
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		// These tests mostly wait for other processes.
		if err := p.Value.Set(strconv.Itoa(max(minParallel, runtime.GOMAXPROCS(0)))); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}
