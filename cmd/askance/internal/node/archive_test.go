package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// An engine archives while it runs: it refuses the ids, shows the calls, and takes others.
func TestArchiveWhileRunning(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	var log bytes.Buffer // read when the engine has stopped
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Archiving = node.Archiving{Retention: journal.Retention{OlderThan: time.Millisecond, By: "engine", Reason: "test"}, Every: time.Second}
	n := start(t, cfg)
	bot := n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	call := func(i int) (toolcall.ProposeReply, error) {
		return bot.Propose(t.Context(), toolcall.ProposeRequest{V: 1, Session: "s", Reply: message.ReplyID(fmt.Sprint("r", i)), Calls: []message.ToolCallBlock{{ID: "c", Name: "upper", Input: `{"a":"b"}`}}})
	}
	first := toolcall.Key{Space: "default", Session: "s", Reply: "r0", Call: "c"}
	if _, err := call(0); err != nil {
		t.Fatal(err)
	}
	if r, err := bot.Wait(t.Context(), toolcall.WaitRequest{V: 1, Session: "s", Reply: "r0"}); err != nil || !r.Done { // later, the first archive would not have it
		t.Fatalf("%+v, %v", r, err)
	}
	for i, end := 1, time.Now().Add(2*time.Minute); n.Ledger().LastArchive().IsZero(); i++ {
		if _, err := call(i); err != nil {
			t.Fatalf("a call while the engine archives: %v", err)
		}
		if time.Now().After(end) {
			t.Fatal("nothing was archived")
		}
		select { // the next call is not one of the archive
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	if r, err := call(0); err != nil || r.Calls[0].Result == nil { // the engine remembers it
		t.Errorf("an archived call again: %+v, %v", r, err)
	}
	if h, err := n.Journal().History(t.Context(), first); err != nil || len(h) < 2 {
		t.Errorf("an archived call has %d records, %v", len(h), err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "level=ERROR") {
		t.Errorf("the log has errors:\n%s", text)
	}
	cfg.Archiving = node.Archiving{}
	n = start(t, cfg) // which completes the archive if it was interrupted
	bot = n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	if _, err := call(0); !errors.Is(err, message.ErrArchived) {
		t.Errorf("an archived call again, after a restart: %v", err)
	}
	if _, err := call(1_000_000); err != nil {
		t.Errorf("a new call after a restart: %v", err)
	}
}

// The key to which an operator rotates while an archive is made signs its announcement: the old
// one may be retired by then, and engines may have signed with the new one.
func TestArchiveWhileKeysChange(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	bot := n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	for _, reply := range []message.ReplyID{"r1", "r2"} {
		if _, err := bot.Propose(t.Context(), toolcall.ProposeRequest{V: 1, Session: "s", Reply: reply, Calls: []message.ToolCallBlock{{ID: "c", Name: "upper", Input: `{}`}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := bot.Wait(t.Context(), toolcall.WaitRequest{V: 1, Session: "s", Reply: reply}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	var keys *keyfile.Keys
	change := sync.OnceFunc(func() {
		var err error
		if keys, err = keyfile.Change(t.Context(), cfg.Dir.Keys(), func(k *keyfile.Keys) (*keyfile.Keys, error) { return k.Rotated(time.Now()) }); err != nil {
			t.Error(err)
		}
	})
	done, err := node.Damaged{Dir: cfg.Dir, Space: cfg.Space}.Archive(t.Context(), journal.Retention{By: "ann", Progress: func(string, uint64, uint64) { change() }})
	if err != nil || done.Calls != 1 {
		t.Fatalf("archived %+v, %v", done, err)
	}
	if public, err := keyfile.LoadPublic(cfg.Dir.PublicKeys()); err != nil || public[keys.SigningID()] == nil {
		t.Errorf("audits know %v, %v, not the key %s", public, err, keys.SigningID())
	}
	js, err := jetstream.New(start(t, cfg).Conn())
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := js.Stream(t.Context(), journal.LedgerName(cfg.Space))
	if err != nil {
		t.Fatal(err)
	}
	for seq := ledger.CachedInfo().State.FirstSeq; ; seq++ {
		m, err := ledger.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		s, err := proof.DecodeSealed(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if s.Checkpoint.Archive == nil {
			continue
		}
		if got := s.Checkpoint.KeyID; got != keys.SigningID() {
			t.Errorf("the announcement is signed by %s, want %s", got, keys.SigningID())
		}
		return
	}
}

// An anchor whose lock cannot be written serves an engine, and an archiver as well.
func TestArchiveWithoutALock(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Anchor = filepath.Join(t.TempDir(), "anchor")
	if err := os.Mkdir(cfg.Anchor+".lock", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := start(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := (node.Damaged{Dir: cfg.Dir, Space: cfg.Space, Anchor: cfg.Anchor}).Archive(t.Context(), journal.Retention{By: "ann"}); err != nil {
		t.Error(err)
	}
}

// Keys that change while the server of an archiver starts stay published.
func TestArchiveAfterKeysChanged(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	if err := start(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		keys, changed := archiveAndRotate(t, cfg)
		public, err := keyfile.LoadPublic(cfg.Dir.PublicKeys())
		if err == nil && public[keys.SigningID()] != nil {
			return
		}
		if info, serr := os.Stat(cfg.Dir.PublicKeys()); serr != nil || info.ModTime().After(changed) {
			t.Fatalf("workers know %v, %v, %v, not the key %s", public, err, serr, keys.SigningID())
		}
	}
	t.Error("the keys never changed before they were published")
}

// archiveAndRotate archives and changes the keys as soon as the server of the archiver starts.
func archiveAndRotate(t *testing.T, cfg node.Config) (keys *keyfile.Keys, changed time.Time) {
	t.Helper()
	done := make(chan error)
	archived := make(chan struct{})
	go func() {
		var err error
		for !embed.InUse(cfg.Dir.Store()) {
			select {
			case <-time.After(time.Millisecond):
			case <-archived: // or it failed before
				done <- errors.New("the keys were not changed while it ran")
				return
			}
		}
		keys, err = keyfile.Change(t.Context(), cfg.Dir.Keys(), func(k *keyfile.Keys) (*keyfile.Keys, error) { return k.Rotated(time.Now()) })
		changed = time.Now()
		done <- err
	}()
	_, err := node.Damaged{Dir: cfg.Dir, Space: cfg.Space}.Archive(t.Context(), journal.Retention{By: "ann"})
	close(archived)
	if err = errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	return keys, changed
}

// An embedded engine reads archives that the command has put into the object store of its server.
func TestArchiveInTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	for _, id := range []message.CallID{"c1", "c2"} {
		propose(t, n, id, "upper", `{"a":"b"}`)
	}
	bot := n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	if _, err := bot.Wait(t.Context(), toolcall.WaitRequest{V: 1, Session: "s", Reply: "r"}); err != nil {
		t.Fatal(err)
	}
	other := toolcall.ProposeRequest{V: 1, Session: "s", Reply: "other", Calls: []message.ToolCallBlock{{ID: "c3", Name: "upper", Input: `{}`}}}
	if _, err := bot.Propose(t.Context(), other); err != nil { // the last record of a journal is not archived
		t.Fatal(err)
	}
	keys, err := keyfile.Load(cfg.Dir.Keys())
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), n.Conn(), "default", keys, journal.Options{Archives: journal.NewArchiveBucket(n.Conn(), "default", nil)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: "e", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := l.Archive(t.Context(), journal.Retention{By: "ann"}); err != nil || done.Calls != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = start(t, cfg)
	bot = n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	again := toolcall.ProposeRequest{V: 1, Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "c1", Name: "upper", Input: `{"a":"b"}`}}}
	if _, err := bot.Propose(t.Context(), again); !errors.Is(err, message.ErrArchived) {
		t.Errorf("an archived call again: %v", err)
	}
	again.Reply = "third"
	if _, err := bot.Propose(t.Context(), again); err != nil {
		t.Errorf("a new call: %v", err)
	}
}
