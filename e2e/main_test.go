package e2e_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Environment variables of the tests.
const (
	seedVar = "ASKANCE_E2E_SEED" // repeats the kills of an earlier run, as far as timing allows
	raceVar = "ASKANCE_E2E_RACE" // 1: build the command with the race detector

	campaignVar = "ASKANCE_E2E_CAMPAIGN" // the length of the campaign
	faultsVar   = "ASKANCE_E2E_FAULTS"   // the number of runs of TestFaults
	oldVar      = "ASKANCE_E2E_OLD"      // the command of an earlier version, which TestRollingRestart upgrades
	replayVar   = "ASKANCE_E2E_REPLAY"   // the transcript whose strikes the campaign repeats
)

// minParallel is the number of tests that run at the same time on small machines.
const minParallel = 5

// bin is what TestMain built.
var bin struct {
	askance string // the command under test
	nats    string // the real nats-server, from the module graph
	tool    string // what workers and engines run
}

// seed is the source of all randomness of a run.
var seed uint64

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == playerArg {
		os.Exit(playerMain(os.Args[2:]))
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if seed, err = seedOf(os.Getenv(seedVar), os.Getenv(replayVar)); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "askance-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := build(dir); err != nil {
		return 1, err
	}
	go starter()
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		// These tests mostly wait for other processes.
		if err := p.Value.Set(strconv.Itoa(max(minParallel, runtime.GOMAXPROCS(0)))); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// seedOf returns the requested seed, given as a number or by a transcript.
func seedOf(text, replay string) (uint64, error) {
	if replay != "" {
		notes, err := readNotes(replay)
		if err != nil {
			return 0, fmt.Errorf("%s=%q: %w", replayVar, replay, err)
		}
		for _, n := range notes { // actors may write notes before the campaign does
			if n.Did == "campaign" && n.Seed != 0 {
				return n.Seed, nil
			}
		}
		return 0, fmt.Errorf("%s=%q is not the transcript of a campaign", replayVar, replay)
	}
	if text == "" {
		return uint64(time.Now().UnixNano()), nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s=%q is not a number", seedVar, text)
	}
	return n, nil
}

// build makes the binaries once for all tests.
func build(dir string) error {
	exe := ""
	if runtime.GOOS == "windows" {
		exe = ".exe"
	}
	race := "-race=" + strconv.FormatBool(os.Getenv(raceVar) == "1")
	for _, b := range []struct {
		out        *string
		name, from string
		flags      []string
	}{
		{&bin.askance, "askance", "../cmd/askance", []string{race}},
		{&bin.nats, "nats-server", "github.com/nats-io/nats-server/v2", nil},
		{&bin.tool, "effect-tool", "./internal/effect/tool", nil},
	} {
		*b.out = filepath.Join(dir, b.name+exe)
		if err := goCommand(slices.Concat([]string{"build", "-o", *b.out}, b.flags, []string{b.from})...); err != nil {
			return err
		}
	}
	return nil
}

func goCommand(args ...string) error {
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return nil
}
