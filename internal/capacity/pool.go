// Package capacity divides what a server can do at once: between classes of operations, and
// within a class between the principals that send requests.
//
// Reading a long list must never delay a decision, and new proposals must never delay a
// response or a result, so each class has its own limits. One principal may use at most half
// of each limit, and principals with waiting requests take turns. A request beyond a limit is
// refused at once: no caller of this package ever blocks on a full class.
package capacity

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/message/api"
)

// The reasons why a request is refused.
var (
	// ErrFull: the class, or the principal's part of it, is full.
	ErrFull = errors.New("too many requests of this kind are waiting")
	// ErrLate: the request waited so long that its sender has sent it again.
	ErrLate = errors.New("the request waited too long for its turn")
	// ErrClosed: the pool is closed.
	ErrClosed = errors.New("the server is stopping")
)

// MaxWait is how long a request may wait for its turn.
const MaxWait = 5 * time.Second

// Pool is the capacity of one class. Its methods may be called from many goroutines.
type Pool struct {
	limit   Limit
	runners runners

	mu     sync.Mutex // guards all below, and what users and places hold
	closed bool
	load
	users map[string]*user
	turns []*user // users with waiting places, the next one first
}

// user is one principal that has places in the pool.
type user struct {
	name string
	load
	waiting []*Place // oldest first
	inTurns bool
}

// load is what a pool or one of its users occupies of each number of the limit.
type load struct{ running, runBytes, staying, bytes int }

// Place is the right of one request to be in the pool.
type Place struct {
	pool  *Pool
	user  *user
	size  int // of the request
	bytes int // that it holds
	state state
	until time.Time   // when waiting ends; zero for never
	start func(error) // called once, with pool.mu held: must not block
}

type state int

const (
	waiting state = iota
	running
	resting
	gone
)

// NewPool makes the capacity of one class.
func NewPool(l Limit) *Pool {
	return &Pool{limit: l, runners: runners{next: make(chan func()), idle: make(chan struct{}, maxIdle), closed: make(chan struct{})}, users: map[string]*user{}}
}

// part is how much of a limit one principal may use.
func part(n int) int { return (n + 1) / 2 }

// Submit asks for a place for a request of a principal that holds that many bytes. It never
// blocks. When the request's turn comes, run is called in another goroutine with the place,
// which run must leave. If run is called with an error, the turn never comes and there is no
// place.
func (p *Pool) Submit(principal string, bytes int, run func(*Place, error)) error {
	var place *Place
	_, err := p.add(principal, bytes, func(made *Place) { place = made }, func(err error) {
		if err != nil {
			place = nil
		}
		p.runners.run(func() { run(place, err) })
	})
	return err
}

// Enter waits for a place, which the caller must leave.
func (p *Pool) Enter(ctx context.Context, principal string, bytes int) (*Place, error) {
	turn := make(chan error, 1)
	place, err := p.add(principal, bytes, nil, func(err error) { turn <- err })
	if err != nil {
		return nil, err
	}
	if err := place.await(ctx, turn); err != nil {
		return nil, err
	}
	return place, nil
}

// add puts a waiting place into the pool and gives turns. It calls made before start may be
// called.
func (p *Pool) add(principal string, bytes int, made func(*Place), start func(error)) (*Place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	u := p.users[principal]
	if u == nil {
		u = &user{name: principal}
	}
	if p.staying >= p.limit.Stay || u.staying >= part(p.limit.Stay) ||
		p.bytes+bytes > p.limit.Bytes || u.bytes+bytes > part(p.limit.Bytes) {
		return nil, ErrFull
	}
	p.users[principal] = u
	place := &Place{pool: p, user: u, size: bytes, until: time.Now().Add(MaxWait), start: start}
	if made != nil {
		made(place)
	}
	p.staying++
	u.staying++
	place.hold(bytes)
	p.queue(place)
	p.giveTurns()
	return place, nil
}

// queue adds a place to the waiting ones. p.mu is held.
func (p *Pool) queue(place *Place) {
	u := place.user
	place.state = waiting
	u.waiting = append(u.waiting, place)
	if !u.inTurns {
		u.inTurns = true
		p.turns = append(p.turns, u)
	}
}

// fits reports whether one more request may run within these limits. A request larger than
// the limit runs alone.
func (l load) fits(run, bytes, size int) bool {
	return l.running < run && (l.running == 0 || l.runBytes+size <= bytes)
}

// giveTurns starts waiting places while there is capacity. p.mu is held. It skips users that
// already run their part; there are few of them, because each runs about half.
func (p *Pool) giveTurns() {
	for i := 0; i < len(p.turns) && p.running < p.limit.Run; {
		u := p.turns[i]
		if len(u.waiting) > 0 {
			size := u.waiting[0].size
			if !p.fits(p.limit.Run, p.limit.Running, size) {
				return // the next turn is this one's
			}
			if !u.fits(part(p.limit.Run), part(p.limit.Running), size) {
				i++
				continue
			}
		}
		p.turns = append(p.turns[:i], p.turns[i+1:]...)
		u.inTurns = false
		if len(u.waiting) == 0 {
			continue
		}
		place := u.waiting[0]
		u.waiting[0] = nil
		if u.waiting = u.waiting[1:]; len(u.waiting) == 0 {
			u.waiting = nil
		} else {
			u.inTurns = true
			p.turns = append(p.turns, u)
		}
		if !place.until.IsZero() && time.Now().After(place.until) {
			p.remove(place)
			place.start(ErrLate)
			continue
		}
		place.state = running
		place.count(1)
		place.start(nil)
	}
}

// remove removes a place from the pool's counts. p.mu is held.
func (p *Pool) remove(place *Place) {
	u := place.user
	if place.state == running {
		place.count(-1)
	}
	place.state = gone
	p.staying--
	u.staying--
	place.hold(-place.bytes)
	if u.staying == 0 {
		delete(p.users, u.name)
	}
}

// Close refuses the waiting requests and all later ones.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.runners.closed)
	}
	for _, u := range p.turns {
		for _, place := range u.waiting {
			p.remove(place)
			place.start(ErrClosed)
		}
		u.waiting, u.inTurns = nil, false
	}
	p.turns = nil
}

// Leave ends the place. It may be called again.
func (p *Place) Leave() {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	if p.state == gone {
		return
	}
	if p.state == waiting {
		p.user.waiting = slices.DeleteFunc(p.user.waiting, func(other *Place) bool { return other == p })
	}
	p.pool.remove(p)
	p.pool.giveTurns()
}

// Hold counts n more bytes against the class until the place is left. It never refuses,
// because the bytes already exist.
func (p *Place) Hold(n int) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	if p.state != gone {
		p.hold(n)
	}
}

func (p *Place) hold(n int) {
	p.bytes += n
	p.pool.bytes += n
	p.user.bytes += n
}

// count adds the place to the running ones (1), or removes it (-1).
func (p *Place) count(n int) {
	for _, l := range [...]*load{&p.pool.load, &p.user.load} {
		l.running += n
		l.runBytes += n * p.size
	}
}

// Rest lets other requests run while this one waits for something else. It keeps its place in
// the pool.
func (p *Place) Rest() {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	if p.state != running {
		return
	}
	p.state = resting
	p.count(-1)
	p.pool.giveTurns()
}

// Resume waits for a turn after Rest.
func (p *Place) Resume(ctx context.Context) error {
	turn := make(chan error, 1)
	p.pool.mu.Lock()
	if p.state != resting {
		p.pool.mu.Unlock()
		return nil
	}
	if p.pool.closed {
		p.pool.mu.Unlock()
		return ErrClosed
	}
	p.until, p.start = time.Time{}, func(err error) { turn <- err }
	p.pool.queue(p)
	p.pool.giveTurns()
	p.pool.mu.Unlock()
	return p.await(ctx, turn)
}

// await waits for the place's turn; on an error the place is left.
func (p *Place) await(ctx context.Context, turn <-chan error) error {
	select {
	case err := <-turn:
		return err
	case <-ctx.Done():
		p.Leave()
		return context.Cause(ctx)
	}
}

type placeKey struct{}

// With puts the place of a request into its context.
func With(ctx context.Context, p *Place) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// Rest lets the place of ctx rest until resume is called. Without a place, both do nothing.
func Rest(ctx context.Context) (resume func() error) {
	p, ok := ctx.Value(placeKey{}).(*Place)
	if !ok {
		return func() error { return nil }
	}
	p.Rest()
	return func() error { return p.Resume(ctx) }
}

// Set is one pool for each class.
type Set map[api.Class]*Pool

// NewSet makes the pools of all classes.
func NewSet(limits map[api.Class]Limit) Set {
	s := Set{}
	for c, l := range limits {
		s[c] = NewPool(l)
	}
	return s
}

// Close closes all pools.
func (s Set) Close() {
	for _, p := range s {
		p.Close()
	}
}

// maxIdle is how many goroutines of a pool wait for their next request.
const maxIdle = 64

// runners run requests in goroutines that are reused, because a new goroutine first has to
// grow its stack.
type runners struct {
	next   chan func()
	idle   chan struct{} // has an element for each waiting goroutine
	closed chan struct{} // closed to end waiting goroutines
}

// run never blocks.
func (r runners) run(f func()) {
	select {
	case r.next <- f:
	default:
		go r.work(f)
	}
}

func (r runners) work(f func()) {
	for {
		f()
		select {
		case r.idle <- struct{}{}:
		default:
			return
		}
		select {
		case f = <-r.next:
			<-r.idle
		case <-r.closed:
			return
		}
	}
}

// Limit bounds one class. One principal may use half of each number.
type Limit struct {
	Run     int // requests that run at once
	Running int // bytes of requests that run at once: large ones use the processor
	Stay    int // requests that wait, run or rest at the same time
	Bytes   int // bytes of these requests, and of replies that a peer has not read
}

const mib = 1 << 20

// Default returns the limits of each class. Reads use the processor, so few run at once: a
// decision then waits for few of them.
func Default() map[api.Class]Limit {
	procs := runtime.GOMAXPROCS(0)
	running := max(2, procs) * mib
	return map[api.Class]Limit{
		api.ClassStop:    {Run: 32, Running: running, Stay: 1024, Bytes: 16 * mib},
		api.ClassPropose: {Run: 64, Running: running, Stay: 4096, Bytes: 64 * mib},
		api.ClassDecide:  {Run: 64, Running: running, Stay: 4096, Bytes: 64 * mib},
		api.ClassWork:    {Run: 256, Running: running, Stay: 8192, Bytes: 64 * mib},
		api.ClassRead:    {Run: max(2, procs), Running: running, Stay: 1024, Bytes: 64 * mib},
		api.ClassWait:    {Run: max(4, 2*procs), Running: running, Stay: 4096, Bytes: 64 * mib},
		api.ClassOffer:   {Run: 4096, Running: running, Stay: 4096, Bytes: 16 * mib},
	}
}
