package bus

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

const (
	// serviceQueue is the queue group in which engines share requests. Later
	// generations append their number after a hyphen.
	serviceQueue = "askance"
	// beatEvery is how often an engine reports to the others that it runs;
	// beatAlone applies while it knows no other engine.
	beatEvery = time.Second
	beatAlone = 10 * time.Second
	// silentAfter is how long a member may be silent before the others leave it
	// behind.
	silentAfter = 3 * time.Second
	// joinTimeout limits the query for the current generation.
	joinTimeout = time.Second
	// maxGeneration keeps the numbers exact in every JSON reader.
	maxGeneration = 1 << 53
)

// group is a service's membership in the queue group of its space. NATS sends requests
// to a hung member while its connection is open, and no member can remove another.
// The running members therefore move to the group of the next generation.
//
// One goroutine owns all fields except deadline.
type group struct {
	s          *Service
	subject    string               // of this engine's presence
	id         string               // of this service
	generation uint64               // of the queue group
	moved      time.Time            // when this engine moved to the generation; zero: at the start
	subs       []*nats.Subscription // in the queue group
	peers      map[string]time.Time // other engines, and when each was last heard of
	heard      chan *nats.Msg       // their presence messages
	deadline   atomic.Int64         // see isLate
	wg         sync.WaitGroup
}

func newGroup(s *Service) *group {
	who, ok := strings.CutPrefix(s.nc.Opts.InboxPrefix, InboxPrefix(""))
	if token, err := ParseToken(who); err == nil && ok {
		who = string(token)
	} else {
		who = string(Encode("engine"))
	}
	return &group{
		s: s, id: nuid.Next(), subject: Subject{Space: s.space, Kind: KindPresence, Who: Token(who)}.String(),
		peers: map[string]time.Time{}, heard: make(chan *nats.Msg, 64),
	}
}

// start joins the current group.
func (g *group) start(ctx context.Context) error {
	g.joinGeneration(ctx)
	sub, err := g.s.nc.Subscribe(Subject{Space: g.s.space, Kind: KindPresence}.String(), func(m *nats.Msg) {
		select {
		case g.heard <- m:
		default: // the next beat says the same
		}
	})
	if err != nil {
		return err
	}
	g.s.subs = append(g.s.subs, sub)
	return g.subscribe()
}

// run keeps the membership until ctx ends.
func (g *group) run(ctx context.Context) {
	connected := g.s.nc.StatusChanged(nats.CONNECTED)
	defer g.s.nc.RemoveStatusListener(connected)
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-g.heard:
			if g.hearEngine(ctx, m) {
				tick.Reset(beatEvery)
			}
			continue
		case <-connected:
			g.restartSilence() // nothing could be heard while disconnected
		case <-tick.C:
			g.findAway(ctx)
		}
		g.announcePresence(Presence{})
		tick.Reset(g.nextBeat())
	}
}

// nextBeat returns the time until the next beat and sets the deadline after which the
// others have left this engine behind.
func (g *group) nextBeat() time.Duration {
	switch {
	case g.isLate():
		return 0
	case len(g.peers) == 0:
		g.deadline.Store(0)
		return beatAlone
	}
	g.deadline.Store(time.Since(epoch).Nanoseconds() + silentAfter.Nanoseconds())
	return beatEvery
}

// epoch makes monotonic times comparable as numbers.
var epoch = time.Now()

// isLate reports whether this process was paused for so long that other engines
// answer in its place.
func (g *group) isLate() bool {
	d := g.deadline.Load()
	return d != 0 && time.Since(epoch).Nanoseconds() > d
}

// findAway finds out whether this engine or another one was away.
func (g *group) findAway(ctx context.Context) {
	if g.isLate() {
		g.s.log.Warn("this engine was paused for some seconds: it drops its waiting requests, which other engines answered")
		for _, sub := range g.subs {
			_ = sub.Unsubscribe() // fails only if the connection is closed
		}
		g.subs = nil
		g.restartSilence()
		g.joinGeneration(ctx)
		g.deadline.Store(0)
		if err := g.subscribe(); err != nil {
			g.s.log.Error("cannot take requests again", "err", err)
		}
		return
	}
	if !g.s.nc.IsConnected() {
		g.restartSilence()
		return
	}
	next := g.generation
	for id, at := range g.peers {
		if time.Since(at) <= silentAfter {
			continue
		}
		delete(g.peers, id)
		// An engine that ran when this generation began may have joined it
		// silently.
		if g.moved.Sub(at) < 2*beatEvery {
			g.s.log.Warn("another engine is silent: it hangs or was killed; requests now go to the other engines", "engine", errtext.Quote(id))
			next = g.generation + 1
		}
	}
	g.moveTo(ctx, next)
}

// restartSilence counts the silence of the others from now.
func (g *group) restartSilence() {
	for id := range g.peers {
		g.peers[id] = time.Now()
	}
}

// joinGeneration asks running engines for the current generation. If there are some but none
// answers, it begins a generation without them.
func (g *group) joinGeneration(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	body, err := strictjson.Marshal(Presence{V: ProtocolVersion, Engine: g.id, Generation: g.generation})
	if err != nil {
		return // cannot happen
	}
	m, err := g.s.nc.RequestWithContext(ctx, g.subject, body)
	switch {
	case err == nil:
		if p, ok := decodePresence(m); ok {
			g.peers[p.Engine] = time.Now()
			g.generation = max(g.generation, p.Generation)
		}
	case errors.Is(err, context.DeadlineExceeded):
		g.generation = max(g.generation+1, uint64(time.Now().UnixMilli()))
	}
}

func decodePresence(m *nats.Msg) (Presence, bool) {
	var p Presence
	err := strictjson.UnmarshalOpen(m.Data, &p)
	return p, err == nil && p.Engine != "" && p.Generation < maxGeneration
}

// hearEngine notes another engine. It reports whether that is the only other one.
func (g *group) hearEngine(ctx context.Context, m *nats.Msg) (first bool) {
	who, ok := g.s.identifyCaller(toolcall.RoleEngine, m)
	p, valid := decodePresence(m)
	if !ok || !valid || p.Engine == g.id {
		return false
	}
	if p.Leaving {
		delete(g.peers, p.Engine)
		return false
	}
	_, known := g.peers[p.Engine]
	g.peers[p.Engine] = time.Now()
	if p.Generation > g.generation {
		g.moveTo(ctx, p.Generation)
	}
	switch {
	case m.Reply != "" && isOwnInbox(who.principal.Name, m.Reply):
		g.publish(m.Reply, Presence{})
	case !known || p.Generation < g.generation:
		g.announcePresence(Presence{})
	}
	return !known && len(g.peers) == 1
}

// moveTo moves the service to the queue group of another generation. The service still
// answers the requests that it received in the old group.
func (g *group) moveTo(ctx context.Context, to uint64) {
	if to == g.generation {
		return
	}
	old := g.subs
	g.generation, g.moved = to, time.Now()
	if err := g.subscribe(); err != nil {
		g.s.log.Error("cannot take requests in another queue group", "err", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	g.s.finishSubscriptions(ctx, old)
}

// subscribe joins the queue groups of the current generation.
func (g *group) subscribe() error {
	g.subs = nil
	name := serviceQueue
	if g.generation > 0 {
		name += "-" + strconv.FormatUint(g.generation, 10)
	}
	for _, c := range conversations {
		sub, err := g.s.nc.QueueSubscribe(Subject{Space: g.s.space, Kind: c.Kind}.String(), name, func(m *nats.Msg) {
			if !g.isLate() {
				g.s.acceptMessage(c, m)
			}
		})
		if err == nil {
			err = sub.SetPendingLimits(nats.DefaultSubPendingMsgsLimit, maxPendingBytes)
		}
		if err != nil {
			return err
		}
		g.subs = append(g.subs, sub)
	}
	return nil
}

// announcePresence tells all engines that this one runs.
func (g *group) announcePresence(p Presence) { g.publish(g.subject, p) }

func (g *group) publish(to string, p Presence) {
	p.V, p.Engine, p.Generation = ProtocolVersion, g.id, g.generation
	body, err := strictjson.Marshal(p)
	if err == nil {
		err = g.s.nc.Publish(to, body)
	}
	if err != nil { // the next beat says the same
		g.s.log.Debug("cannot report to the other engines", "err", err)
	}
}
