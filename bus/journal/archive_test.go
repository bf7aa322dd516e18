package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// archiving is a journal with finished replies, one that has an open call, and a folder
// for archives.
type archiving struct {
	*ledgered
	folder string
	store  journal.ArchiveStore
}

func inReply(reply, call string) toolcall.Key {
	return toolcall.Key{Space: "test", Session: "s1", Reply: message.ReplyID(reply), Call: message.CallID(call)}
}

func newArchiving(t *testing.T) *archiving {
	t.Helper()
	w := &archiving{ledgered: &ledgered{Bus: bustest.New(t), t: t}, folder: t.TempDir()}
	w.store = journal.ArchiveFolder(w.folder)
	w.open()
	for r := range 4 {
		for _, call := range []string{"a", "b"} {
			w.finish(inReply(fmt.Sprintf("r%d", r), call))
		}
		reply := inReply(fmt.Sprintf("r%d", r), "").ReplyKey()
		if _, err := w.j.AppendEvent(t.Context(), "rt", reply, []message.RawJSON{message.RawJSON(`{"type":"REPLY_START"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	w.finish(inReply("half", "done"))
	bustest.MustAppend(t, w.j, bustest.CallRecord("open1", inReply("half", "open"), message.ToolCallPending, "propose"), 0)
	w.finish(inReply("last", "a")) // the journal's last record stays
	return w
}

func (a *archiving) finish(key toolcall.Key) {
	a.t.Helper()
	id := string(key.Reply) + string(key.Call)
	seq := bustest.MustAppend(a.t, a.j, bustest.CallRecord(id+"1", key, message.ToolCallPending, "propose"), 0)
	bustest.MustAppend(a.t, a.j, bustest.CallRecord(id+"2", key, message.ToolCallFinished, "result"), seq)
}

func (a *archiving) open() {
	a.t.Helper()
	a.j = a.JournalWith("test", journal.Options{Room: a.Room, Archives: a.store})
	a.l = bustest.LedgerOf(a.t, a.j)
}

func (a *archiving) archive() journal.Archiving {
	a.t.Helper()
	done, err := a.l.Archive(a.t.Context(), journal.Retention{By: "ann", Reason: "test"})
	if err != nil {
		a.t.Fatal(err)
	}
	return done
}

func (a *archiving) records() uint64 {
	a.t.Helper()
	return a.stream(bus.StreamName("test")).CachedInfo().State.Msgs
}

// verify returns the report of an auditor who knows of the archives from their checkpoints.
func (a *archiving) verify() (*proof.Report, error) {
	a.t.Helper()
	ctx := a.t.Context()
	o := proof.Options{Keys: toolcall.NewKeySet(a.Keys().Public()), Space: "test", Name: bus.NameOf}
	written, err := a.l.Records(ctx, bus.RecordsRequest{Limit: 1})
	if err != nil {
		return nil, err
	}
	signed, err := a.l.Records(ctx, bus.RecordsRequest{Of: bus.AuditCheckpoints, Limit: 1})
	if err != nil {
		return nil, err
	}
	o.First, o.Last = written.First, written.Last
	checkpoints := journal.Bodies(journal.Walk(ctx, a.l, bus.AuditCheckpoints, 0, signed.Last))
	if o.Archives, err = proof.Archives(checkpoints, o.Keys, o.Retired); err != nil {
		return nil, err
	}
	return proof.Verify(checkpoints, journal.Walk(ctx, a.l, bus.AuditJournal, 0, written.Last), o)
}

func (a *archiving) proved(shown bool) {
	a.t.Helper()
	r, err := a.verify()
	if err != nil {
		a.t.Fatal(err)
	}
	if !r.OK || r.Archived != 20 || shown && (r.NotShown != 0 || r.Records != 25) || !shown && (r.NotShown != 20 || r.Records != 5) {
		a.t.Errorf("verify: %+v", r)
	}
}

// refused checks that ids of archived calls and replies stay used, and that others work.
func (a *archiving) refused(j *journal.Journal) {
	a.t.Helper()
	for _, key := range []toolcall.Key{inReply("r1", "a"), inReply("r1", "new"), inReply("r3", "b")} {
		if _, err := j.Append(a.t.Context(), bustest.CallRecord("again", key, message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrArchived) {
			a.t.Errorf("a call %s again: %v", key, err)
		}
		if r, err := j.Last(a.t.Context(), key); !errors.Is(err, message.ErrArchived) && (err != nil || r.Seq > 20) { // a record that is not deleted yet
			a.t.Errorf("the last record of %s: %+v, %v", key, r, err)
		}
	}
	plan := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "plan", At: bustest.At, Engine: "e1", By: toolcall.Principal{Role: toolcall.RoleRuntime, Name: "rt"}, Reply: &toolcall.ReplyState{Key: inReply("r2", "").ReplyKey(), Phase: toolcall.ReplyOpen}}
	if _, err := j.Append(a.t.Context(), plan, 0); !errors.Is(err, message.ErrArchived) {
		a.t.Errorf("a plan of an archived reply: %v", err)
	}
	if _, err := j.Last(a.t.Context(), inReply("other", "x")); !errors.Is(err, message.ErrNotFound) {
		a.t.Errorf("an unknown call: %v", err)
	}
}

// Finished calls leave the journal. The archive proves and shows them, and their ids stay refused
// even after restarts. Open calls stay in the journal.
func TestArchive(t *testing.T) {
	w := newArchiving(t)
	before := w.records()
	if dry, err := w.l.Archive(t.Context(), journal.Retention{DryRun: true}); err != nil || dry.Records != 20 || w.records() != before {
		t.Errorf("a dry run: %+v, %v, %d records", dry, err, w.records())
	}
	done := w.archive()
	if done.Replies != 4 || done.Calls != 8 || done.Records != 20 || len(done.Archives) != 1 || w.records() != before-20 {
		t.Errorf("archived %+v, %d of %d records are left", done, w.records(), before)
	}
	w.refused(w.j)
	w.proved(true)
	for _, open := range []string{"open", "done"} {
		if r, err := w.j.Last(t.Context(), inReply("half", open)); err != nil || r.Record == nil {
			t.Errorf("the call %s: %+v, %v", open, r, err)
		}
	}
	history, err := w.j.History(t.Context(), inReply("r1", "b"))
	if err != nil || len(history) != 2 || history[1].Record == nil || history[1].Record.Call.State != message.ToolCallFinished {
		t.Errorf("the history of an archived call: %+v, %v", history, err)
	}
	if _, err := journal.MakeReceipt(t.Context(), w.l, inReply("r1", "b")); err != nil {
		t.Errorf("the receipt of an archived call: %v", err)
	}
	watching := bustest.Watch(t, w.j, 0)
	found := watching.Wait(t, "the watch", func(_ []toolcall.JournalEntry, caught int) bool { return caught >= 0 })
	watching.End()
	if len(found) != 5 {
		t.Errorf("%d records are delivered", len(found))
	}
	w.open()
	w.refused(w.j)
	w.proved(true)
	if again := w.archive(); again.Records != 0 || len(again.Archives) != 0 {
		t.Errorf("a second run archived %+v", again)
	}
	w.finish(inReply("r9", "a"))
	w.finish(inReply("r10", "a"))
	if again := w.archive(); again.Records != 4 || len(again.Archives) != 1 { // of "last" and "r9"
		t.Errorf("a third run archived %+v", again)
	}
	w.open()
	w.refused(w.j)
	if r, err := w.verify(); err != nil || !r.OK || r.Archives != 2 || r.Archived != 24 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// An engine whose server was stopped, and started again after archiving, refuses the ids of archived
// calls even before it has examined the journal.
func TestArchiveWhileAnEngineIsCutOff(t *testing.T) {
	w := newArchiving(t)
	nc := w.Conn("engine")
	other, err := journal.Open(t.Context(), nc, "test", w.Keys(), journal.Options{Archives: journal.ArchiveFolder(w.folder)})
	if err != nil {
		t.Fatal(err)
	}
	w.archive()
	back := make(chan nats.Status, 1)
	nc.SetReconnectHandler(func(*nats.Conn) { back <- nats.CONNECTED })
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	<-back
	w.refused(other)
}

// A missing file is reported, a changed one is detected, and without the index no new call is
// accepted.
func TestArchiveFiles(t *testing.T) {
	w := newArchiving(t)
	name := filepath.Join(w.folder, w.archive().Archives[0])
	file, index := name+".jsonl.zst", name+".index"
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
		w.open()
	}
	move(file, file+".away")
	w.proved(false)
	w.refused(w.j)
	if _, err := w.j.History(t.Context(), inReply("r1", "b")); !errors.Is(err, message.ErrNotFound) || !strings.Contains(err.Error(), filepath.Base(file)) {
		t.Errorf("the history without the file: %v", err)
	}
	move(file+".away", file)
	for _, at := range []int{20, len(whole) / 2, len(whole) - 1} {
		broken := bytes.Clone(whole)
		broken[at] ^= 1
		if err := os.WriteFile(file, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		w.open()
		if _, err := w.verify(); !errors.Is(err, message.ErrDamaged) {
			t.Errorf("with another byte at %d: %v", at, err)
		}
		w.refused(w.j)
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	move(index, index+".away")
	for _, key := range []toolcall.Key{inReply("r1", "a"), inReply("fresh", "a")} {
		if _, err := w.j.Append(t.Context(), bustest.CallRecord("again", key, message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("without the index, %s: %v", key, err)
		}
	}
	if r, err := w.j.Last(t.Context(), inReply("half", "open")); err != nil || r.Record == nil {
		t.Errorf("without the index, the open call: %v", err)
	}
	if err := w.j.Ready(t.Context()); !errors.Is(err, message.ErrUnavailable) || !strings.Contains(err.Error(), filepath.Base(index)) {
		t.Errorf("ready without the index: %v", err)
	}
	move(index+".away", index)
	if err := w.j.Ready(t.Context()); err != nil {
		t.Errorf("ready with the index: %v", err)
	}
	w.refused(w.j)
	w.proved(true)

	signed := must(os.ReadFile(index))
	for what, spoil := range map[string]func() error{
		"lost":    func() error { return os.Remove(index) },
		"changed": func() error { return os.WriteFile(index, signed[1:], 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		w.open()
		if err := w.j.Ready(t.Context()); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("ready with a %s index: %v", what, err)
		}
		if _, err := w.l.ResumeArchives(t.Context()); err != nil {
			t.Errorf("a %s index: %v", what, err)
		}
		if err := w.j.Ready(t.Context()); err != nil || !bytes.Equal(must(os.ReadFile(index)), signed) {
			t.Errorf("a %s index was not made again: %v", what, err)
		}
		w.refused(w.j)
	}
	if err := errors.Join(os.Remove(index), os.WriteFile(file, whole[1:], 0o600)); err != nil {
		t.Fatal(err)
	}
	w.open()
	if _, err := w.l.ResumeArchives(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(index); err == nil || w.j.Ready(t.Context()) == nil {
		t.Errorf("an index was made from a changed file: %v", err)
	}
}

// The loss of a record that is in no archive is detected even while archived records are still in
// the journal.
func TestLossDuringArchiving(t *testing.T) {
	w := newArchiving(t)
	w.archiveUntil(t, 19) // with the lost record, the number of records equals that after a complete archive
	other := w.JournalWith("test", journal.Options{Archives: journal.ArchiveFolder(w.folder)})
	w.refused(other) // an unfinished deletion is no damage
	if err := w.stream(bus.StreamName("test")).DeleteMsg(t.Context(), 22); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Last(t.Context(), inReply("other", "x")); !errors.Is(err, message.ErrDamaged) {
		t.Errorf("an unknown call in a journal that lacks a record: %v", err)
	}
	_, err := journal.Open(t.Context(), w.Conn("engine"), "test", w.Keys(), journal.Options{Archives: journal.ArchiveFolder(w.folder)})
	if !errors.Is(err, message.ErrDamaged) || !strings.Contains(err.Error(), "record 22 is missing") {
		t.Errorf("opening it: %v", err)
	}
}

// A start after completed archives does not ask for a list of all deleted records.
func TestStartAfterArchives(t *testing.T) {
	w := newArchiving(t)
	w.archive()
	nc, asked := w.Conn("engine"), make(chan *nats.Msg, 1000)
	if _, err := nc.ChanSubscribe("$JS.API.STREAM.INFO."+bus.StreamName("test"), asked); err != nil {
		t.Fatal(err)
	}
	flush := func() { // all earlier requests have arrived
		t.Helper()
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	w.open()
	w.refused(w.j)
	w.proved(true)
	flush()
	if len(asked) == 0 {
		t.Error("no request was sent")
	}
	for len(asked) > 0 {
		if m := <-asked; bytes.Contains(m.Data, []byte("deleted_details")) {
			t.Errorf("a list was asked for: %s", m.Data)
		}
	}
}

// The next run completes or restarts an archive that was interrupted at any point.
func TestInterruptedArchive(t *testing.T) {
	for deleted := range 21 {
		t.Run(fmt.Sprint(deleted), func(t *testing.T) {
			w := newArchiving(t)
			w.archiveUntil(t, deleted)
			w.open()
			w.refused(w.j)
			w.proved(true)
			w.archive()
			w.refused(w.j)
			w.proved(true)
			if _, err := w.j.Last(t.Context(), inReply("r3", "b")); w.records() != 5 || !errors.Is(err, message.ErrArchived) {
				t.Errorf("%d records are left, %v", w.records(), err)
			}
			w.open()
			w.proved(true)
		})
	}
}

// Several requests delete records at the same time: a call whose end is deleted first must not be
// open again.
func TestInterruptedArchiveDeletesTheEndFirst(t *testing.T) {
	w := newArchiving(t)
	if _, err := w.l.AnnounceArchive(t.Context(), journal.Retention{By: "ann", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{2, 4, 9} { // the ends of r0/a, r0/b and r1/b
		if err := w.stream(bus.StreamName("test")).DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	w.open()
	w.refused(w.j)
	w.proved(true)
	for _, key := range []toolcall.Key{inReply("r0", "a"), inReply("r1", "b"), inReply("r2", "a")} {
		if r, err := w.j.Last(t.Context(), key); !errors.Is(err, message.ErrArchived) {
			t.Errorf("the last record of %s: %+v, %v", key, r, err)
		}
		if h, err := w.j.History(t.Context(), key); err != nil || len(h) != 2 || h[1].Record == nil || h[1].Record.Call.State != message.ToolCallFinished {
			t.Errorf("the history of %s: %+v, %v", key, h, err)
		}
		if found, err := journal.CallRecords(t.Context(), w.l, key); err != nil || len(found) != 2 {
			t.Errorf("the records of %s: %d, %v", key, len(found), err)
		}
	}
	watching := bustest.Watch(t, w.j, 0)
	if found := watching.Wait(t, "the watch", func(_ []toolcall.JournalEntry, caught int) bool { return caught >= 0 }); len(found) != 5 {
		t.Errorf("%d records are delivered", len(found))
	}
	watching.End()
	if found, _, err := w.j.Read(t.Context(), inReply("r0", "a").SessionKey(), 0, 100); err != nil || len(found) != 5 {
		t.Errorf("%d records of the session, %v", len(found), err)
	}
	if found := must(journal.NewSnapshots(w.l, "").ReadRecords(t.Context(), []uint64{1, 2, 23})); !errors.Is(found[0].Invalid, message.ErrArchived) || !errors.Is(found[1].Invalid, message.ErrArchived) || found[2].Record == nil {
		t.Errorf("for a snapshot: %+v", found)
	}
	w.archive()
	w.refused(w.j)
	w.proved(true)
}

// archiveUntil announces an archive and deletes only the given number of its records.
func (a *archiving) archiveUntil(t *testing.T, deleted int) {
	t.Helper()
	gone, err := a.l.AnnounceArchive(t.Context(), journal.Retention{By: "ann", Reason: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range gone {
		for seq := r.From; seq <= r.Through && deleted > 0; seq++ {
			if err := a.stream(bus.StreamName("test")).DeleteMsg(t.Context(), seq); err != nil {
				t.Fatal(err)
			}
			deleted--
		}
	}
}

// bind records a session, whose second record has tools.
func (a *archiving) bind(session string, prev uint64) uint64 {
	a.t.Helper()
	state := &toolcall.SessionState{Key: toolcall.Key{Space: "test", Session: message.SessionID(session)}, Runtime: "rt-" + session}
	return bustest.MustAppend(a.t, a.j, &toolcall.EventRecord{V: toolcall.RecordVersion, ID: fmt.Sprint(session, prev), At: bustest.At, Engine: "e1", By: toolcall.Principal{Role: toolcall.RoleRuntime, Name: "rt"}, Session: state}, prev)
}

// newSessions returns a journal of three sessions: all of the first and half of the second are
// finished, and the third is short.
func newSessions(t *testing.T, opts ...bustest.Option) *archiving {
	w := &archiving{ledgered: &ledgered{Bus: bustest.New(t, opts...), t: t}, folder: t.TempDir()}
	w.store = journal.ArchiveFolder(w.folder)
	w.open()
	w.bind("a", w.bind("a", 0))
	w.bind("b", 0)
	for r := range 20 {
		for _, session := range []string{"a", "b", "c"} {
			key := toolcall.Key{Space: "test", Session: message.SessionID(session), Reply: message.ReplyID(fmt.Sprint("r", r)), Call: message.CallID(fmt.Sprint(session, r))}
			switch {
			case session == "c" && r > 2:
			case session == "b" && r == 10:
				bustest.MustAppend(t, w.j, bustest.CallRecord("open", key, message.ToolCallPending, "propose"), 0)
			default:
				w.finish(key)
				if _, err := w.j.AppendEvent(t.Context(), "rt", key.ReplyKey(), []message.RawJSON{message.RawJSON(`{"type":"REPLY_START"}`)}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	bustest.MustAppend(t, w.j, bustest.CallRecord("end", inReply("end", "a"), message.ToolCallPending, "propose"), 0)
	return w
}

// checkSessions checks what remains of newSessions.
func (a *archiving) checkSessions() {
	a.t.Helper()
	if n := a.records(); n != 4 { // two sessions and two open calls
		a.t.Errorf("%d records are left", n)
	}
	for _, session := range []string{"a", "b"} {
		key := toolcall.Key{Space: "test", Session: message.SessionID(session)}
		r, err := a.j.Last(a.t.Context(), key)
		if err != nil || r.Record == nil || r.Record.Session.Runtime != "rt-"+session || r.Record.By.Name != "ann" {
			a.t.Errorf("the session %s: %+v, %v", session, r, err)
		}
		history, err := a.j.History(a.t.Context(), key)
		if err != nil || len(history) < 2 || history[0].Record == nil || history[0].Record.By.Name != "rt" {
			a.t.Errorf("the history of the session %s: %+v, %v", session, history, err)
		}
	}
	if r, err := a.verify(); err != nil || !r.OK || r.NotShown != 0 {
		a.t.Errorf("verify: %+v, %v", r, err)
	}
}

// Sessions of archived calls are recorded again at the end of the journal, so that NATS can delete
// the archived records with few requests.
func TestArchiveSessions(t *testing.T) {
	w := newSessions(t)
	advisories := make(chan *nats.Msg, 1000)
	nc := w.Conn("counter")
	if _, err := nc.ChanSubscribe("$JS.EVENT.ADVISORY.API", advisories); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.RequestWithContext(t.Context(), "$JS.API.INFO", nil); err != nil { // subscribed
		t.Fatal(err)
	}
	stages := map[string]uint64{}
	done, err := w.l.Archive(t.Context(), journal.Retention{By: "ann", Reason: "test", Progress: func(what string, done, all uint64) {
		if stages[what] = max(stages[what], done); done > all {
			t.Errorf("%s: %d of %d", what, done, all)
		}
	}})
	if err != nil || done.Replies != 42 || done.Calls != 42 || done.Records != 3*42+3 {
		t.Errorf("archived %+v, %v", done, err)
	}
	if stages["read the journal"] < done.Records || stages["write archive 1"] != done.Records || stages["check archive 1"] != done.Records || stages["delete archived records"] != done.Records {
		t.Errorf("progress %v", stages)
	}
	w.checkSessions()
	if _, err := nc.RequestWithContext(t.Context(), "$JS.API.STREAM.INFO.end", nil); err != nil {
		t.Fatal(err)
	}
	deletions := 0
	for ended := false; !ended; {
		switch m := <-advisories; {
		case bytes.Contains(m.Data, []byte("$JS.API.STREAM.INFO.end")):
			ended = true
		case bytes.Contains(m.Data, []byte("$JS.API.STREAM.MSG.DELETE")), bytes.Contains(m.Data, []byte("$JS.API.STREAM.PURGE")):
			deletions++
		}
	}
	if deletions == 0 || deletions > 30 { // the replies of b after its open call are deleted one by one
		t.Errorf("NATS was asked %d times to delete %d records", deletions, done.Records)
	}
	if err := os.Rename(w.folder, w.folder+"-away"); err != nil {
		t.Fatal(err)
	}
	w.open()
	if r, err := w.verify(); err != nil || !r.OK || r.NotShown != done.Records || !slices.Equal(r.Missing, done.Archives) {
		t.Errorf("verify without the files: %+v, %v", r, err)
	}
	key := toolcall.Key{Space: "test", Session: "a"}
	if r, err := w.j.Last(t.Context(), key); err != nil || r.Record == nil {
		t.Errorf("a session without the files: %+v, %v", r, err)
	} else {
		w.bind("a", r.Seq)
	}
}

// TestArchiveOfAFullJournal: a journal that refuses new calls can be archived.
func TestArchiveOfAFullJournal(t *testing.T) {
	w := newSessions(t, bustest.With(func(o *embed.Options) { o.MaxStore = 8 << 20 }))
	must(w.l.Checkpoint(t.Context())) // as an engine does at its start
	fillStore(t, w.j, 400)
	if done := w.archive(); done.Replies != 42 || done.Records != 3*42 {
		t.Errorf("archived %+v", done)
	}
	if r, err := w.verify(); err != nil || !r.OK || r.NotShown != 0 {
		t.Errorf("verify: %+v, %v", r, err)
	}
	w.open()
	w.bind("a", must(w.j.Last(t.Context(), toolcall.Key{Space: "test", Session: "a"})).Seq)
}

// However much was deleted before a kill, the next run continues.
func TestInterruptedArchiveOfSessions(t *testing.T) {
	for _, deleted := range []int{0, 1, 2, 3, 40, 80, 128, 129} {
		t.Run(fmt.Sprint(deleted), func(t *testing.T) {
			w := newSessions(t)
			w.archiveUntil(t, deleted)
			w.open()
			if r, err := w.j.Last(t.Context(), toolcall.Key{Space: "test", Session: "a"}); err != nil || r.Record.By.Name != "ann" {
				t.Errorf("the session: %+v, %v", r, err)
			}
			if done := w.archive(); done.Resumed != uint64(129-deleted) || done.Records != 0 {
				t.Errorf("the next run: %+v", done)
			}
			w.checkSessions()
		})
	}
}

// Nothing is archived that an open call needs or that is not old enough.
func TestArchiveChoosesOnlyWhatIsOver(t *testing.T) {
	w := newArchiving(t)
	child := bustest.CallRecord("child", inReply("child", "x"), message.ToolCallPending, "propose")
	child.Call.Parent = &toolcall.Parent{ParentKey: toolcall.ParentKey{Session: "s1", Reply: "r0", Call: "a"}, Tool: "echo", Runtime: "rt", Depth: 1}
	bustest.MustAppend(t, w.j, child, 0)
	rule := bustest.CallRecord("rule1", inReply("rule", "a"), message.ToolCallPending, "propose")
	seq := bustest.MustAppend(t, w.j, rule, 0)
	rule = bustest.CallRecord("rule2", inReply("rule", "a"), message.ToolCallFinished, "result")
	rule.Call.Remember = []message.PermissionRule{{ToolName: "echo", Behavior: message.BehaviorAllow}}
	bustest.MustAppend(t, w.j, rule, seq)
	interrupted := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "stop", At: bustest.At, Engine: "e1", By: toolcall.Principal{Role: toolcall.RoleRuntime, Name: "rt"}, Reply: &toolcall.ReplyState{Key: inReply("r1", "").ReplyKey(), Phase: toolcall.ReplyInterrupted}}
	bustest.MustAppend(t, w.j, interrupted, 0)
	w.finish(inReply("end", "a"))
	tests := []struct {
		name  string
		r     journal.Retention
		calls int
	}{
		{"too young", journal.Retention{OlderThan: 1 << 40}, 0},
		{"all finished calls", journal.Retention{}, 5}, // of r2, r3 and last
		{"some are kept", journal.Retention{Keep: 2}, 2},
		{"enough room", journal.Retention{MaxBytes: 1 << 40}, 0},
		{"a little room", journal.Retention{MaxBytes: w.stream(bus.StreamName("test")).CachedInfo().State.Bytes - 1}, 2},
	}
	for _, tt := range tests {
		tt.r.DryRun = true
		if done, err := w.l.Archive(t.Context(), tt.r); err != nil || done.Calls != tt.calls {
			t.Errorf("%s: %+v, %v, want %d calls", tt.name, done, err, tt.calls)
		}
	}
	w.archive()
	for _, key := range []toolcall.Key{inReply("r0", "a"), inReply("r1", "a"), inReply("rule", "a"), inReply("child", "x"), inReply("half", "done")} {
		if r, err := w.j.Last(t.Context(), key); err != nil || r.Record == nil {
			t.Errorf("%s was archived: %v", key, err)
		}
	}
	if !slices.ContainsFunc(must(w.j.History(t.Context(), inReply("r2", "a"))), func(r toolcall.JournalEntry) bool { return r.Record != nil }) {
		t.Error("r2 is not in the archive")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Losses that were accepted earlier do not hide the gaps of an archive in the count of records.
func TestArchiveAfterALoss(t *testing.T) {
	w := newArchiving(t)
	for seq := range uint64(5) { // more than the second archive has
		if err := w.stream(bus.StreamName("test")).DeleteMsg(t.Context(), 1+seq); err != nil {
			t.Fatal(err)
		}
	}
	r := w.recovery(t)
	if err := r.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Finish(t.Context(), "ann", "test", "engine-1", 0); err != nil {
		t.Fatal(err)
	}
	w.open()
	w.finish(inReply("r20", "a"))
	w.finish(inReply("r21", "a"))
	for range 2 { // in one process
		w.archive()
		if _, err := w.j.Last(t.Context(), inReply("other", "x")); !errors.Is(err, message.ErrNotFound) {
			t.Errorf("an unknown call after an archive: %v", err)
		}
		w.finish(inReply("r22", "a"))
	}
}

// Without the checkpoints it is unknown which ids were archived, so their loss cannot be accepted
// while there are archives, also if they are in the folder behind an object store.
func TestLostCheckpointsOfArchives(t *testing.T) {
	w := newArchiving(t)
	w.archive()
	js, err := jetstream.New(w.Conn("engine"))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), journal.LedgerName("test")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.recovery(t).Prepare(t.Context()); !errors.Is(err, message.ErrDamaged) || !strings.Contains(err.Error(), "archived") {
			t.Errorf("accepting the loss with %T: %v", w.store, err)
		}
		w.store = journal.NewArchiveBucket(w.Conn("engine"), "test", w.store)
	}
	if err := errors.Join(os.RemoveAll(w.folder), os.Mkdir(w.folder, 0o700), os.WriteFile(filepath.Join(w.folder, "test-000001-00000000.index.new"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := w.recovery(t).Prepare(t.Context()); err != nil {
		t.Errorf("accepting the loss after an archive that was not finished: %v", err)
	}
}

func (a *archiving) recovery(t *testing.T) *journal.Recovery {
	t.Helper()
	r, err := journal.BeginRecovery(t.Context(), a.Conn("engine"), "test", a.Keys(), journal.Options{Archives: a.store})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// If the file of the records is missing or changed while they are being deleted, the error names it
// and what to do, and no more records are deleted. A lost index is made again.
func TestInterruptedArchiveWithoutFiles(t *testing.T) {
	w := newArchiving(t)
	w.archiveUntil(t, 7)
	found, err := filepath.Glob(filepath.Join(w.folder, "*.jsonl.zst"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	whole := must(os.ReadFile(found[0]))
	for code, spoil := range map[error]func() error{
		message.ErrNotFound: func() error { return os.Remove(found[0]) },
		message.ErrDamaged:  func() error { return os.WriteFile(found[0], whole[1:], 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		w.open()
		before := w.records()
		_, err := w.l.Archive(t.Context(), journal.Retention{})
		if !errors.Is(err, code) || !strings.Contains(err.Error(), filepath.Base(found[0])) || !strings.Contains(err.Error(), "journal archive again") {
			t.Errorf("without the file: %v", err)
		}
		if w.records() != before {
			t.Errorf("%d of %d records are left without the file", w.records(), before)
		}
	}
	if err := errors.Join(os.WriteFile(found[0], whole, 0o600), os.Remove(strings.TrimSuffix(found[0], ".jsonl.zst")+".index")); err != nil {
		t.Fatal(err)
	}
	w.open()
	w.archive()
	w.proved(true)
}

// If someone without the key writes to an archived call whose archive is not in this folder, every
// watch continues.
func TestForgedRecordsOfAnArchivedCall(t *testing.T) {
	w := newArchiving(t)
	w.archive()
	head := must(w.j.Head(t.Context()))
	nc := w.Conn("forger")
	for i, tool := range []string{"a", "b"} {
		subject := must(bus.RecordSubject(inReply("r1", "a"), toolcall.Queue{Tool: tool}))
		m := &nats.Msg{Subject: subject.String(), Data: []byte("{}"), Header: nats.Header{}}
		if i > 0 {
			m.Header.Set(bustest.HeaderPrev, "0")
		}
		bustest.Store(t, nc, m)
	}
	for after := head; after < head+2; after++ {
		j := w.Journal("test")
		read, _, err := j.Read(t.Context(), inReply("r1", "a").SessionKey(), after, 100)
		watched := bustest.Watch(t, j, after).Wait(t, "the forged records", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == int(head+2-after) })
		for _, r := range append(read, watched...) {
			if r.Invalid == nil || !strings.Contains(r.Invalid.Error(), "no MAC") {
				t.Errorf("after %d: %+v, want it invalid", after, r)
			}
		}
		if err != nil {
			t.Errorf("Read after %d: %v", after, err)
		}
	}
}
