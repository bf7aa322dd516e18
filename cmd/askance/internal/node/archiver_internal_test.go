package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus/journal"
)

// The log of an engine that archives names the destinations that keep calls in the journal.
func TestArchiverReportsHeldBack(t *testing.T) {
	var log bytes.Buffer
	a := archiver{log: slog.New(slog.NewTextHandler(&log, nil))}
	a.reportHeldBack([]journal.HeldBack{{Destination: journal.Destination{Name: "bot", Waiting: 7}, Replies: 3}})
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "askance webhooks forget") || !strings.Contains(text, "destination=bot replies=3 waiting=7") {
		t.Errorf("logged %s", text)
	}
}
