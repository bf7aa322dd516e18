package journal_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
)

func putText(t *testing.T, to journal.ArchiveStore, name, text string) {
	t.Helper()
	err := to.Put(t.Context(), name, func(w io.Writer) error {
		for chunk := range slices.Chunk([]byte(text), 1000) {
			if _, err := w.Write(chunk); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func textIn(t *testing.T, f journal.ArchiveFile) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// An object store keeps files of any size, shares one copy between readers, and stores nothing of a
// file whose writer failed.
func TestArchiveBucket(t *testing.T) {
	w := bustest.New(t)
	nc := w.Conn("engine")
	folder := journal.ArchiveFolder(t.TempDir())
	b := journal.NewArchiveBucket(nc, "test", folder)
	b.SetLeftAfter(0)
	if found, err := b.Files(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("without a bucket: %v, %v", found, err)
	}
	open := func(name string) journal.ArchiveFile {
		t.Helper()
		f, err := b.Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	isAbsent := func(name string) {
		t.Helper()
		if _, err := b.Open(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	isAbsent("a")
	putText(t, folder, "elsewhere", "in the folder")
	big := strings.Repeat("0123456789", 100_000)
	putText(t, b, "a", big)
	putText(t, b, "empty", "")
	first, again := open("a"), open("a")
	other := open("empty")
	for i := range 16 { // they take the place of a
		name := fmt.Sprint("more", i)
		putText(t, b, name, "")
		if err := errors.Join(open(name).Close(), b.Remove(t.Context(), name)); err != nil {
			t.Error(err)
		}
	}
	if got := textIn(t, first); got != big {
		t.Errorf("a has %d bytes", len(got))
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if textIn(t, again) != big || textIn(t, other) != "" || textIn(t, open("elsewhere")) != "in the folder" {
		t.Error("a second reader reads different content")
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, err := again.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("the copy remains after its last reader has closed it")
	}
	broken := errors.New("broken")
	err := b.Put(t.Context(), "half", func(w io.Writer) error {
		_, err := io.WriteString(w, big)
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v", err)
	}
	isAbsent("half")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := b.Put(stopped, "late", func(w io.Writer) error { _, err := io.WriteString(w, big); return err }); err == nil {
		t.Error("a file was stored after the end of its request")
	}
	if found, err := b.Files(t.Context()); err != nil || !slices.Equal(found, []journal.StoredFile{{Name: "a"}, {Name: "empty"}, {Name: "elsewhere", Keep: true}}) {
		t.Errorf("files: %v, %v", found, err)
	}
	if textIn(t, open("a")) != big {
		t.Error("a has changed")
	}
	putText(t, b, "a", "repaired")
	if got := textIn(t, open("a")); got != "repaired" {
		t.Errorf("a file that was replaced has %d bytes", len(got))
	}
	if err := b.Remove(t.Context(), "empty"); err != nil {
		t.Error(err)
	}
	isAbsent("late")
	if found, err := b.Files(t.Context()); err != nil || !slices.Equal(found, []journal.StoredFile{{Name: "a"}, {Name: "elsewhere", Keep: true}}) {
		t.Errorf("files after a removal: %v, %v", found, err)
	}
}

// A file is written again if the stream of the bucket gave no answer.
func TestArchiveBucketWithoutAnswer(t *testing.T) {
	w := bustest.New(t)
	nc := w.Conn("engine")
	b := journal.NewArchiveBucket(nc, "test", nil)
	putText(t, b, "first", "x")
	writes := 0
	err := b.Put(t.Context(), "a", func(to io.Writer) error {
		if writes++; writes == 1 {
			if err := must(jetstream.New(nc)).DeleteStream(t.Context(), "OBJ_"+journal.ArchiveBucketName("test")); err != nil {
				return err
			}
		}
		_, err := io.WriteString(to, strings.Repeat("y", 10))
		return err
	})
	if err != nil || writes != 2 {
		t.Fatalf("%d writes, %v", writes, err)
	}
	if got := textIn(t, must(b.Open(t.Context(), "a"))); got != strings.Repeat("y", 10) {
		t.Errorf("read %q", got)
	}
}

// A request that is lost with a server delays the reading of a file by seconds.
func TestArchiveBucketWithALostRequest(t *testing.T) {
	dir := bustest.Dir(t)
	t.Run("put", func(t *testing.T) { // the client's goroutines of a Put do not end, as a bubble needs
		putText(t, journal.NewArchiveBucket(bustest.New(t, bustest.In(dir)).Conn("engine"), "test", nil), "a", "text")
	})
	for _, request := range []string{"$JS.API.STREAM.INFO.OBJ_", ".GET.OBJ_", "$JS.API.CONSUMER.CREATE.OBJ_"} {
		synctest.Test(t, func(t *testing.T) {
			lost, ready := false, false
			lose := func(c net.Conn, b []byte) (int, error) {
				if ready && !lost && bytes.Contains(b, []byte(request)) {
					lost = true
					return len(b), nil
				}
				return c.Write(b)
			}
			nc, err := bus.ConnectInProcess(t.Context(), hooked{bustest.New(t, bustest.In(dir)), lose}, bus.ConnectOptions{Principal: "engine"})
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := must(nc.JetStream()).AccountInfo(); err != nil { // its subscription to answers is not lost
				t.Fatal(err)
			}
			ready = true
			began := time.Now()
			f, err := journal.NewArchiveBucket(nc, "test", nil).Open(t.Context(), "a")
			if err != nil {
				t.Fatalf("%s: %v", request, err)
			}
			if got, took := textIn(t, f), time.Since(began); got != "text" || !lost || took > time.Minute {
				t.Errorf("%s: read %q after %v, lost %v", request, got, took, lost)
			}
			_ = f.Close() // it was only read
		})
	}
}

// What a killed archiver stored of a file is removed a day later, unless the end of a file is lost.
func TestPartsOfAKilledArchiver(t *testing.T) {
	w := newArchiving(t)
	store := journal.NewArchiveBucket(w.Conn("engine"), "test", nil)
	w.store = store
	w.open()
	done := w.archive()
	parts := func() (sizes []uint64) { // of each file, in bytes
		t.Helper()
		info, err := w.stream("OBJ_"+journal.ArchiveBucketName("test")).Info(t.Context(), jetstream.WithSubjectFilter("$O.*.C.>"))
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Values(info.State.Subjects))
	}
	killed := w.Conn("engine")
	ctx, kill := context.WithCancel(t.Context())
	err := journal.NewArchiveBucket(killed, "test", nil).Put(ctx, "test-000002-00000000.jsonl.zst", func(to io.Writer) error {
		_, err := to.Write(make([]byte, 20*128<<10))
		for err == nil && slices.Max(parts()) < 20 {
			err = killed.Flush()
		}
		killed.Close()
		kill()
		return err
	})
	if err == nil {
		t.Fatal("the archiver was not killed")
	}
	if got := parts(); !slices.Equal(got, []uint64{1, 1, 20}) {
		t.Fatalf("parts before: %v", got)
	}
	if young := w.archive(); len(young.Removed) > 0 || len(parts()) != 3 {
		t.Errorf("at once: %+v", young)
	}
	store.SetLeftAfter(0)
	w.finish(inReply("r9", "a"))
	index, err := w.stream("OBJ_"+journal.ArchiveBucketName("test")).GetLastMsgForSubject(t.Context(), "$O."+journal.ArchiveBucketName("test")+".M."+base64.URLEncoding.EncodeToString([]byte(done.Archives[0]+".jsonl.zst")))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.stream("OBJ_"+journal.ArchiveBucketName("test")).DeleteMsg(t.Context(), index.Sequence); err != nil {
		t.Fatal(err)
	}
	if lost := w.archive(); len(lost.Removed) > 0 || len(parts()) < 3 {
		t.Errorf("without the end of a file: %+v", lost)
	}
	if _, err := w.Conn("engine").Request(index.Subject, index.Data, time.Second); err != nil {
		t.Fatal(err)
	}
	if old := w.archive(); len(old.Removed) != 1 || slices.Max(parts()) > 1 {
		t.Errorf("later: %+v, parts %v", old, parts())
	}
	w.open()
	if r, err := w.verify(); err != nil || !r.OK || r.NotShown != 0 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// A bucket that forgets files is refused.
func TestArchiveBucketThatForgets(t *testing.T) {
	w := bustest.New(t)
	nc := w.Conn("engine")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: journal.ArchiveBucketName("test"), Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	b := journal.NewArchiveBucket(nc, "test", nil)
	err = b.Put(t.Context(), "a", func(io.Writer) error { return nil })
	if !errors.Is(err, message.ErrForeignStream) {
		t.Errorf("a bucket in memory: %v", err)
	}
}

// An archive in an object store works like one in a folder, for every engine.
func TestArchiveInABucket(t *testing.T) {
	w := newArchiving(t)
	w.store = journal.NewArchiveBucket(w.Conn("engine"), "test", nil)
	w.open()
	if done := w.archive(); done.Records != 20 {
		t.Fatalf("archived %+v", done)
	}
	w.proved(true)
	w.refused(w.j)
	w.store = journal.NewArchiveBucket(w.Conn("engine"), "test", nil)
	w.open()
	w.proved(true)
	w.refused(w.j)
}

// An engine that was paused examines the journal before it accepts a call as new.
func TestArchiveWhileAnEngineIsPaused(t *testing.T) {
	w := newArchiving(t)
	other, err := journal.Open(t.Context(), w.Conn("engine"), "test", w.Keys(), journal.Options{Archives: journal.ArchiveFolder(w.folder)})
	if err != nil {
		t.Fatal(err)
	}
	w.archive()
	other.ForgetLook()
	if _, err := other.Append(t.Context(), bustest.CallRecord("again", inReply("r1", "a"), message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrArchived) {
		t.Errorf("an archived call after a pause: %v", err)
	}
}

// Reading the journal once fetches each file of an archive a few times at most, also if the
// records of two archives alternate.
func TestArchiveFilesAreFetchedOnce(t *testing.T) {
	w := newArchiving(t)
	w.store = journal.NewArchiveBucket(w.Conn("engine"), "test", nil)
	w.open()
	open := map[string]uint64{}
	for n := range 3000 {
		r := fmt.Sprintf("x%d", n)
		if n%2 == 0 {
			w.finish(inReply(r, "a"))
		} else {
			open[r] = bustest.MustAppend(t, w.j, bustest.CallRecord(r+"1", inReply(r, "a"), message.ToolCallPending, "propose"), 0)
		}
	}
	w.archive()
	for r, seq := range open {
		bustest.MustAppend(t, w.j, bustest.CallRecord(r+"2", inReply(r, "a"), message.ToolCallFinished, "result"), seq)
	}
	w.finish(inReply("end", "a"))
	w.archive()
	w.store = journal.NewArchiveBucket(w.Conn("engine"), "test", nil)
	w.open()
	nc, asked := w.Conn("counter"), make(chan *nats.Msg, 10000)
	if _, err := nc.ChanSubscribe("$JS.API.CONSUMER.CREATE.OBJ_>", asked); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.ChanSubscribe("$JS.API.CONSUMER.CREATE.OBJ_ASKANCE_ARCHIVE_test.>", asked); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	r, err := w.verify()
	if err != nil || !r.OK || r.NotShown != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("archives %d, archived %d, files fetched %d times", r.Archives, r.Archived, len(asked))
	if len(asked) > 4 {
		t.Errorf("the files of %d archives were fetched %d times", r.Archives, len(asked))
	}
}
