package bus

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/internal/capacity"
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
	// flushTimeout limits a round trip to the server.
	flushTimeout = 5 * time.Second
)

// ServiceOptions may be left zero.
type ServiceOptions struct {
	// Observer receives all heartbeats. Nil means no observer.
	Observer Observer
	// Auth is how the server authenticates names in subjects, for the record of each
	// vote. Default: AuthSubject, the weakest.
	Auth string
	// Ledger lets auditors read records and proofs. If nil, they cannot.
	Ledger *Ledger
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
	tasks   codec // expands tasks for workers

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

// Serve answers requests until Close. surface returns the engine for a principal,
// whose name NATS permissions guard. For a worker, queue is the queue in its subject,
// and the surface must refuse to act for any other queue.
//
// Requests whose reply subject is not in the inbox of their principal are dropped: NATS
// does not check reply subjects, so such a reply could be a message that the sender is not
// allowed to publish.
func Serve(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, surface func(p toolcall.Principal, queue toolcall.Queue) api.Caller, o ServiceOptions) (*Service, error) {
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	s := &Service{nc: nc, space: space, surface: surface, o: o, log: cmp.Or(o.Logger, noLog)}
	s.o.Auth = cmp.Or(o.Auth, AuthSubject)
	s.group = newGroup(s)
	s.tasks = codec{space: space, bases: newBases(reader{nc: nc, stream: StreamName(space)})}
	if o.Ledger != nil {
		s.tasks = o.Ledger.j.codec
	}
	s.acting, s.stopAct = context.WithCancelCause(context.WithoutCancel(ctx))
	s.held, s.stopHeld = context.WithCancelCause(s.acting)
	s.pools, s.heard = o.capacityPools(), capacity.NewPool(observed)
	before := nc.LastError()
	err := s.subscribe(ctx)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		err = nc.FlushWithContext(ctx)
	}
	if err != nil {
		s.Close()
		return nil, apiError("serve", "space "+string(space), err)
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
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
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
		for n, _, err := sub.Pending(); err == nil && n > 0 && sleepFor(ctx, time.Millisecond); n, _, err = sub.Pending() {
		}
		_ = sub.Unsubscribe() // fails only if the connection is closed already
	}
}
