package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A copy of a running space on a cluster can be restored on another cluster and on one server, with
// every record and checkpoint, and the journal continues there.
func TestBackupIsRestored(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	nc, keys := c.Conn("engine"), newClusterKeys(t)
	j, err := onCluster(t, nc, keys, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const records = 300 // more than one chunk
	for n := range records {
		bustest.MustAppend(t, j, largeRecord(n), 0)
	}
	ledger, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := ledger.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "backup")
	if names, err := journal.BackUp(t.Context(), nc, "test", keys, folder, journal.ArchiveFolder(t.TempDir())); err != nil || len(names.Streams) != 2 || names.Streams[1] != bus.StreamName("test") {
		t.Fatalf("backup = %v, %v, want the checkpoints and then the journal", names, err)
	}
	if _, err := journal.BackUp(t.Context(), nc, "test", keys, folder, journal.ArchiveFolder(t.TempDir())); !errors.Is(err, message.ErrConflict) {
		t.Errorf("backup into a folder that has one: %v, want it refused", err)
	}
	if _, err := journal.Restore(t.Context(), nc, "test", folder, journal.ArchiveFolder(t.TempDir())); err == nil {
		t.Error("a restore over an existing journal was accepted")
	}
	single := bustest.New(t)
	single.UseKeys(keys)
	other := bustest.NewCluster(t, 3)
	for name, to := range map[string]struct {
		open func() (*journal.Journal, []string, error)
		want journal.Durability
	}{
		"one server": {want: journal.DurabilityCached, open: func() (*journal.Journal, []string, error) {
			nc := single.Conn("engine")
			names, err := journal.Restore(t.Context(), nc, "test", folder, journal.ArchiveFolder(t.TempDir()))
			if err != nil {
				return nil, names.Streams, err
			}
			acceptRestored(t, nc, keys, journal.Options{Durability: journal.DurabilityCached})
			j, err := onCluster(t, nc, keys, journal.Options{Durability: journal.DurabilityCached})
			return j, names.Streams, err
		}},
		"a cluster": {want: journal.DurabilityQuorum, open: func() (*journal.Journal, []string, error) {
			nc := other.Conn("engine")
			names, err := journal.Restore(t.Context(), nc, "test", folder, journal.ArchiveFolder(t.TempDir()))
			if err != nil {
				return nil, names.Streams, err
			}
			acceptRestored(t, nc, keys, journal.Options{})
			j, err := onCluster(t, nc, keys, journal.Options{})
			return j, names.Streams, err
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
		l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := l.Checkpoint(t.Context())
		if err != nil || again.Number <= signed.Number || again.Losses != 1 {
			t.Errorf("on %s the last checkpoint is %+v, %v, want %+v", name, again, err, signed)
		}
		bustest.MustAppend(t, j, newRecord(records), 0)
	}
	if err := os.Remove(filepath.Join(folder, bus.StreamName("test")+".json")); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Restore(t.Context(), bustest.New(t).Conn("engine"), "test", folder, journal.ArchiveFolder(t.TempDir())); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("restore of an incomplete copy: %v, want it refused", err)
	}
}

// acceptRestored ensures that no engine opens a restored journal before an operator has
// accepted that what came after the backup is lost.
func acceptRestored(t *testing.T, nc *nats.Conn, keys *keyfile.Keys, o journal.Options) {
	t.Helper()
	_, err := onCluster(t, nc, keys, o)
	if e := message.AsError("", err); !errors.Is(err, message.ErrDamaged) || !strings.HasPrefix(e.What, "the journal of the space test was restored from a backup on ") || !strings.HasPrefix(e.Hint, "accept the loss: ") {
		t.Errorf("a restored journal: %v, want it refused", err)
	}
	r, err := journal.BeginRecovery(t.Context(), nc, "test", keys, journal.Options{Archives: o.Archives})
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

// Only an answer shows that an engine runs; without a connection, it is unknown.
func TestRecoveryWithoutConnection(t *testing.T) {
	b := bustest.New(t)
	nc := b.Conn("engine")
	nc.Close()
	if _, err := journal.BeginRecovery(t.Context(), nc, "test", b.Keys(), journal.Options{}); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("recovery without a connection: %v, want unavailable", err)
	}
}

// A restored journal is refused even if the clock of the restore is behind that of an earlier
// accepted loss.
func TestRestoreAfterAnAcceptedLoss(t *testing.T) {
	o := journal.Options{Durability: journal.DurabilityCached}
	first, second := bustest.New(t), bustest.New(t)
	keys := first.Keys()
	j := first.Journal("test")
	bustest.MustAppend(t, j, newRecord(0), 0)
	if _, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{}); err != nil {
		t.Fatal(err)
	}
	again := func(nc *nats.Conn) {
		t.Helper()
		folder := filepath.Join(t.TempDir(), "backup")
		if _, err := journal.BackUp(t.Context(), first.Conn("engine"), "test", keys, folder, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := journal.Restore(t.Context(), nc, "test", folder, nil); err != nil {
			t.Fatal(err)
		}
	}
	again(second.Conn("engine"))
	acceptRestored(t, second.Conn("engine"), keys, o)
	first = second
	nc := bustest.New(t).Conn("engine")
	again(nc)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), bus.StreamName("test"))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Metadata["askance.restored"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano)
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	acceptRestored(t, nc, keys, o)
	if _, err := onCluster(t, nc, keys, o); err != nil {
		t.Errorf("after the loss was accepted: %v", err)
	}
}

// A server of a cluster can learn later than its client which other servers are there.
func TestRestoreWaitsForServers(t *testing.T) {
	nc := bustest.New(t).Conn("engine")
	asked := 0
	sub, err := nc.Subscribe(nc.NewInbox(), func(m *nats.Msg) {
		text := `{"deliver_subject": "there"}`
		if asked++; asked == 1 {
			text = `{"error": {"code": 400, "err_code": 10005, "description": "no suitable peers for placement, peer offline"}}`
		}
		_ = m.Respond([]byte(text)) // without it, the request fails
	})
	if err != nil {
		t.Fatal(err)
	}
	if deliver, err := journal.AskStream(t.Context(), nc, sub.Subject); err != nil || deliver != "there" {
		t.Errorf("restore = %q, %v", deliver, err)
	}
}

// largeRecord begins the nth call, with a large input.
func largeRecord(n int) *toolcall.EventRecord {
	rec := newRecord(n)
	rec.Call.Input = `{"text":"` + strings.Repeat("x", 4000) + `"}`
	return rec
}

// Buckets are copied after the journal, and a changed copy is refused.
func TestBackupIsChecked(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	for n := range 50 {
		bustest.MustAppend(t, j, largeRecord(n), 0)
	}
	if _, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.OpenOutbox(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.OpenPolicyBucket(t.Context(), b.Conn("engine"), "test", journal.PolicyBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "backup")
	names, err := journal.BackUp(t.Context(), b.Conn("engine"), "test", b.Keys(), folder, journal.ArchiveFolder(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{journal.LedgerName("test"), bus.StreamName("test")}; len(names.Streams) != 4 || !slices.Equal(names.Streams[:2], want) {
		t.Errorf("copied in the order %v, want %v and then two buckets", names, want)
	}
	copied := filepath.Join(folder, bus.StreamName("test"))
	for name, change := range map[string]struct {
		file string
		do   func([]byte) []byte
		want error
	}{
		"the content is cut":                   {copied + ".snapshot", func(b []byte) []byte { return b[:len(b)/2] }, message.ErrDamaged},
		"the description claims more messages": {copied + ".json", func(b []byte) []byte { return bytes.Replace(b, []byte(`"messages":50,`), []byte(`"messages":51,`), 1) }, message.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			whole, err := os.ReadFile(change.file)
			if err != nil {
				t.Fatal(err)
			}
			changed := change.do(whole)
			if bytes.Equal(changed, whole) {
				t.Fatalf("the test changed nothing: %s", whole)
			}
			if err := os.WriteFile(change.file, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			to := bustest.New(t).Conn("engine")
			if _, err := journal.Restore(t.Context(), to, "test", folder, journal.ArchiveFolder(t.TempDir())); !errors.Is(err, change.want) {
				t.Errorf("restore: %v, want it refused", err)
			}
			if errors.Is(change.want, message.ErrDamaged) && len(streamNames(t, to)) > 0 {
				t.Errorf("the restore of a changed backup made %v", streamNames(t, to))
			}
			if err := os.WriteFile(change.file, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestInterruptedBackup checks that nothing is restored from an incomplete backup.
func TestInterruptedBackup(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	bustest.MustAppend(t, j, largeRecord(0), 0)
	if _, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.OpenPolicyBucket(t.Context(), b.Conn("engine"), "test", journal.PolicyBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), "backup")
	made, err := journal.BackUp(t.Context(), b.Conn("engine"), "test", b.Keys(), whole, journal.ArchiveFolder(t.TempDir()))
	if err != nil || len(made.Streams) != 3 {
		t.Fatalf("%v, %v", made, err)
	}
	ends := []string{"backup.json"} // what is missing after a kill at some moment
	for _, name := range made.Streams {
		ends = append(ends, name+".json", name+".snapshot")
	}
	for _, missing := range ends {
		folder := filepath.Join(t.TempDir(), "interrupted")
		if err := os.CopyFS(folder, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(folder, missing)); err != nil {
			t.Fatal(err)
		}
		to := bustest.New(t).Conn("engine")
		if _, err := journal.Restore(t.Context(), to, "test", folder, journal.ArchiveFolder(t.TempDir())); err == nil {
			t.Errorf("restored without %s", missing)
		}
		if names := streamNames(t, to); len(names) > 0 {
			t.Errorf("without %s the restore made %v", missing, names)
		}
	}
	to := bustest.New(t).Conn("engine")
	if _, err := journal.Restore(t.Context(), to, "test", whole, journal.ArchiveFolder(t.TempDir())); err != nil {
		t.Errorf("the whole backup: %v", err)
	}
	js, err := jetstream.New(to)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), bus.StreamName("test"))
	if err == nil {
		err = stream.DeleteMsg(t.Context(), 1) // as if the restore was killed
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := onCluster(t, to, b.Keys(), journal.Options{Durability: journal.DurabilityCached}); !errors.Is(err, message.ErrDamaged) || !strings.Contains(err.Error(), "restore the backup again") {
		t.Errorf("an interrupted restore: %v", err)
	}
}

func streamNames(t *testing.T, nc *nats.Conn) (names []string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	list := js.StreamNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// A space is copied while the server of an ephemeral consumer is down.
func TestBackupWithoutAServer(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	nc, keys := c.Conn("engine"), newClusterKeys(t)
	j, err := onCluster(t, nc, keys, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	bustest.MustAppend(t, j, newRecord(0), 0)
	ledger, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// An engine that was connected to the same server does not remove its watcher.
	lost, err := js.CreateConsumer(t.Context(), bus.StreamName("test"), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c.Stop(c.Index(lost.CachedInfo().Cluster.Leader))
	tries := 0
	bustest.WaitUntil(t, "two of three servers copy the space", func() error {
		tries++
		_, err := journal.BackUp(t.Context(), nc, "test", keys, filepath.Join(t.TempDir(), strconv.Itoa(tries)), journal.ArchiveFolder(t.TempDir()))
		return err
	})
}

// A backup without the archives and a restore without a folder for them are errors.
func TestBackupWithoutAFolderForArchives(t *testing.T) {
	w := newArchiving(t)
	w.archive()
	if _, err := journal.BackUp(t.Context(), w.Conn("engine"), "test", w.Keys(), filepath.Join(t.TempDir(), "x"), nil); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("a backup without the archives: %v", err)
	}
	folder := filepath.Join(t.TempDir(), "backup")
	if _, err := journal.BackUp(t.Context(), w.Conn("engine"), "test", w.Keys(), folder, journal.ArchiveFolder(w.folder)); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Restore(t.Context(), bustest.New(t).Conn("engine"), "test", folder, nil); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("a restore without a folder: %v", err)
	}
}

// Of two backups into one folder one is complete. The advice of the other does not end it.
func TestTwoBackupsIntoOneFolder(t *testing.T) {
	w := newArchiving(t)
	nc, keys := w.Conn("engine"), w.Keys()
	for range 5 {
		folder := filepath.Join(t.TempDir(), "backup")
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = journal.BackUp(t.Context(), nc, "test", keys, folder, journal.ArchiveFolder(w.folder))
			})
		}
		wg.Wait()
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) // nil is first
		if errs[0] != nil || !errors.Is(errs[1], message.ErrConflict) || strings.Contains(errs[1].Error(), "remove the folder") {
			t.Errorf("the backups ended with %v and %v", errs[0], errs[1])
		}
	}
}
