package journal_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

func (a *archiving) backUp(t *testing.T, files journal.ArchiveStore) (journal.Copied, error) {
	t.Helper()
	return journal.BackUp(t.Context(), a.Conn("engine"), "test", a.Keys(), filepath.Join(t.TempDir(), "backup"), files)
}

// A backup omits only files that are not in the folder. An existing file that cannot be copied is an
// error, because it would be lost.
func TestBackupOfArchiveFiles(t *testing.T) {
	w := newArchiving(t)
	name := w.archive().Archives[0] + ".jsonl.zst"
	file := filepath.Join(w.folder, name)
	whole := must(os.ReadFile(file))
	if made, err := w.backUp(t, journal.ArchiveFolder(w.folder)); err != nil || len(made.Missing) != 0 || len(made.Archives) != 1 {
		t.Errorf("with the file: %+v, %v", made, err)
	}
	for what, test := range map[string]struct {
		spoil func() error
		want  error
	}{
		"changed":    {func() error { return os.WriteFile(file, whole[1:], 0o600) }, message.ErrDamaged},
		"unreadable": {func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }, message.ErrUnavailable},
	} {
		if err := test.spoil(); err != nil {
			t.Fatal(err)
		}
		if made, err := w.backUp(t, journal.ArchiveFolder(w.folder)); !errors.Is(err, test.want) {
			t.Errorf("with the file %s: %+v, %v", what, made, err)
		}
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, whole, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if made, err := w.backUp(t, journal.ArchiveFolder(w.folder)); err != nil || !slices.Equal(made.Missing, []string{name}) {
		t.Errorf("without the file: %+v, %v", made, err)
	}
}

// A message that no engine signed cannot hide the archives from a backup.
func TestBackupVerifiesCheckpoints(t *testing.T) {
	w := newArchiving(t)
	want := w.archive().Archives
	last := w.sign()
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := last.Hash()
	if err != nil {
		t.Fatal(err)
	}
	c := proof.Checkpoint{Space: "test", Number: last.Number + 1, From: last.To + 1, To: last.To + 1, Prev: hash, At: bustest.At, Engine: "e1"}
	s, err := proof.Seal(c, []proof.Entry{{}}, stranger)
	if err != nil {
		t.Fatal(err)
	}
	put := func() {
		t.Helper()
		body, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		bustest.Store(t, w.Conn("forger"), &nats.Msg{Subject: bus.Subject{Space: "test", Kind: bus.KindCheckpoint}.String(), Data: body})
	}
	s.Checkpoint.KeyID = toolcall.KeyID(w.Keys().Public())
	put()
	if made, err := w.backUp(t, journal.ArchiveFolder(w.folder)); err != nil || !slices.Equal(made.Archives, want) {
		t.Errorf("behind a forged checkpoint: %+v, %v, want %v", made, err, want)
	}
	s.Checkpoint.KeyID = toolcall.KeyID(stranger.Public().(ed25519.PublicKey))
	put()
	if made, err := w.backUp(t, journal.ArchiveFolder(w.folder)); !errors.Is(err, message.ErrForeignStream) {
		t.Errorf("behind a checkpoint of an unknown key: %+v, %v", made, err)
	}
}

// A file with the bustest.Genuine copy of a lost record is kept, whether the record is missing or another
// one is in its place.
func TestLeftFileOfALostRecordIsKept(t *testing.T) {
	w := newArchiving(t)
	w.sign()
	const name = "test-000001-00000000"
	if err := w.l.WriteArchive(t.Context(), name, proof.Range{From: 3, Through: 5}); err != nil {
		t.Fatal(err)
	}
	lost, other := []proof.Range{{From: 4, Through: 4}}, []proof.Range{{From: 6, Through: 9}}
	for what, test := range map[string]struct {
		loss proof.Loss
		want bool
	}{
		"missing":            {proof.Loss{Missing: lost}, true},
		"changed":            {proof.Loss{Changed: lost}, true},
		"of another archive": {proof.Loss{Missing: other, Changed: other}, false},
	} {
		if got := w.l.IsNeeded(t.Context(), name, test.loss); got != test.want {
			t.Errorf("a lost record is %s: the file is needed: %t", what, got)
		}
	}
}

// A backup that says that it has archives is not restored without the list of them.
func TestBackupWithoutItsListOfArchives(t *testing.T) {
	w := newArchiving(t)
	w.archive()
	folder := filepath.Join(t.TempDir(), "backup")
	made, err := journal.BackUp(t.Context(), w.Conn("engine"), "test", w.Keys(), folder, journal.ArchiveFolder(w.folder))
	if err != nil || len(made.Archives) != 1 {
		t.Fatal(made, err)
	}
	if err := os.Remove(filepath.Join(folder, "archives.json")); err != nil {
		t.Fatal(err)
	}
	to := bustest.New(t).Conn("engine")
	if got, err := journal.Restore(t.Context(), to, "test", folder, journal.ArchiveFolder(t.TempDir())); err == nil {
		t.Errorf("restored without archives.json: %+v", got)
	}
}

// opening runs f when a file is opened for the first time.
type opening struct {
	journal.ArchiveStore
	once sync.Once
	f    func()
}

func (o *opening) Open(ctx context.Context, name string) (journal.ArchiveFile, error) {
	o.once.Do(o.f)
	return o.ArchiveStore.Open(ctx, name)
}

// An archive that is made during a backup is in it, or the backup fails.
func TestArchiveDuringABackup(t *testing.T) {
	w := newArchiving(t)
	w.archive()
	w.finish(inReply("r9", "a"))
	w.finish(inReply("r10", "a"))
	folder := filepath.Join(t.TempDir(), "backup")
	made, err := journal.BackUp(t.Context(), w.Conn("engine"), "test", w.Keys(), folder, &opening{ArchiveStore: w.store, f: func() { w.archive() }})
	t.Logf("backup: %+v, %v", made, err)
	if err != nil {
		return // refused
	}
	b := bustest.New(t)
	b.UseKeys(w.Keys())
	to := journal.ArchiveFolder(t.TempDir())
	if _, err := journal.Restore(t.Context(), b.Conn("engine"), "test", folder, to); err != nil {
		t.Fatal(err)
	}
	acceptRestored(t, b.Conn("engine"), w.Keys(), journal.Options{Archives: to})
	j := b.JournalWith("test", journal.Options{Archives: to})
	if _, err := j.History(t.Context(), inReply("r9", "a")); err != nil {
		t.Errorf("a call that was in the journal when the backup began: %v", err)
	}
	if _, err := j.Append(t.Context(), bustest.CallRecord("new", toolcall.Key{Space: "test", Session: "s1", Reply: "new", Call: "a"}, message.ToolCallPending, "propose"), 0); err != nil {
		t.Errorf("a new call: %v", err)
	}
}
