package bus

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// caller is the sender of a request, whose name NATS has checked.
type caller struct {
	principal toolcall.Principal
	queue     toolcall.Queue // of a worker
}

// identifyCaller reads the sender from the subject of a message.
func (s *Service) identifyCaller(role toolcall.Role, m *nats.Msg) (caller, bool) {
	subject, err := ParseSubject(m.Subject)
	if err != nil || subject.Space != s.space {
		return caller{}, false
	}
	name, ok := subject.Who.ID()
	queue, _ := subject.Tool.Queue()
	return caller{toolcall.Principal{Role: role, Name: name, Auth: s.o.Auth}, queue}, ok
}

func isOwnInbox(principal, reply string) bool {
	rest, ok := strings.CutPrefix(reply, InboxPrefix(principal)+".")
	return ok && len(reply) <= jsapi.MaxSubjectBytes && rest != "" && !strings.ContainsAny(rest, "*> \t\r\n") && !strings.Contains("."+rest+".", "..")
}

// warnOfForeignReply logs at most one line a second, because any client can send
// such requests at any rate.
func (s *Service) warnOfForeignReply(m *nats.Msg) {
	n, now, last := s.foreign.Add(1), time.Now().UnixNano(), s.foreignTold.Load()
	if last != 0 && now-last < int64(time.Second) || !s.foreignTold.CompareAndSwap(last, now) {
		return
	}
	s.foreign.Add(-n)
	s.log.Warn("dropped requests whose reply subject is not the sender's inbox", "count", n, "last_subject", m.Subject, "last_reply", errtext.Quote(m.Reply))
}

// acceptMessage admits a request by its subject, its size and its first bytes. It never
// blocks, because all other senders wait behind it.
func (s *Service) acceptMessage(c conversation, m *nats.Msg) {
	who, ok := s.identifyCaller(c.As, m)
	ok = ok && (who.queue.Tool != "" || c.As != toolcall.RoleWorker) // a tool with a hashed name has no workers
	if !ok || !isOwnInbox(who.principal.Name, m.Reply) {
		if m.Reply != "" { // without one it is an engine's own heartbeat
			s.warnOfForeignReply(m)
		}
		return
	}
	if n := len(m.Data); n > toolcall.MaxRequestBytes {
		s.sendBytes(m, encodeError("request", tooLargeRequest("request", n), s.maxReply()))
		return
	}
	// The library's own message keeps all later ones of its queue in memory.
	s.queueRequest(guessClass(m.Data), c, who, &nats.Msg{Subject: m.Subject, Reply: m.Reply, Header: m.Header, Data: m.Data, Sub: m.Sub})
}

// run decodes and executes a request. class is the class whose capacity place belongs to.
func (s *Service) run(class api.Class, c conversation, who caller, m *nats.Msg, place *capacity.Place) {
	r, err := decodeRequest(m.Data)
	op, known := c.ops[r.Op]
	if err == nil && !known {
		_, ops := Operations(c.Kind)
		err = &message.Error{Code: message.CodeInvalid, Op: "request", What: "op " + errtext.Quote(r.Op) + " is unknown on this subject", Hint: "use one of: " + strings.Join(ops, ", ")}
	}
	if err != nil {
		s.sendBytes(m, encodeError("request", err, s.maxReply()))
		return
	}
	if op.Class != class {
		place.Leave()
		s.queueRequest(op.Class, c, who, m)
		return
	}
	s.handleRequest(op, who, r.Body, m, place)
}

func (s *Service) handleRequest(op *api.Operation, who caller, body []byte, m *nats.Msg, place *capacity.Place) {
	ctx := s.acting
	if op.Class.Holds() {
		ctx = s.held
	}
	ctx = toolcall.WithTrace(capacity.With(ctx, place), toolcall.ParseTrace(jsapi.OnlyHeader(m.Header, toolcall.TraceHeader)))
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := s.executeRequest(ctx, op, who, body, m); err != nil {
		s.sendBytes(m, encodeError(op.Name, err, s.maxReply()))
	}
}

// executeRequest executes a request and sends the reply. It returns errors without sending
// them.
func (s *Service) executeRequest(ctx context.Context, op *api.Operation, who caller, body []byte, m *nats.Msg) error {
	request, err := decodeBody(op, body)
	if err == nil {
		err = op.Check(request)
	}
	if err != nil {
		return err
	}
	if do, ok := directs[op.Name]; ok {
		return do(ctx, s, who, request, m)
	}
	request = op.Hold(request, maxHeld.Milliseconds())
	engine := s.surface(who.principal, who.queue)
	for {
		reply, err := engine.Call(ctx, op, request)
		if err != nil {
			return err
		}
		if err = s.sendReply(m, op.Name, reply); err == nil {
			return nil
		}
		smaller, ok := op.Halve(request, reply)
		if !ok {
			return err
		}
		request = smaller
	}
}

func (s *Service) maxReply() int { return int(s.nc.MaxPayload()) }

func (s *Service) sendReply(m *nats.Msg, op string, body any) error {
	b, err := encodeReply(op, body, s.maxReply())
	if err == nil {
		s.sendBytes(m, b)
	}
	return err
}

func (s *Service) sendBytes(m *nats.Msg, b []byte) {
	if err := s.nc.Publish(m.Reply, b); err != nil { // the client asks again
		s.log.Warn("cannot answer a request", "subject", m.Subject, "err", err)
	}
}

// observeHeartbeat passes on heartbeats, including those that other replicas answer. It
// drops those that a worker sends beyond its share.
func (s *Service) observeHeartbeat(m *nats.Msg) {
	who, ok := s.identifyCaller(toolcall.RoleWorker, m)
	if !ok || m.Reply != "" && !isOwnInbox(who.principal.Name, m.Reply) || len(m.Data) > toolcall.MaxRequestBytes {
		return
	}
	if !s.beginRequest() {
		return
	}
	err := s.heard.Submit(who.principal.Name, len(m.Data), func(place *capacity.Place, err error) {
		defer s.wg.Done()
		if err != nil {
			return
		}
		defer place.Leave()
		s.hearWorker(who, m.Data)
	})
	if err != nil {
		s.wg.Done()
	}
}

func (s *Service) hearWorker(who caller, data []byte) {
	r, err := decodeRequest(data)
	if err != nil || r.Op != api.Heartbeat.Name {
		return
	}
	request, err := decodeBody(api.Heartbeat.Operation, r.Body)
	if beat, ok := request.(toolcall.HeartbeatRequest); ok && err == nil {
		s.o.Observer.ObserveHeartbeat(who.principal.Name, who.queue, beat)
	}
}

const (
	// maxPendingBytes limits what the client library queues for one subscription.
	// Beyond it the library drops messages of all senders.
	maxPendingBytes = 256 << 20
	// opHintBytes is how much of a request is searched for its op.
	opHintBytes = 64
)

// observed limits the heartbeats that this engine observes while another one answers them;
// they are read one after the other.
var observed = capacity.Limit{Run: 1, Running: 1 << 20, Stay: 8192, Bytes: 32 << 20}

func (o ServiceOptions) capacityPools() capacity.Set {
	limits := capacity.Default()
	set := func(c api.Class, run, stay int) {
		l := limits[c]
		l.Run, l.Stay = cmp.Or(max(0, run), l.Run), cmp.Or(max(0, stay), l.Stay)
		limits[c] = l
	}
	set(api.ClassPropose, o.MaxActs, o.MaxProposals)
	set(api.ClassDecide, o.MaxActs, 0)
	set(api.ClassRead, o.MaxReads, 0)
	set(api.ClassWork, o.MaxWork, 0)
	set(api.ClassWait, 0, o.MaxHeld)
	set(api.ClassOffer, o.MaxNext, o.MaxNext)
	return capacity.NewSet(limits)
}

// guessClass guesses the class of a request without decoding it. A request without
// its op at the start counts as a read.
func guessClass(data []byte) api.Class {
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

// queueRequest queues a request, or refuses it at once.
func (s *Service) queueRequest(class api.Class, c conversation, who caller, m *nats.Msg) {
	if !s.beginRequest() {
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

// beginRequest counts a request unless the service is closed.
func (s *Service) beginRequest() bool {
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
		e.Code, e.What, e.Hint = message.CodeOverloaded, "the engine is overloaded: "+why.Error(), "try again in a moment, and send fewer requests at once"
	}
	s.sendBytes(m, encodeError("request", e, s.maxReply()))
}
