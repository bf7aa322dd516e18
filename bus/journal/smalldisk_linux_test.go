package journal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// A backup whose disk is full says so, not that archives are missing.
func TestBackupOnAFullDisk(t *testing.T) {
	dir := bustest.SmallDisk(t)
	w := newArchiving(t)
	w.archive()
	bustest.Occupy(t, dir, 0)
	if _, err := journal.BackUp(t.Context(), w.Conn("engine"), "test", w.Keys(), filepath.Join(dir, "backup"), journal.ArchiveFolder(w.folder)); errors.Is(err, message.ErrNotFound) || !errors.Is(err, message.ErrFull) {
		t.Errorf("backup: %v", err)
	}
}

// The limit after a restart includes what the journal already uses, so other files that fill the
// disk do not put the limit below that.
func TestStoreLimitDoesNotShrinkAtRestart(t *testing.T) {
	dir := bustest.SmallDisk(t)
	b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")))
	bound := b.Room().Bound
	if bound < 20<<20 || bound > 24<<20 {
		t.Errorf("the limit of an empty store on 32 MiB is %d, want three quarters", bound)
	}
	taken := fillStore(t, b.Journal("test"), 1000)
	b.Close()
	again := bustest.New(t, bustest.In(filepath.Join(dir, "nats")))
	again.UseKeys(b.Keys())
	if now := again.Room(); now.Bound < bound {
		t.Errorf("the limit was %d and is %d after a restart", bound, now.Bound)
	}
	again.Close()
	bustest.Occupy(t, dir, 4<<20)
	full := bustest.New(t, bustest.In(filepath.Join(dir, "nats")))
	full.UseKeys(b.Keys())
	if r := full.Room(); r.Free < 2<<20 {
		t.Errorf("4 MiB are free and the store may use %d of them", r.Free)
	}
	j := full.Journal("test")
	for n := range min(taken, 32) {
		bustest.MustAppend(t, j, bustest.CallRecord("done"+bustest.ID(n), bustest.CallKey(bustest.ID(n)), message.ToolCallFinished, "result"), uint64(n+1))
	}
}

// A store that was opened on a disk full of other files uses the room that they leave.
func TestStoreLimitFollowsTheDisk(t *testing.T) {
	dir := bustest.SmallDisk(t)
	ballast := bustest.Occupy(t, dir, 2<<20)
	b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")), bustest.Listening())
	j := b.Journal("test")
	fillStore(t, j, 100)
	if err := b.RaiseLimit(); err != nil || b.Room().Bound > 3<<20 {
		t.Errorf("the limit on a full disk is %d, %v", b.Room().Bound, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := b.RaiseLimit(); err != nil {
		t.Fatal(err)
	}
	bound := b.Room().Bound
	if bound < 20<<20 || bound > 24<<20 {
		t.Errorf("the limit on 32 MiB is %d, want three quarters", bound)
	}
	bustest.MustAppend(t, j, largeCall(1000), 0)
	bustest.Occupy(t, dir, 8<<20)
	if err := b.RaiseLimit(); err != nil || b.Room().Bound != bound {
		t.Errorf("the limit was %d and is %d, %v", bound, b.Room().Bound, err)
	}
}

// The engine notices other files that fill the disk before a write fails, so open calls continue.
func TestHeadRoomIsOfTheDisk(t *testing.T) {
	dir := bustest.SmallDisk(t)
	b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")))
	j := b.Journal("test")
	prev := bustest.MustAppend(t, j, bustest.CallRecord("open", bustest.CallKey("open"), message.ToolCallAsking, "ask"), 0)
	bustest.Occupy(t, dir, 2<<20)
	j.Reserve(nil) // forgets the last reading
	if _, err := j.Append(t.Context(), largeCall(1), 0); !errors.Is(err, message.ErrFull) {
		t.Errorf("a new call with 2 MiB left: %v, want full", err)
	}
	bustest.MustAppend(t, j, bustest.CallRecord("done", bustest.CallKey("open"), message.ToolCallFinished, "result"), prev)
}

// A completely full disk breaks the stream. Once there is room the server recovers in its process
// with its existing connections.
func TestServerRecoversFromAFullDisk(t *testing.T) {
	dir := bustest.SmallDisk(t)
	probe := filepath.Join(dir, "nats", ".askance-probe")
	if err := errors.Join(os.Mkdir(filepath.Dir(probe), 0o700), os.WriteFile(probe, []byte("of a process that was killed"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")), bustest.Fsynced())
	if _, err := os.Stat(probe); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the probe of a process that was killed takes room: %v", err)
	}
	j := b.Journal("test")
	prev := bustest.MustAppend(t, j, bustest.CallRecord("open", bustest.CallKey("open"), message.ToolCallAsking, "ask"), 0)
	if did, err := b.Recover(t.Context()); did || err != nil {
		t.Errorf("a healthy server: %v, %v", did, err)
	}
	ballast := bustest.Occupy(t, dir, 0)
	rec := largeCall(1)
	rec.Call.Key, rec.ID = bustest.CallKey("open"), "large"
	if _, err := j.Append(t.Context(), rec, prev); !errors.Is(err, message.ErrFull) {
		t.Fatalf("an event record for a full disk: %v, want full", err)
	}
	if err := journal.CreateAnchor(filepath.Join(dir, "anchor")); !errors.Is(err, message.ErrFull) {
		t.Errorf("an anchor on a full disk: %v, want full", err)
	}
	if did, err := b.Recover(t.Context()); did || err != nil {
		t.Errorf("without room: %v, %v", did, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, []byte("of another program"), 0o600), os.Symlink(other, probe)); err != nil {
		t.Fatal(err)
	}
	if did, err := b.Recover(t.Context()); !did || err != nil {
		t.Fatalf("with room: %v, %v", did, err)
	}
	if text, err := os.ReadFile(other); string(text) != "of another program" {
		t.Errorf("the probe followed a link: its target has %d bytes, %v", len(text), err)
	}
	if err := b.Health(); err != nil {
		t.Errorf("health after the restart: %v", err)
	}
	if h, err := j.History(t.Context(), bustest.CallKey("open")); err != nil || len(h) != 1 {
		t.Errorf("%d event records, %v; want the one that was acknowledged", len(h), err)
	}
	bustest.MustAppend(t, j, bustest.CallRecord("done", bustest.CallKey("open"), message.ToolCallFinished, "result"), prev)
	bustest.MustAppend(t, j, largeCall(2), 0)
	if _, err := os.Stat(probe); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the probe is left behind: %v", err)
	}
}

// A record that could not be written leaves no gap, even if it would have been the first of a stream
// or of one of its files, and however the server ends.
func TestRefusedRecordLeavesNoGap(t *testing.T) {
	for name, before := range map[string]int{"first of the stream": 0, "first of a file": 251} {
		for _, end := range []string{"recover", "close"} {
			t.Run(name+", "+end, func(t *testing.T) {
				dir := bustest.SmallDisk(t)
				b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")), bustest.Fsynced())
				j := b.Journal("test")
				for n := range before {
					bustest.MustAppend(t, j, largeCall(n), 0)
				}
				ballast := bustest.Occupy(t, dir, 0)
				rec := largeCall(before)
				prev := uint64(0)
				if before > 0 { // of a call that is open: the head-room takes no new one
					rec, prev = largeCall(0), 1
					rec.ID, rec.Call.Input = "again", `"`+strings.Repeat("y", 32<<10)+`"` // an edit, which is stored whole
				}
				if _, err := j.Append(t.Context(), rec, prev); !errors.Is(err, message.ErrFull) {
					t.Fatalf("an event record for a full disk: %v, want full", err)
				}
				if err := os.Remove(ballast); err != nil {
					t.Fatal(err)
				}
				if end == "recover" {
					if did, err := b.Recover(t.Context()); !did || err != nil {
						t.Fatalf("with room: %v, %v", did, err)
					}
				} else {
					b.Close()
					again := bustest.New(t, bustest.In(filepath.Join(dir, "nats")), bustest.Fsynced())
					again.UseKeys(b.Keys())
					b = again
				}
				j = b.Journal("test") // refuses a journal with a gap
				if seq := bustest.MustAppend(t, j, rec, prev); seq != uint64(before)+1 {
					t.Errorf("the record has the sequence %d, want %d", seq, before+1)
				}
			})
		}
	}
}

// The disk fills up while the server stages a batch or copies it into the stream. What an append
// reports is still true after a restart of the server.
func TestDiskFullInABatch(t *testing.T) {
	t.Parallel()
	const calls = 64
	for _, left := range []int64{512 << 10, 1280 << 10, 2048 << 10, 2816 << 10} {
		t.Run(fmt.Sprintf("%d KiB left", left>>10), func(t *testing.T) {
			t.Parallel() // appends wait for a server that does not answer
			dir := bustest.SmallDisk(t)
			b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")), bustest.Fsynced())
			j := b.Journal("test")
			s := bustest.Watch(t, j, 0)
			at := make([]uint64, calls)
			for n := range calls { // open, so that the head-room is theirs
				at[n] = bustest.MustAppend(t, j, bustest.CallRecord(fmt.Sprint("open", n), bustest.CallKey(bustest.ID(n)), message.ToolCallAllowed, "allow"), 0)
			}
			ballast := bustest.Occupy(t, dir, left)
			errs := appendLarge(j, at)
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			j = b.Journal("test") // refuses a journal that lost what someone saw
			codes := map[message.Code]int{}
			for n, err := range errs {
				m, lerr := j.Last(t.Context(), bustest.CallKey(bustest.ID(n)))
				if lerr != nil {
					t.Fatal(lerr)
				}
				code := message.Code("")
				if err != nil {
					code = message.AsError("", err).Code
				}
				if codes[code]++; code != message.CodeUnknownOutcome && (m.Record.ID == bustest.ID(n)) != (err == nil) {
					t.Errorf("the append of %s said %v, the last record is %s", bustest.ID(n), err, m.Record.ID)
				}
				if m.Record.ID != bustest.ID(n) {
					bustest.MustAppend(t, j, largeCall(n), m.Seq)
				}
			}
			t.Logf("outcomes: %v", codes)
			for _, r := range s.Wait(t, "the records", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 2*calls }) {
				if r.Invalid != nil {
					t.Errorf("record %d: %v", r.Seq, r.Invalid)
				}
			}
			countBatches(t, b.Conn("reader"))
		})
	}
}

// appendLarge appends a large record to each call at once, in time for a test.
func appendLarge(j *journal.Journal, at []uint64) []error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	errs := make([]error, len(at))
	var wg sync.WaitGroup
	for n := range at {
		wg.Go(func() { _, errs[n] = j.Append(ctx, largeCall(n), at[n]) })
	}
	wg.Wait()
	return errs
}

// An engine on an external server, whose health it cannot query, sees from its own writes that the
// disk of that server fails and that it works again.
func TestReadinessOfAServerWithABrokenDisk(t *testing.T) {
	dir := bustest.SmallDisk(t)
	b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")), bustest.Listening())
	j, err := journal.Open(t.Context(), b.Dial("engine"), "test", b.Keys(), journal.Options{Durability: journal.DurabilityCached})
	if err != nil {
		t.Fatal(err)
	}
	prev := bustest.MustAppend(t, j, bustest.CallRecord("open", bustest.CallKey("open"), message.ToolCallAsking, "ask"), 0)
	if err := j.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	ballast := bustest.Occupy(t, dir, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	rec := largeCall(1)
	rec.Call.Key, rec.ID = bustest.CallKey("open"), "large"
	if _, err := j.Append(ctx, rec, prev); err == nil {
		t.Fatal("an event record was stored on a full disk")
	} else {
		t.Log(err)
	}
	if err := j.Ready(t.Context()); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("ready after a record that was not stored: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	b.Restart()
	bustest.MustAppend(t, j, bustest.CallRecord("done", bustest.CallKey("open"), message.ToolCallFinished, "result"), prev)
	if err := j.Ready(t.Context()); err != nil {
		t.Errorf("ready after a record that was stored: %v", err)
	}
}

// A snapshot uses none of the space reserved for open calls, and the unfinished snapshot of a killed
// process is removed.
func TestSnapshotLeavesTheReserve(t *testing.T) {
	dir := bustest.SmallDisk(t)
	b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")))
	j := b.Journal("test")
	bustest.MustAppend(t, j, bustest.CallRecord("open", bustest.CallKey("open"), message.ToolCallAsking, "ask"), 0)
	path := filepath.Join(dir, "snapshots", "test")
	s := journal.NewSnapshots(bustest.LedgerOf(t, j), path)
	if err := s.Save(t.Context(), 1, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path+".new", []byte("half"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ballast := bustest.Occupy(t, dir, 4<<20)
	if err := s.Save(t.Context(), 1, make([]byte, 3<<20)); err == nil || !strings.Contains(err.Error(), "reserved for open calls") {
		t.Errorf("3 of 4 MiB for a snapshot: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(before) {
		t.Errorf("the snapshot of before is not there: %v", err)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unfinished snapshot: %v", err)
	}
	if err := s.Save(t.Context(), 1, make([]byte, 1<<19)); err != nil {
		t.Errorf("a small snapshot: %v", err)
	}
	j.Reserve(func() int64 { return 3 << 20 })
	if err := s.Save(t.Context(), 1, make([]byte, 1<<19)); err == nil {
		t.Error("the snapshot used the space that open calls need")
	}
	j.Reserve(nil)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(t.Context(), 1, make([]byte, 3<<20)); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
