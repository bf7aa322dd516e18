package bus

import (
	"context"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

// caller is who sent a request, as the transport vouches for it.
type caller struct {
	principal message.Principal
	lane      message.Lane // of a worker
}

// identify tells who sent the message, if that can be read from its subject.
func (s *Service) identify(role message.Role, m *nats.Msg) (caller, bool) {
	subject, err := ParseSubject(m.Subject)
	if err != nil || subject.Space != s.space {
		return caller{}, false
	}
	name, ok := subject.Who.ID()
	lane, _ := subject.Tool.Lane()
	return caller{message.Principal{Role: role, Name: name, Auth: s.o.Auth}, lane}, ok
}

// ownInbox reports whether the reply subject is below the principal's inbox.
func ownInbox(principal, reply string) bool {
	rest, ok := strings.CutPrefix(reply, InboxPrefix(principal)+".")
	return ok && rest != "" && !strings.ContainsAny(rest, "*> \t\r\n") && !strings.Contains("."+rest+".", "..")
}

// accept takes a request in and has it handled on a goroutine of its own.
func (s *Service) accept(c conversation, m *nats.Msg) {
	who, ok := s.identify(c.role, m)
	ok = ok && (who.lane.Tool != "" || c.role != message.RoleWorker) // a tool whose name cannot be read back has no workers
	if !ok || !ownInbox(who.principal.Name, m.Reply) {
		if m.Reply != "" { // without one it is an engine's own sign of life
			s.log.Warn("dropped a request whose reply subject is not the sender's inbox", "subject", m.Subject, "reply", quote(m.Reply))
		}
		return
	}
	r, err := decodeRequest(m.Data)
	op, known := c.ops[r.Op]
	if err == nil && !known {
		_, ops := Operations(c.kind)
		err = &message.Error{Code: message.CodeInvalid, Op: "request", What: "op " + quote(string(r.Op)) + " is unknown on this subject", Hint: "use one of: " + joinOps(ops)}
	}
	if err != nil {
		s.respond(m, encodeError("request", err, s.most()))
		return
	}
	if !s.enter(op.lane) {
		s.respond(m, encodeError(r.Op, &message.Error{Code: message.CodeUnavailable, Op: string(r.Op), What: "too many requests are held, or the engine is stopping", Hint: "ask again later"}, s.most()))
		return
	}
	go func() {
		defer s.leave(op.lane)
		s.handle(op, who, r, m)
	}()
}

func joinOps(ops []Op) string {
	var b strings.Builder
	for i, op := range ops {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(op))
	}
	return b.String()
}

// enter takes a slot. A full lane makes the subscription wait, and with it the
// clients; held requests are refused instead, for their slots may stay taken.
func (s *Service) enter(l lane) bool {
	if l.holds() {
		select {
		case s.slots[l] <- struct{}{}:
		default:
			return false
		}
	} else {
		select { // cannot block for ever: handlers end by requestTimeout
		case s.slots[l] <- struct{}{}:
		case <-s.held.Done():
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		<-s.slots[l]
		return false
	}
	s.wg.Add(1)
	return true
}

func (s *Service) leave(l lane) {
	<-s.slots[l]
	s.wg.Done()
}

func (s *Service) handle(op operation, who caller, r requestEnvelope, m *nats.Msg) {
	ctx := s.acting
	if op.lane.holds() {
		ctx = s.held
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if op.direct != nil {
		if err := op.direct(ctx, s, who, r.Body, m); err != nil {
			s.respond(m, encodeError(r.Op, err, s.most()))
		}
		return
	}
	b, err := op.run(ctx, s.surface(who.principal, who.lane), r.Op, r.Body, s.most())
	if err != nil {
		b = encodeError(r.Op, err, s.most())
	}
	s.respond(m, b)
}

// most is how large a reply may be.
func (s *Service) most() int { return int(s.nc.MaxPayload()) }

func (s *Service) respond(m *nats.Msg, b []byte) {
	if err := s.nc.Publish(m.Reply, b); err != nil { // the client will ask again
		s.log.Warn("could not answer a request", "subject", m.Subject, "err", err)
	}
}

// observe passes on heartbeats, the ones that other replicas answer, too.
func (s *Service) observe(m *nats.Msg) {
	who, ok := s.identify(message.RoleWorker, m)
	if !ok || m.Reply != "" && !ownInbox(who.principal.Name, m.Reply) {
		return
	}
	r, err := decodeRequest(m.Data)
	if err != nil || r.Op != OpHeartbeat {
		return
	}
	var beat message.HeartbeatRequest
	if decodeBody(r.Op, r.Body, &beat) == nil {
		s.o.Observer.ObserveHeartbeat(who.principal.Name, beat)
	}
}
