package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// ErrServiceClosed is the cause with which Close ends waiting requests.
var ErrServiceClosed = errors.New("the service is closing")

const (
	// requestTimeout limits the handling of a request.
	requestTimeout = 30 * time.Second
	// closeGrace is how long Close lets running requests finish.
	closeGrace = 5 * time.Second
	// maxHeld is how long the service holds a request that waits for news.
	maxHeld = 25 * time.Second
)

// ServiceOptions may be left zero.
type ServiceOptions struct {
	// Observer receives all heartbeats. Nil means no observer.
	Observer Observer
	// Auth is how the server authenticates names in subjects, for the record of each
	// vote. Default: AuthSubject, the weakest.
	Auth string
	// Ledger lets auditors read records and proofs: a *journal.Ledger. Without one, they
	// cannot.
	Ledger AuditLedger
	// Keys returns the engines' signing keys for workers. Nil means no keys.
	Keys func() toolcall.KeyRing
	// Logger logs dropped requests. Nil means no log.
	Logger *slog.Logger
	// MaxActs, MaxReads and MaxWork limit the proposals and the decisions (default
	// 64 each), reads (default 1 per processor, at least 2) and requests of workers
	// (default 256) that run at once; a few more wait, and the rest are refused with
	// CodeOverloaded. MaxProposals limits the proposals that run or wait, MaxHeld
	// requests that wait for news, MaxNext worker slots that wait for a task (default
	// 4096 each). One principal can use at most half of each.
	MaxActs, MaxReads, MaxProposals, MaxHeld, MaxWork, MaxNext int
}

// How a name in a subject was authenticated, see [toolcall.Principal]. An engine sees
// only the subject; who may publish on it is up to the server.
const (
	// AuthSubject: the server may let any client use any name, or may require
	// passwords; the engine cannot tell.
	AuthSubject = "nats-subject"
	// AuthJWT: the server requires a signed login whose permissions name the
	// subject.
	AuthJWT = "nats-jwt"
)

// ErrNotTask says that a message of a queue is not one of its tasks.
var ErrNotTask = errors.New("it is not a task of this tool")

// TaskReader reads the tasks of a space for its workers: a *journal.Journal.
type TaskReader interface {
	Space() toolcall.SpaceID
	// TaskForWorker returns the event record that workers get for a message of a queue. Its
	// error wraps ErrNotTask if the message is not a task of the queue.
	TaskForWorker(ctx context.Context, queue toolcall.Queue, task *nats.Msg) (message.RawJSON, error)
}

// Service answers the requests of a space with an engine. Services of one space
// share the requests; one of them answers each.
type Service struct {
	nc      *nats.Conn
	space   toolcall.SpaceID
	surface func(p toolcall.Principal, queue toolcall.Queue) api.Caller
	o       ServiceOptions
	log     *slog.Logger
	pools   capacity.Set         // of the classes of requests
	heard   *capacity.Pool       // of heartbeats
	subs    []*nats.Subscription // besides those of the group
	group   *group
	tasks   TaskReader

	foreign     atomic.Int64 // requests with a foreign reply subject since they were last logged
	foreignTold atomic.Int64 // when they were last logged, in Unix nanoseconds

	// Contexts of requests that act and of requests that wait. They live as long
	// as the service.
	acting, held      context.Context //nolint:containedctx // see above
	stopAct, stopHeld context.CancelCauseFunc
	wg                sync.WaitGroup // requests that run or wait for their turn
	mu                sync.Mutex     // guards closed, and wg.Add against Wait
	closed            bool
	once              sync.Once
}

// Serve answers the requests of a space until Close. tasks is the journal of the space.
// surface returns the engine for a principal, whose name NATS permissions guard. For a
// worker, queue is the queue in its subject, and the surface must refuse to act for any
// other queue.
//
// Requests whose reply subject is not in the inbox of their principal are dropped: NATS
// does not check reply subjects, so such a reply could be a message that the sender is not
// allowed to publish.
func Serve(ctx context.Context, nc *nats.Conn, tasks TaskReader, surface func(p toolcall.Principal, queue toolcall.Queue) api.Caller, o ServiceOptions) (*Service, error) {
	space := tasks.Space()
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	s := &Service{nc: nc, space: space, tasks: tasks, surface: surface, o: o, log: cmp.Or(o.Logger, noLog)}
	s.o.Auth = cmp.Or(o.Auth, AuthSubject)
	s.group = newGroup(s)
	s.acting, s.stopAct = context.WithCancelCause(context.WithoutCancel(ctx))
	s.held, s.stopHeld = context.WithCancelCause(s.acting)
	s.pools, s.heard = o.capacityPools(), capacity.NewPool(observed)
	before := nc.LastError()
	err := s.subscribe(ctx)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, jsapi.FlushTimeout)
		defer cancel()
		err = nc.FlushWithContext(ctx)
	}
	if err != nil {
		s.Close()
		return nil, jsapi.Error("serve", "space "+string(space), err)
	}
	if err := newViolation(nc, before, s.servedSubjects()...); err != nil {
		s.Close()
		return nil, forbiddenError("serve", "engine", err)
	}
	s.group.wg.Go(func() { s.group.run(s.held) })
	return s, nil
}

func (s *Service) subscribe(ctx context.Context) error {
	if err := s.group.start(ctx); err != nil || s.o.Observer == nil {
		return err
	}
	sub, err := s.nc.Subscribe(Subject{Space: s.space, Kind: KindHeartbeat}.String(), s.observeHeartbeat)
	if err == nil {
		err = sub.SetPendingLimits(nats.DefaultSubPendingMsgsLimit, maxPendingBytes)
	}
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}

func (s *Service) servedSubjects() []string {
	var out []string
	for _, sub := range slices.Concat(s.subs, s.group.subs) {
		out = append(out, sub.Subject)
	}
	return out
}

// Close refuses new requests, ends waiting ones, gives the others five seconds and
// waits for all. Refused clients ask another engine. Close may be called again.
func (s *Service) Close() {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.stopHeld(ErrServiceClosed)
		s.pools.Close()
		s.heard.Close()
		s.group.wg.Wait()
		s.group.announcePresence(Presence{Leaving: true})
		ctx, cancel := context.WithTimeout(context.Background(), jsapi.FlushTimeout)
		defer cancel()
		s.finishSubscriptions(ctx, slices.Concat(s.subs, s.group.subs))
		late := time.AfterFunc(closeGrace, func() { s.stopAct(ErrServiceClosed) })
		defer late.Stop()
		s.wg.Wait()
		s.stopAct(ErrServiceClosed)
	})
	s.wg.Wait()
}

// finishSubscriptions ends subscriptions after the requests that the server already sent.
// (The timers of Subscription.Drain fail on fake time.)
func (s *Service) finishSubscriptions(ctx context.Context, subs []*nats.Subscription) {
	if s.nc.IsConnected() {
		_ = s.nc.FlushWithContext(ctx) // fails only if the connection is lost now
	}
	for _, sub := range subs {
		for n, _, err := sub.Pending(); err == nil && n > 0 && sleep.For(ctx, time.Millisecond) == nil; n, _, err = sub.Pending() {
		}
		_ = sub.Unsubscribe() // fails only if the connection is closed already
	}
}

// Observer receives the heartbeats of all workers, including those that another replica
// answers: otherwise this replica could not declare a lease lost.
type Observer interface {
	// ObserveHeartbeat must not block. The worker and its queue are authenticated.
	ObserveHeartbeat(worker string, queue toolcall.Queue, r toolcall.HeartbeatRequest)
	// ObserveWorker must not block. The worker asks for a task of the queue; left is called if it
	// goes while it waits.
	ObserveWorker(worker string, queue toolcall.Queue) (left func())
}

// The operations that the service executes itself, without the engine.
var (
	opNext       = api.Define[NextRequest, NextReply](ofWorkers("next", "next", api.ClassOffer))
	opKeys       = api.Define[KeysRequest, KeysReply](ofWorkers("keys", "next", api.ClassWork))
	opAck        = api.Define[AckRequest, struct{}](ofWorkers("ack", "ack", api.ClassWork))
	opRecords    = api.Define[RecordsRequest, RecordsReply](ofAuditors("records", false))
	opCheckpoint = api.Define[CheckpointRequest, CheckpointReply](ofAuditors("checkpoint", true))
)

func ofWorkers(name, kind string, class api.Class) api.Operation {
	return api.Operation{Name: name, Class: class, Changes: true, Roles: []toolcall.Role{toolcall.RoleWorker}, NATS: map[toolcall.Role]string{toolcall.RoleWorker: kind}}
}

func ofAuditors(name string, changes bool) api.Operation {
	return api.Operation{Name: name, Class: api.ClassRead, Changes: changes, Roles: []toolcall.Role{toolcall.RoleAuditor}, NATS: map[toolcall.Role]string{toolcall.RoleAuditor: "audit"}}
}

// direct executes an operation in the service and sends the reply, but not an error.
type direct func(ctx context.Context, s *Service, who caller, request any, m *nats.Msg) error

var directs = map[string]direct{
	opNext.Name:       serveDirectly(opNext, (*Service).next),
	opKeys.Name:       serveDirectly(opKeys, (*Service).sendKeys),
	opAck.Name:        serveDirectly(opAck, (*Service).ackTask),
	opRecords.Name:    serveDirectly(opRecords, (*Service).auditRecords),
	opCheckpoint.Name: serveDirectly(opCheckpoint, (*Service).auditCheckpoint),
}

func serveDirectly[Req, Rep any](op api.Op[Req, Rep], do func(*Service, context.Context, caller, Req, *nats.Msg) error) direct {
	return func(ctx context.Context, s *Service, who caller, request any, m *nats.Msg) error {
		r, ok := request.(Req)
		if !ok {
			return wrongType(op.Operation, request)
		}
		return do(s, ctx, who, r, m)
	}
}

func wrongType(op *api.Operation, request any) error {
	return &message.Error{Code: message.CodeInternal, Op: op.Name, What: fmt.Sprintf("the request is a %T", request)}
}

// operations has all operations that exist over NATS, by name.
var operations = func() map[string]*api.Operation {
	out := map[string]*api.Operation{}
	for _, op := range append(api.Table(), opNext.Operation, opKeys.Operation, opAck.Operation, opRecords.Operation, opCheckpoint.Operation) {
		if len(op.NATS) > 0 {
			out[op.Name] = op
		}
	}
	return out
}()

// classOf returns the class of an operation. An unknown one counts as a read, which
// cannot displace a decision.
func classOf(name string) api.Class {
	if op, ok := operations[name]; ok {
		return op.Class
	}
	return api.ClassRead
}

// conversation is one kind of request subject with the operations that it accepts.
type conversation struct {
	Row
	ops map[string]*api.Operation
}

// conversations has one entry per kind of request subject, in the order of the
// subject table.
var conversations = func() []conversation {
	var out []conversation
	for _, row := range table {
		if row.Payload != request {
			continue
		}
		c := conversation{row, map[string]*api.Operation{}}
		for _, op := range operations {
			for _, name := range op.NATS {
				if name == row.name() {
					c.ops[op.Name] = op
				}
			}
		}
		out = append(out, c)
	}
	return out
}()

// name returns the word by which operations name a kind of request subject.
func (r Row) name() string {
	if i := strings.LastIndexByte(r.Layout, '.'); strings.HasPrefix(r.Layout, "work.") {
		return r.Layout[i+1:]
	}
	word, _, _ := strings.Cut(r.Layout, ".")
	return word
}

// kindFor returns the kind of subject on which a role sends an operation.
func kindFor(op *api.Operation, role toolcall.Role) (Kind, error) {
	if name, ok := op.NATS[role]; ok {
		for _, c := range conversations {
			if c.name() == name {
				return c.Kind, nil
			}
		}
	}
	return KindInvalid, &message.Error{Code: message.CodeForbidden, Op: op.Name, What: "the role " + string(role) + " cannot do this", Hint: "use a login with another role"}
}

// kindsFor returns the kinds of subject on which a role sends anything.
func kindsFor(role toolcall.Role) []Kind {
	var out []Kind
	for _, c := range conversations {
		for _, op := range c.ops {
			if op.NATS[role] == c.name() {
				out = append(out, c.Kind)
				break
			}
		}
	}
	return out
}

// Operations returns the role for which requests on a kind of subject are executed, and
// their operations in alphabetical order.
func Operations(k Kind) (toolcall.Role, []string) {
	for _, c := range conversations {
		if c.Kind == k {
			return c.As, slices.Sorted(maps.Keys(c.ops))
		}
	}
	return "", nil
}
