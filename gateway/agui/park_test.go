package agui

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestParkRecord: a record reads back as it was written. A record is rejected if it would let an
// answer to one approval request count for another.
func TestParkRecord(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	event := message.RequestEventID("ev", digest)
	good := func() *park {
		return &park{V: 1, Run: "r", Reply: "reply", Through: 7, Tools: []string{"x"}, Asked: []asked{
			{ID: event + "/call", Call: "call", Digest: digest, Expires: "2026-11-21T00:00:00Z"},
			{ID: event + "/a/b/run-2", Call: "a/b", Digest: digest},
			{ID: "r/slow/running", Call: "slow"},
		}}
	}
	read := func(p *park) *park {
		t.Helper()
		raw, err := p.event()
		if err != nil {
			t.Fatal(err)
		}
		ev, err := message.DecodeEvent(raw)
		if err != nil {
			t.Fatal(err)
		}
		return parkOf(ev.(*message.Custom))
	}
	if got := read(good()); !reflect.DeepEqual(got, good()) || !got.equals(good()) {
		t.Errorf("read back as %+v", got)
	}
	for name, change := range map[string]func(*park){
		"a later version":          func(p *park) { p.V = 2 },
		"no reply":                 func(p *park) { p.Reply = "" },
		"another call":             func(p *park) { p.Asked[0].Call = "other" },
		"a prefix of the call":     func(p *park) { p.Asked[0].Call = "cal" },
		"another approval request": func(p *park) { p.Asked[0].Digest = "sha256:" + strings.Repeat("0b", 32) },
		"no digest in the id":      func(p *park) { p.Asked[0].ID = "ev/call" },
		"no call in the id":        func(p *park) { p.Asked[0].ID = event },
	} {
		p := good()
		change(p)
		if got := read(p); got != nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
	value, err := strictjson.Object([]byte(`{"v":1,"run_id":"r","reply_id":"x","through":0,"more":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if parkOf(&message.Custom{Name: parkEvent, Value: value}) != nil || parkOf(&message.Custom{Name: "other", Value: value}) != nil {
		t.Error("a record with unknown members or another name was accepted")
	}
}

// Events that wait for a slow client are not sent after its credentials have ended.
func TestNoEventsAfterTheEnd(t *testing.T) {
	gone := errors.New("revoked")
	ctx, end := context.WithCancelCause(t.Context())
	end(gone)
	batch := gateway.EventBatch{Events: []toolcall.SequencedEvent{{Seq: 1, Event: message.RawJSON(`{}`)}}}
	if err := (&follower{}).take(ctx, batch); !errors.Is(err, gone) {
		t.Errorf("took an event: %v", err)
	}
}
