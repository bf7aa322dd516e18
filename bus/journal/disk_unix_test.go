//go:build linux || darwin

package journal_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
)

// ownProcess runs the calling test again in a separate process and returns false; in that process it
// returns true. Otherwise a limit of the process would also affect files of the test runner.
func ownProcess(t *testing.T) bool {
	t.Helper()
	const mark = "ASKANCE_TEST_OWN_PROCESS"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in a separate process: %v\n%s", err, out)
	}
	return false
}

// fillDisk prevents files of this process from growing beyond n bytes: writes fail as on a full
// disk, with another errno. The returned function removes the limit.
func fillDisk(t *testing.T, n uint64) (free func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	set := func(r syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: n, Max: old.Max})
	t.Cleanup(func() { set(old) })
	return func() { set(old) }
}

// On a full disk acknowledged records can be read and refused records are not stored, even after a
// restart. With space the journal continues.
func TestFullDisk(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	dir := t.TempDir()
	b := bustest.New(t, bustest.In(dir), bustest.Fsynced())
	j := b.Journal("test")
	key := bustest.CallKey("c1")
	prev := bustest.MustAppend(t, j, bustest.CallRecord("f0", key, message.ToolCallPending, "propose"), 0)
	free := fillDisk(t, 128<<10)
	var err error
	for n := 1; err == nil && n < 100; n++ {
		rec := bustest.CallRecord(bustest.ID(n), key, message.ToolCallPending, "propose")
		rec.Call.Input = `"` + strings.Repeat("x", 32<<10) + bustest.ID(n) + `"` // each another, so that each is stored
		var seq uint64
		if seq, err = j.Append(t.Context(), rec, prev); err == nil {
			prev = seq
		}
	}
	if e := message.AsError("", err); !errors.Is(err, message.ErrFull) || e.Hint == "" {
		t.Fatalf("%v, want full with a hint", err)
	}
	var health *journal.HealthError
	if err := b.Health(); !errors.As(err, &health) || len(health.Broken) != 1 || health.Broken[0] != "ASKANCE_test" {
		t.Errorf("health: %v", err)
	}
	if r, err := j.Last(t.Context(), key); err != nil || r.Seq != prev {
		t.Errorf("Last = %d, %v; want %d", r.Seq, err, prev)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := j.AppendEvent(ctx, "rt", key.ReplyKey(), events(1)); !errors.Is(err, message.ErrFull) {
		t.Errorf("an event: %v, want full", err)
	}
	free()
	b.Close()
	again := bustest.New(t, bustest.In(dir))
	again.UseKeys(b.Keys())
	j = again.Journal("test")
	if h, err := j.History(t.Context(), key); err != nil || h[len(h)-1].Seq != prev || len(h) != int(prev) {
		t.Errorf("after the restart %d event records, %v; want %d", len(h), err, prev)
	}
	bustest.MustAppend(t, j, bustest.CallRecord("done", key, message.ToolCallFinished, "result"), prev)
}
