package api

import (
	"container/list"
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Bounds of the stored replies, for all peers together.
const (
	keepFor      = 24 * time.Hour
	keepRequests = 10_000
	keepBytes    = 64 << 20
	maxKeyBytes  = 255
)

// replies stores the replies to requests with an Idempotency-Key. The oldest are
// removed when there are too many: see the package documentation.
type replies struct {
	mu    sync.Mutex
	byKey map[replyKey]*list.Element // of *storedResponse
	order *list.List                 // the oldest first
	bytes int
}

// replyKey names a request: each peer has its own keys.
type replyKey struct {
	space      toolcall.SpaceID
	name, auth string
	key        string
}

type storedResponse struct {
	key  replyKey
	mark [sha256.Size]byte // of method, path, query, formats and body
	at   time.Time
	done chan struct{} // closed when the rest is set
	// status is 0 for a failed request that may be retried.
	status int
	kind   string
	body   []byte
}

func newReplies() *replies {
	return &replies{byKey: map[replyKey]*list.Element{}, order: list.New()}
}

// once carries a request out, or repeats the reply to an earlier one with the same
// Idempotency-Key.
func (k *replies) once(a *ask, body []byte, act func() (any, error)) error {
	key := a.r.Header.Get("Idempotency-Key")
	if key == "" {
		out, err := act()
		if err != nil {
			return err
		}
		return a.reply(http.StatusOK, out)
	}
	if len(key) > maxKeyBytes {
		return &message.Error{Code: message.CodeTooLarge, Op: a.op.ID, What: "the Idempotency-Key is over 255 bytes", Hint: "use a UUID"}
	}
	mine := &storedResponse{
		key:  replyKey{a.p.Space.ID, a.p.Name, a.p.Auth, key},
		mark: sha256.Sum256([]byte(a.r.Method + "\n" + a.r.URL.EscapedPath() + "\n" + a.r.URL.RawQuery + "\n" + a.formats() + "\n" + string(body))),
		at:   time.Now(), done: make(chan struct{}),
	}
	first := k.claim(mine)
	if first == mine {
		return k.carryOut(a, mine, act)
	}
	if first.mark != mine.mark {
		return &message.Error{Code: message.CodeConflict, Op: a.op.ID, What: "this Idempotency-Key was used for another request", Hint: "use a new key for each request"}
	}
	select {
	case <-first.done:
	case <-a.ctx().Done():
		return &message.Error{Code: message.CodeUnavailable, Op: a.op.ID, What: "the first request with this Idempotency-Key is not finished", Hint: "send it again", Err: context.Cause(a.ctx())}
	}
	if first.status == 0 { // it failed for a temporary reason: this is the next attempt
		return k.once(a, body, act)
	}
	a.w.Header().Set("Idempotency-Replayed", "true")
	return gateway.Reply(a.w, first.status, first.kind, first.body)
}

// claim returns the earlier request with the key, or stores this one.
func (k *replies) claim(mine *storedResponse) *storedResponse {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removeOld(mine.at)
	if e, ok := k.byKey[mine.key]; ok {
		if first, ok := e.Value.(*storedResponse); ok {
			return first
		}
	}
	k.byKey[mine.key] = k.order.PushBack(mine)
	return mine
}

// removeOld removes replies that are too old or too many.
func (k *replies) removeOld(now time.Time) {
	for e := k.order.Front(); e != nil; e = k.order.Front() {
		old, ok := e.Value.(*storedResponse)
		if ok && now.Sub(old.at) < keepFor && k.order.Len() < keepRequests && k.bytes < keepBytes {
			return
		}
		k.remove(old)
	}
}

func (k *replies) remove(a *storedResponse) {
	if e, ok := k.byKey[a.key]; ok && e.Value == any(a) {
		k.order.Remove(e)
		delete(k.byKey, a.key)
		k.bytes -= len(a.body)
	}
}

// keep stores a reply for waiting requests, and for later ones unless the request
// was removed meanwhile.
func (k *replies) keep(a *storedResponse, status int, kind string, body []byte) {
	a.status, a.kind, a.body = status, kind, body
	if e, ok := k.byKey[a.key]; ok && e.Value == any(a) {
		k.bytes += len(body)
	}
}

// carryOut carries the request out and stores its reply, even a refusal, unless the next attempt
// may succeed.
func (k *replies) carryOut(a *ask, mine *storedResponse, act func() (any, error)) error {
	var status int
	var kind string
	var body []byte
	defer func() { // even if act panics
		k.mu.Lock()
		defer k.mu.Unlock()
		if status == 0 || status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
			k.remove(mine)
		} else {
			k.keep(mine, status, kind, body)
		}
		close(mine.done)
	}()
	out, err := act()
	if err == nil {
		if kind, body, err = a.encode(out); err != nil {
			return err
		}
		status = http.StatusOK
		return gateway.Reply(a.w, status, kind, body)
	}
	p := gateway.ProblemOf(err)
	status, kind = p.Status, "application/problem+json"
	if body, err = strictjson.Marshal(p); err != nil {
		status = 0
		return err
	}
	body = append(body, '\n')
	return gateway.Reply(a.w, status, kind, body)
}
