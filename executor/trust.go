package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// KeySource knows which engine keys are to be trusted now. keyfile.Follower is
// one. Keys is called from one goroutine at a time and must return soon after
// ctx ends; on an error the worker goes on with the keys that it has.
type KeySource interface {
	Keys(ctx context.Context) (toolcall.KeySet, error)
}

const (
	// keysEvery is how old the worker's keys may be when it looks at a task: a
	// retired key is trusted no longer than that.
	keysEvery = 10 * time.Second
	// keysSoon is how old they must be to be fetched for a task of an unknown
	// key: so that strangers' tasks cause no storm of requests.
	keysSoon = time.Second
)

// trust is the set of engine keys that a worker believes.
type trust struct {
	source KeySource
	limit  time.Duration // of one request

	mu    sync.Mutex // guards what follows, and lets one caller fetch
	keys  toolcall.KeySet
	asked time.Time
}

// forGrant is forKey for the key that signed a grant, if there is one.
func (t *trust) forGrant(ctx context.Context, g *toolcall.Grant) (toolcall.KeySet, error) {
	if g == nil {
		return t.forKey(ctx, "")
	}
	return t.forKey(ctx, g.KeyID)
}

// forKey gives the keys to check a signature with. It fetches them again if they
// are old or lack the key id. err is why they could not be fetched.
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

// ApproverSource knows whom the worker believes; called for every task, from
// several goroutines. On an error the worker rejects the task.
type ApproverSource func() (toolcall.ApproverList, error)

// checkSignatures checks the approvers' own signatures, if the worker wants them. The
// grant has been verified.
func (s ApproverSource) checkSignatures(f *toolcall.EventRecord, now time.Time) error {
	if s == nil {
		return nil
	}
	list, err := s()
	if err != nil {
		return fmt.Errorf("this worker cannot look up whom to believe: %w", err)
	}
	return list.Verify(f.Call.Attempt.Grant, *f.Call.Request, now)
}
