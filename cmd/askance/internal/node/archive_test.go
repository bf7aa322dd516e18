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
