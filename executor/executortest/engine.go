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

// Engine is the engine's side of the worker protocol for one tool, in memory: a queue of
// tasks and the answers to a worker's requests. It decides nothing and has no timers; the
// test offers, cancels and supersedes attempts. It implements executor.Transport. All
// methods are safe for concurrent use.
//
// It works both on fake time, inside a testing/synctest bubble, and on real time.
type Engine struct {
	tool string
	key  ed25519.PrivateKey

	mu        sync.Mutex // guards the fields below
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

// state is the engine's state of one call.
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

// NewEngine returns an engine with a new key, a lease of 15 s, heartbeats every 5 s and no
// deadline.
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

// Keys returns the engine's public key.
func (e *Engine) Keys() toolcall.KeySet {
	return toolcall.NewKeySet(e.key.Public().(ed25519.PublicKey))
}

// SignRepliesAs signs start replies with the key of another engine from now on, as after a
// rotation.
func (e *Engine) SignRepliesAs(other *Engine) { e.update(func() { e.replyKey = other.key }) }

// SignReply signs a start reply again after a test has changed it. It panics if the reply
// has no canonical form.
func (e *Engine) SignReply(r *toolcall.StartReply) {
	if err := r.Sign(e.key); err != nil {
		panic("executortest: sign start reply: " + err.Error())
	}
}

// Forge makes f change signed start replies from now on; nil ends that. f is called
// with the engine locked and must not call it.
func (e *Engine) Forge(f func(*toolcall.StartReply)) { e.update(func() { e.forge = f }) }

// Terms changes the lease, heartbeat and deadline in replies to starts from now on.
func (e *Engine) Terms(r toolcall.StartReply) { e.update(func() { e.terms = r }) }

// Ahead sets the engine's clock ahead of the worker's.
func (e *Engine) Ahead(d time.Duration) { e.update(func() { e.ahead = d }) }

// Offer puts a task on the queue and makes its attempt the current one.
// Offering a task again is a redelivery.
func (e *Engine) Offer(rec *toolcall.EventRecord) {
	e.update(func() {
		e.queue = append(e.queue, rec)
		if rec != nil && rec.Call != nil {
			s := e.state(rec.Call.Key)
			if g := rec.Call.Attempt.Grant; g != nil && rec.Call.Attempt.Number >= s.attempt {
				s.nonce = g.Nonce
			}
			if rec.Call.Attempt.Number > s.attempt {
				s.attempt, s.claim, s.cancel = rec.Call.Attempt.Number, "", false
			}
		}
	})
}

// Forget makes the current attempt look unstarted, which an honest engine never does.
func (e *Engine) Forget(k toolcall.Key) {
	e.update(func() { s := e.state(k); s.claim, s.result = "", nil })
}

// Cancel asks the owner of the call's attempt to stop, with the reply to the next heartbeat
// and, if shortcut is set, also at once.
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

// Shortcut sends a cancel message without checking it: the worker has to recognize its own
// attempts.
func (e *Engine) Shortcut(r toolcall.HeartbeatRequest, reason string) {
	e.mu.Lock()
	tell := slices.Collect(maps.Values(e.listeners))
	e.mu.Unlock()
	for _, f := range tell {
		f(r, reason)
	}
}

// Supersede makes the current attempt stale: the worker that runs it is too late.
func (e *Engine) Supersede(k toolcall.Key) {
	e.update(func() {
		s := e.state(k)
		s.attempt, s.claim = s.attempt+1, ""
	})
}

// Wait waits for the call's result, or for the worker's refusal, which it returns as an
// error.
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

// until waits until cond returns true. cond is called with the engine locked and must
// change nothing.
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

// Call is the state of a call, for a test to inspect.
type Call struct {
	Claim     string   // of the current attempt; "" before a worker started it
	Refused   string   // why the worker refused it
	NotBegun  []string // why attempts were returned, one text each
	Result    *message.ToolResultBlock
	Late      []message.ToolResultBlock // results that did not count
	Delivered int                       // how often one of its tasks was delivered
	Acks      int
	Releases  []time.Duration
}

// Call returns the state of a call.
func (e *Engine) Call(k toolcall.Key) Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.state(k)
	return Call{
		Claim: s.claim, Refused: s.refused, NotBegun: slices.Clone(s.notBegun), Result: s.result, Late: slices.Clone(s.late),
		Delivered: s.delivered, Acks: s.acks, Releases: slices.Clone(s.releases),
	}
}

// update runs f with the engine locked and wakes all waiters.
func (e *Engine) update(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	close(e.changed)
	e.changed = make(chan struct{})
}

// state returns the state of a call, and creates it if needed. The caller holds the lock.
func (e *Engine) state(k toolcall.Key) *state {
	s := e.calls[k]
	if s == nil {
		s = &state{}
		e.calls[k] = s
	}
	return s
}
