package enginetest

import (
	"slices"
	"sync"

	"github.com/askance-dev/askance/message"
)

// hub carries signals between the engines of a world, as a bus would: a
// heartbeat that one of them sees reaches the others.
type hub struct {
	mu       sync.Mutex // guards all below
	replicas []*replica
	hints    []*message.Call
	cancels  []cancelled
	progress []message.ProgressRequest
}

type cancelled struct {
	worker string
	beat   message.HeartbeatRequest
	reason string
}

func (h *hub) join(r *replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replicas = append(h.replicas, r)
}

func (h *hub) leave(r *replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replicas = slices.DeleteFunc(h.replicas, func(o *replica) bool { return o == r })
}

func (h *hub) others(r *replica) []*replica {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.replicas, r) {
		return nil // it is dead
	}
	return slices.DeleteFunc(slices.Clone(h.replicas), func(o *replica) bool { return o == r })
}

// cancelsFor gives the cancels that were sent for a call.
func (h *hub) cancelsFor(key message.Key) []cancelled {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.cancels), func(c cancelled) bool { return c.beat.Key != key })
}

func (h *hub) progressOf(key message.Key) []message.ProgressRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.progress), func(p message.ProgressRequest) bool { return p.Key != key })
}

// signals is one engine's end of the hub.
type signals struct {
	hub *hub
	r   *replica
}

func (s *signals) Hint(c *message.Call) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.hints = append(s.hub.hints, c)
}

func (s *signals) Cancel(_ message.Lane, worker string, b message.HeartbeatRequest, reason string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.cancels = append(s.hub.cancels, cancelled{worker, b, reason})
}

func (s *signals) Beat(_, engine string, b message.HeartbeatRequest) {
	for _, o := range s.hub.others(s.r) {
		o.ObserveHeartbeat(engine, b)
	}
}

func (s *signals) Progress(_ *message.Call, p message.ProgressRequest) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.progress = append(s.hub.progress, p)
}
