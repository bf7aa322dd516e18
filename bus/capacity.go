package bus

import (
	"bytes"
	"errors"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/nats-io/nats.go"
)

const (
	// maxPendingBytes limits what the client library queues for one subscription.
	// Beyond it the library drops messages of all senders.
	maxPendingBytes = 256 << 20
	// opHintBytes is how far into a request its op is searched.
	opHintBytes = 64
)

// observed limits the heartbeats that this engine hears for another; one is read
// after the other.
var observed = capacity.Limit{Run: 1, Running: 1 << 20, Stay: 8192, Bytes: 32 << 20}

// pools creates the capacity of each class.
func (o ServiceOptions) pools() capacity.Set {
	limits := capacity.Default()
	for c, n := range map[api.Class]int{api.ClassDecide: o.MaxActs, api.ClassRead: o.MaxReads, api.ClassWork: o.MaxWork} {
		if n > 0 {
			l := limits[c]
			l.Run = n
			limits[c] = l
		}
	}
	if n := o.MaxHeld; n > 0 {
		l := limits[api.ClassWait]
		l.Stay = n
		limits[api.ClassWait] = l
	}
	if n := o.MaxNext; n > 0 {
		l := limits[api.ClassOffer]
		l.Run, l.Stay = n, n
		limits[api.ClassOffer] = l
	}
	return capacity.NewSet(limits)
}

// hintClass guesses the class of a request without decoding it. A request without
// its op at the start counts as a read.
func hintClass(data []byte) api.Class {
	head := data[:min(len(data), opHintBytes)]
	_, rest, ok := bytes.Cut(head, []byte(`"op"`))
	if !ok {
		return api.ClassRead
	}
	rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, " :\t\r\n"), []byte(`"`))
	op, _, end := bytes.Cut(rest, []byte(`"`))
	if !ok || !end {
		return api.ClassRead
	}
	return classOf(string(op))
}

// submit queues a request, or refuses it now.
func (s *Service) submit(class api.Class, c conversation, who caller, m *nats.Msg) {
	if !s.begin() {
		s.refuseLoad(m, capacity.ErrClosed)
		return
	}
	err := s.pools[class].Submit(who.principal.Name, len(m.Data), func(place *capacity.Place, err error) {
		defer s.wg.Done()
		if err != nil {
			s.refuseLoad(m, err)
			return
		}
		defer place.Leave()
		s.run(class, c, who, m, place)
	})
	if err != nil {
		s.wg.Done()
		s.refuseLoad(m, err)
	}
}

// begin counts a request unless the service is closed.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Add(1)
	}
	return !s.closed
}

// refuseLoad tells the sender to try again.
func (s *Service) refuseLoad(m *nats.Msg, why error) {
	e := &message.Error{Code: message.CodeUnavailable, Op: "request", What: "the engine is stopping", Hint: "try again; another engine answers"}
	if !errors.Is(why, capacity.ErrClosed) {
		e.What, e.Hint = "the engine is overloaded: "+why.Error(), "send fewer requests at once, and try again later"
	}
	s.respond(m, encodeError("request", e, s.maxReply()))
}
