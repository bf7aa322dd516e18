package e2e_test

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/toolcall"
)

// sighting is an event in the journal or on the wire for which a test waits.
type sighting struct {
	seen <-chan struct{} // closed when the event was seen
	n    atomic.Int32    // how often it was seen; only counted on the wire
}

// onRequest returns the sighting of a request of that kind to an engine about the call, or about
// the reply if key names no call.
func (w *world) onRequest(kind bus.Kind, key toolcall.Key) *sighting {
	w.t.Helper()
	seen := make(chan struct{})
	s := &sighting{seen: seen}
	var once sync.Once
	sub, err := w.conn.Subscribe(bus.Subject{Space: space, Kind: kind}.String(), func(m *nats.Msg) {
		names := func(id string) bool { return id == "" || strings.Contains(string(m.Data), strconv.Quote(id)) }
		if names(string(key.Session)) && names(string(key.Reply)) && names(string(key.Call)) {
			s.n.Add(1)
			once.Do(func() { close(seen) })
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	// Flush fails if the connection has not come back yet after a kill.
	eventually(w.t, "subscribe to requests", func() bool { return w.conn.Flush() == nil })
	w.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return s
}
