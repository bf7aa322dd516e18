package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowJournal fails or does not reply.
type slowJournal struct {
	silent atomic.Bool
	looks  atomic.Int32
}

func (j *slowJournal) Ready(ctx context.Context) error {
	j.looks.Add(1)
	if !j.silent.Load() {
		return nil
	}
	<-ctx.Done()
	return errors.New("no leader")
}

// A journal that does not reply counts as not ready within three seconds. From then on the reason
// is returned at once, until the journal replies again.
func TestReadinessIsKnownWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		journal := &slowJournal{}
		r := &readiness{journal: journal, log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.watch(ctx) }()
		time.Sleep(10 * time.Second)
		if err := errors.Join(r.last(), r.check(ctx)); err != nil {
			t.Errorf("a good journal: %v", err)
		}
		journal.silent.Store(true)
		time.Sleep(lookAtJournal + readyWithin)
		synctest.Wait()
		before := time.Now()
		if err := r.check(ctx); err == nil || err.Error() != "no leader" || time.Since(before) != 0 {
			t.Errorf("a silent journal: %v after %s, want the reason immediately", err, time.Since(before))
		}
		time.Sleep(10 * time.Second)
		journal.silent.Store(false)
		time.Sleep(lookAtJournal + readyWithin)
		synctest.Wait()
		if err := errors.Join(r.last(), r.check(ctx)); err != nil {
			t.Errorf("an answering journal: %v", err)
		}
		gone, leave := context.WithCancel(ctx)
		leave()
		if err := r.check(gone); !errors.Is(err, context.Canceled) || r.last() != nil {
			t.Errorf("a cancelled check: %v, and the journal counts as %v", err, r.last())
		}
		stop()
		<-ended
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "no leader") {
			t.Errorf("%d lines, want one for each change:\n%s", n, log.String())
		}
	})
}

// A small heap collects 128 MB of garbage before a collection, a large heap as much as is live.
func TestCollectAt(t *testing.T) {
	for live, want := range map[uint64]int{0: 1600, 1: 1600, 8 << 20: 1600, 16 << 20: 800, 30 << 20: 400, 60 << 20: 200, 128 << 20: 100, 10 << 30: 100} {
		if got := collectAt(live); got != want {
			t.Errorf("%d bytes live: GOGC %d, want %d", live, got, want)
		}
	}
}

// The percentage is adjusted to the heap at each collection.
func TestCollectionFollowsTheHeap(t *testing.T) {
	t.Cleanup(func() { debug.SetGCPercent(100) })
	runtime.GC() // what was live at the last collection belongs to earlier tests
	setCollection(new(int))
	percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	if metrics.Read(percent); percent[0].Value.Uint64() <= 100 {
		t.Fatalf("GOGC is %d for a small heap", percent[0].Value.Uint64())
	}
	large := make([]byte, 2*roomyHeap)
	for began := time.Now(); percent[0].Value.Uint64() != 100; metrics.Read(percent) {
		if runtime.GC(); time.Since(began) > 30*time.Second {
			t.Fatalf("GOGC is still %d", percent[0].Value.Uint64())
		}
	}
	runtime.KeepAlive(large)
}

// The log says once that a changed tools file is not in force, also if it changed before the engine
// started. A file that cannot be read has not changed.
func TestChangedToolsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		path := filepath.Join(t.TempDir(), "tools.yaml")
		watch := func(change func() error, first string) string {
			t.Helper()
			log.Reset()
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				watchTools(ctx, path, []byte(first), slog.New(slog.NewTextHandler(&log, nil)))
			}()
			time.Sleep(3 * time.Second)
			if err := change(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			stop()
			<-ended
			return log.String()
		}
		write := func(text string) func() error {
			return func() error { return os.WriteFile(path, []byte(text), 0o600) }
		}
		const old, changed = "version: 1\n", "version: 1\ntools: []\n"
		if err := write(old)(); err != nil {
			t.Fatal(err)
		}
		if text := watch(write(old), old); text != "" {
			t.Errorf("without a change: %s", text)
		}
		if text := watch(write(changed), old); strings.Count(text, "restart askance serve") != 1 {
			t.Errorf("a change: %s", text)
		}
		if text := watch(write(changed), old); strings.Count(text, "restart askance serve") != 1 {
			t.Errorf("a change before the start: %s", text)
		}
		if text := watch(func() error { return os.Remove(path) }, changed); strings.Contains(text, "restart askance serve") || strings.Count(text, "no such file") != 1 {
			t.Errorf("a file that is gone: %s", text)
		}
	})
}
