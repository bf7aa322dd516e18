package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestResume cuts the stream of a session's events at every place. The parts before and after the
// cut always add up to the whole stream.
func TestResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.A.Ask("s1", "r1", "c1")
	w.A.Approve(gatewaytest.Ann, k)
	w.A.Finished(k)
	var page toolcall.EventsReply
	ann := w.A.HTTP(gatewaytest.Ann)
	w.ok(ann, "GET", "/v1/sessions/s1/events", "", &page)
	n := len(page.Events)
	if n < 5 {
		t.Fatalf("only %d events", n)
	}
	next, end := w.events(ann, "/v1/sessions/s1/events")
	whole := make([]event, n)
	for i := range whole {
		whole[i] = next()
		if whole[i].data != string(page.Events[i].Event) {
			t.Errorf("event %d is %s, want %s", i, whole[i].data, page.Events[i].Event)
		}
	}
	end()
	for cut := range whole[:n-1] {
		next, end := w.events(ann, "/v1/sessions/s1/events", "Last-Event-ID", whole[cut].id)
		rest := make([]event, n-cut-1)
		for i := range rest {
			rest[i] = next()
		}
		end()
		if !slices.Equal(rest, whole[cut+1:]) {
			t.Errorf("after %s: %v; want %v", whole[cut].id, rest, whole[cut+1:])
		}
	}
	// Read live across a restart of the engine, for one reply only.
	next, _ = w.events(ann, "/v1/sessions/s1/events?reply_id=r2", "Last-Event-ID", whole[n-1].id)
	w.A.Restart()
	w.A.Ask("s1", "r1", "c9")
	w.A.Ask("s1", "r2", "c1")
	if e := next(); !strings.Contains(e.data, `"r2"`) {
		t.Errorf("the event is %+v", e)
	}
	w.refused(ann, "GET", "/v1/sessions/s1/events", "", 400, message.CodeInvalid, "Accept", "text/event-stream", "Last-Event-ID", "yesterday")
}

// TestWatch follows the calls of the space.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.A.Ask("s1", "r1", "c1")
	next, _ := w.events(w.A.HTTP(gatewaytest.Ann), "/v1/calls/stream")
	other, _ := w.events(w.B.HTTP(gatewaytest.Ann), "/v1/calls/stream")
	first := change(t, next())
	if first.Call.Key != k || first.Wait == nil || first.Wait.Digest != first.Call.Digest {
		t.Errorf("the open call is streamed as %+v", first)
	}
	for _, n := range []func() event{next, other} {
		if e := n(); e.name != "ready" {
			t.Fatalf("the next event is %+v", e)
		}
	}
	w.A.Reject(gatewaytest.Ann, k, "no")
	for {
		c := change(t, next())
		if c.Call.State != message.ToolCallFinished {
			continue
		}
		if c.By.Name != gatewaytest.Ann || c.Wait != nil {
			t.Errorf("the end is streamed as %+v", c)
		}
		break
	}
	slow := w.A.Propose("s2", "r1", "c1", gatewaytest.Slow, `{}`)
	for e := next(); e.name != "progress"; e = next() {
		if c := change(t, e); c.Call.Key != slow.Key {
			t.Errorf("another call changed: %+v", c)
		}
	}
	w.A.Release()
	for {
		if e := next(); e.name == "call" && change(t, e).Call.State == message.ToolCallFinished {
			break
		}
	}
	k = w.B.Ask("s1", "r1", "c1") // the other space has seen none of this
	if c := change(t, other()); c.Call.Key != k {
		t.Errorf("the other space sees %+v", c)
	}
}

func change(t *testing.T, e event) api.ChangeEvent {
	t.Helper()
	var c api.ChangeEvent
	if err := json.Unmarshal([]byte(e.data), &c); err != nil || e.name != "call" || c.Call == nil {
		t.Fatalf("the event is not a change of a call: %+v: %v", e, err)
	}
	return c
}
