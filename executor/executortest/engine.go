package executortest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Engine is the engine's side of the worker protocol for one tool, in memory:
// a queue of tasks and the answers to a worker's requests. It decides
// nothing and times nothing; the test says what is offered, cancelled and
// taken away. It implements executor.Transport. All methods may be called from
// several goroutines at once.
//
// It works on fake time, inside a testing/synctest bubble, as well as on real
// time.
type Engine struct {
	tool string
	key  ed25519.PrivateKey

	mu        sync.Mutex // guards what follows
	replyKey  ed25519.PrivateKey
	forge     func(*toolcall.StartReply)
	terms     toolcall.StartReply
	ahead     time.Duration // of the engine's clock
	faults    func(Request) Fault
	errors    func(Request) *message.Error
	calls     map[toolcall.Key]*state
	queue     []*toolcall.EventRecord
	requests  []Request
	listeners map[int]func(toolcall.HeartbeatRequest, string)
	serial    int
	changed   chan struct{} // closed and replaced whenever something changes
}

// state is what the engine knows of one call.
type state struct {
	attempt   int
	claim     string
	nonce     string // of the grant that was offered last
	refused   string
	notBegun  []string
	cancel    bool
	reason    string
	result    *message.ToolResultBlock
	late      []message.ToolResultBlock
	delivered int
	acks      int
	releases  []time.Duration
}

// NewEngine makes an engine with a key of its own, a lease of 15 s, heartbeats
// every 5 s and no deadline.
func NewEngine(tool string) *Engine {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return &Engine{
		tool: tool, key: key, replyKey: key,
		terms:     toolcall.StartReply{LeaseMS: 15_000, HeartbeatMS: 5_000},
		calls:     make(map[toolcall.Key]*state),
		listeners: make(map[int]func(toolcall.HeartbeatRequest, string)),
		changed:   make(chan struct{}),
	}
}

// Keys has the engine's public key.
func (e *Engine) Keys() toolcall.KeySet {
	return toolcall.NewKeySet(e.key.Public().(ed25519.PublicKey))
}

// SignRepliesAs has start replies signed with the key of another engine from now
// on, as after a rotation.
func (e *Engine) SignRepliesAs(other *Engine) { e.update(func() { e.replyKey = other.key }) }

// SignReply signs a start reply again, after a test has changed it. It panics when
// the reply has no canonical form.
func (e *Engine) SignReply(r *toolcall.StartReply) {
	if err := r.Sign(e.key); err != nil {
		panic("executortest: sign start reply: " + err.Error())
	}
}

// Forge changes signed start replies from now on; nil ends that. f is called
// with the engine locked and must not call it.
func (e *Engine) Forge(f func(*toolcall.StartReply)) { e.update(func() { e.forge = f }) }

// Terms changes the lease, heartbeat and deadline that starts are answered with
// from now on.
func (e *Engine) Terms(r toolcall.StartReply) { e.update(func() { e.terms = r }) }

// Ahead sets the engine's clock ahead of the worker's.
func (e *Engine) Ahead(d time.Duration) { e.update(func() { e.ahead = d }) }

// Offer puts a task on the queue and makes its attempt the present one.
// Offering one again is a redelivery.
func (e *Engine) Offer(f *toolcall.EventRecord) {
	e.update(func() {
		e.queue = append(e.queue, f)
		if f != nil && f.Call != nil {
			s := e.state(f.Call.Key)
			if g := f.Call.Attempt.Grant; g != nil && f.Call.Attempt.Number >= s.attempt {
				s.nonce = g.Nonce
			}
			if f.Call.Attempt.Number > s.attempt {
				s.attempt, s.claim, s.cancel = f.Call.Attempt.Number, "", false
			}
		}
	})
}

// Forget makes the present attempt look unstarted, as no honest engine does.
func (e *Engine) Forget(k toolcall.Key) {
	e.update(func() { s := e.state(k); s.claim, s.result = "", nil })
}

// Cancel asks the owner of the call's attempt to stop, with the next heartbeat
// and, if shortcut is set, at once as well.
func (e *Engine) Cancel(k toolcall.Key, reason string, shortcut bool) {
	var r toolcall.HeartbeatRequest
	e.update(func() {
		s := e.state(k)
		s.cancel, s.reason = true, reason
		r = toolcall.HeartbeatRequest{V: 1, Key: k, Attempt: s.attempt, Claim: s.claim}
	})
	if shortcut && r.Claim != "" {
		e.Shortcut(r, reason)
	}
}

// Shortcut sends a cancel outside the heartbeats, as it is: the worker has to
// know its own.
func (e *Engine) Shortcut(r toolcall.HeartbeatRequest, reason string) {
	e.mu.Lock()
	tell := slices.Collect(maps.Values(e.listeners))
	e.mu.Unlock()
	for _, f := range tell {
		f(r, reason)
	}
}

// Supersede makes the present attempt stale: the worker that runs it is too late.
func (e *Engine) Supersede(k toolcall.Key) {
	e.update(func() {
		s := e.state(k)
		s.attempt, s.claim = s.attempt+1, ""
	})
}

// Wait waits for the call's result, or for its refusal by the worker, which
// is the error.
func (e *Engine) Wait(ctx context.Context, k toolcall.Key) (message.ToolResultBlock, error) {
	var res message.ToolResultBlock
	var refused string
	err := e.until(ctx, func() bool {
		s := e.state(k)
		if s.result != nil {
			res = *s.result
		}
		refused = s.refused
		return s.result != nil || refused != ""
	})
	if err == nil && refused != "" {
		err = fmt.Errorf("the worker refused %s: %s", k, refused)
	}
	return res, err
}

// until waits until cond holds. cond is called with the engine locked and must
// only look.
func (e *Engine) until(ctx context.Context, cond func() bool) error {
	for {
		e.mu.Lock()
		ok, changed := cond(), e.changed
		e.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Call is what became of a call, for a test to look at.
type Call struct {
	Claim     string   // of the present attempt; "" before a worker started it
	Refused   string   // why the worker refused it
	NotBegun  []string // why attempts were given back, one text each
	Result    *message.ToolResultBlock
	Late      []message.ToolResultBlock // results that did not count
	Delivered int                       // how often a task of it was handed out
	Acks      int
	Releases  []time.Duration
}

// Call looks at one call.
func (e *Engine) Call(k toolcall.Key) Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.state(k)
	return Call{
		Claim: s.claim, Refused: s.refused, NotBegun: slices.Clone(s.notBegun), Result: s.result, Late: slices.Clone(s.late),
		Delivered: s.delivered, Acks: s.acks, Releases: slices.Clone(s.releases),
	}
}

// update changes something under the lock and wakes who waits for it.
func (e *Engine) update(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	close(e.changed)
	e.changed = make(chan struct{})
}

// state is the call's, made at first sight. The caller holds the lock.
func (e *Engine) state(k toolcall.Key) *state {
	s := e.calls[k]
	if s == nil {
		s = &state{}
		e.calls[k] = s
	}
	return s
}
