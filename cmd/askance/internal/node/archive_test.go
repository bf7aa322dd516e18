package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// An engine archives while it runs: it refuses the ids, shows the calls, and takes others.
func TestArchiveWhileRunning(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	var log bytes.Buffer // read when the engine has stopped
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Archiving = node.Archiving{Retention: bus.Retention{OlderThan: time.Millisecond, By: "engine", Reason: "test"}, Every: time.Second}
	n := start(t, cfg)
	bot := n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	call := func(i int) (toolcall.ProposeReply, error) {
		return bot.Propose(t.Context(), toolcall.ProposeRequest{V: 1, Session: "s", Reply: message.ReplyID(fmt.Sprint("r", i)), Calls: []message.ToolCallBlock{{ID: "c", Name: "upper", Input: `{"a":"b"}`}}})
	}
	first := toolcall.Key{Space: "default", Session: "s", Reply: "r0", Call: "c"}
	for i, end := 0, time.Now().Add(2*time.Minute); n.Ledger().LastArchive().IsZero(); i++ {
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
	j, err := bus.OpenJournal(t.Context(), n.Conn(), "default", keys, bus.JournalOptions{Archives: bus.NewArchiveBucket(n.Conn(), "default", nil)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := bus.OpenLedger(t.Context(), j, bus.LedgerOptions{Engine: "e", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := l.Archive(t.Context(), bus.Retention{By: "ann"}); err != nil || done.Calls != 2 {
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
