package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// KeySource returns the engine keys to trust now. keyfile.Follower implements it. Keys is
// called from one goroutine at a time and must return soon after ctx ends; after an error
// the worker keeps using the keys that it has.
type KeySource interface {
	Keys(ctx context.Context) (toolcall.KeySet, error)
}

const (
	// keysEvery is the maximum age of the worker's keys when it checks a task: a retired
	// key is trusted no longer than that.
	keysEvery = 10 * time.Second
	// keysSoon is the minimum age at which keys are fetched again for an unknown key, so
	// that forged tasks cause no storm of requests.
	keysSoon = time.Second
)

// trust is the set of engine keys that a worker trusts.
type trust struct {
	source KeySource
	limit  time.Duration // of one request

	mu    sync.Mutex // guards what follows; only its holder fetches
	keys  toolcall.KeySet
	asked time.Time
}

// forGrant is forKey for the key of a grant, which may be nil.
func (t *trust) forGrant(ctx context.Context, g *toolcall.Grant) (toolcall.KeySet, error) {
	if g == nil {
		return t.forKey(ctx, "")
	}
	return t.forKey(ctx, g.KeyID)
}

// forKey returns the keys to check a signature with. It fetches them again if they are old
// or lack the key id. If that fails, it returns the old keys and the error.
func (t *trust) forKey(ctx context.Context, id string) (keys toolcall.KeySet, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.source == nil {
		return t.keys, nil
	}
	age := time.Since(t.asked)
	unknown := id != "" && t.keys[id] == nil
	if age < keysSoon || age < keysEvery && !unknown {
		return t.keys, nil
	}
	ctx, stop := context.WithTimeout(ctx, t.limit)
	defer stop()
	fresh, err := t.source.Keys(ctx)
	t.asked = time.Now()
	if err == nil {
		t.keys = fresh
	}
	return t.keys, err
}

// ApproverSource returns the approvers whose signatures the worker trusts. It is called
// for every task, from several goroutines. After an error the worker rejects the task.
type ApproverSource func() (toolcall.ApproverList, error)

// checkSignatures checks the approvers' own signatures, if the worker requires them. The
// grant was already verified.
func (s ApproverSource) checkSignatures(f *toolcall.EventRecord, now time.Time) error {
	if s == nil {
		return nil
	}
	list, err := s()
	if err != nil {
		return fmt.Errorf("this worker cannot read its list of trusted approvers: %w", err)
	}
	return list.Verify(f.Call.Attempt.Grant, *f.Call.Request, now)
}
