package bus_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// A copy of a running space on a cluster is restored on another cluster and on one
// server, with every record and checkpoint, and goes on there.
func TestBackupIsRestored(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	nc, keys := c.Conn("engine"), newClusterKeys(t)
	j, err := onCluster(t, nc, keys, bus.JournalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const records = 300 // more than one chunk
	for n := range records {
		mustAppend(t, j, largeRecord(n), 0)
	}
	ledger, err := bus.OpenLedger(t.Context(), j, bus.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := ledger.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "backup")
	if names, err := bus.BackUp(t.Context(), nc, "test", folder); err != nil || len(names) != 2 || names[1] != bus.StreamName("test") {
		t.Fatalf("backup = %v, %v, want the checkpoints and then the journal", names, err)
	}
	if _, err := bus.BackUp(t.Context(), nc, "test", folder); !errors.Is(err, message.ErrConflict) {
		t.Errorf("backup into a folder that has one: %v, want it refused", err)
	}
	if _, err := bus.Restore(t.Context(), nc, "test", folder); err == nil {
		t.Error("a restore over a journal that is there is accepted")
	}
	single := bustest.New(t)
	single.UseKeys(keys)
	other := bustest.NewCluster(t, 3)
	for name, to := range map[string]struct {
		open func() (*bus.Journal, []string, error)
		want bus.Durability
	}{
		"one server": {want: bus.DurabilityCached, open: func() (*bus.Journal, []string, error) {
			nc := single.Conn("engine")
			names, err := bus.Restore(t.Context(), nc, "test", folder)
			if err != nil {
				return nil, names, err
			}
			acceptRestored(t, nc, keys, bus.JournalOptions{Durability: bus.DurabilityCached})
			j, err := onCluster(t, nc, keys, bus.JournalOptions{Durability: bus.DurabilityCached})
			return j, names, err
		}},
		"a cluster": {want: bus.DurabilityQuorum, open: func() (*bus.Journal, []string, error) {
			nc := other.Conn("engine")
			names, err := bus.Restore(t.Context(), nc, "test", folder)
			if err != nil {
				return nil, names, err
			}
			acceptRestored(t, nc, keys, bus.JournalOptions{})
			j, err := onCluster(t, nc, keys, bus.JournalOptions{})
			return j, names, err
		}},
	} {
		j, names, err := to.open()
		if err != nil || len(names) != 2 {
			t.Errorf("restore on %s = %v, %v", name, names, err)
			continue
		}
		head, err := j.Head(t.Context())
		if err != nil || head < records || j.Claim().Durability != to.want {
			t.Errorf("on %s the journal ends at %d, %v, and claims %s; want %d and %s", name, head, err, j.Claim().Durability, records, to.want)
		}
		last, err := j.Last(t.Context(), largeRecord(records-1).Key())
		if err != nil || last.Seq != records {
			t.Errorf("on %s the last call is at %d, %v", name, last.Seq, err)
		}
		l, err := bus.OpenLedger(t.Context(), j, bus.LedgerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := l.Checkpoint(t.Context())
		if err != nil || again.Number <= signed.Number || again.Losses != 1 {
			t.Errorf("on %s the last checkpoint is %+v, %v, want %+v", name, again, err, signed)
		}
		mustAppend(t, j, newRecord(records), 0)
	}
	if err := os.Remove(filepath.Join(folder, bus.StreamName("test")+".json")); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Restore(t.Context(), bustest.New(t).Conn("engine"), "test", folder); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("restore of an incomplete copy: %v, want it refused", err)
	}
}

// acceptRestored ensures that no engine opens a restored journal before an operator has
// accepted that what came after the backup is lost.
func acceptRestored(t *testing.T, nc *nats.Conn, keys *keyfile.Keys, o bus.JournalOptions) {
	t.Helper()
	if _, err := onCluster(t, nc, keys, o); !errors.Is(err, message.ErrDamaged) {
		t.Errorf("a restored journal: %v, want it refused", err)
	}
	r, err := bus.BeginRecovery(t.Context(), nc, "test", keys, nil)
	if err == nil {
		err = r.Prepare(t.Context())
	}
	if err == nil {
		_, err = r.Finish(t.Context(), "ann", "restored", "e1", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// largeRecord begins the nth call, with a large input.
func largeRecord(n int) *toolcall.EventRecord {
	f := newRecord(n)
	f.Call.Input = `{"text":"` + strings.Repeat("x", 4000) + `"}`
	return f
}
