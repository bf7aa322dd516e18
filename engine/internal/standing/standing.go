package standing

import (
	"context"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Policy says for which calls a standing approval answers.
type Policy interface {
	Covers(ctx context.Context, r permission.Request, rules []message.PermissionRule) error
	Values(ctx context.Context, r permission.Request, paths []string) (map[string]string, error)
}

// Journal is what the list of uses is read from.
type Journal interface {
	History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error)
}

// Parts are what Approvals works with.
type Parts struct {
	Space   toolcall.SpaceID
	Self    toolcall.Principal // the engine
	Policy  Policy
	Judge   *decide.Judge
	Journal Journal
	Store   *store.Store
	View    *view.View
	Log     *slog.Logger
	// Snapshot is a call as it is decided now, with these rules of its session.
	Snapshot func(c *toolcall.Call, rules []message.PermissionRule) decide.Snapshot
	// Update moves a call on.
	Update func(ctx context.Context, op string, key toolcall.Key, by toolcall.Principal, change store.Change) (*toolcall.Call, error)
}

// Approvals are the standing approvals of a space, as one engine works with them.
type Approvals struct{ Parts }

// New makes the standing approvals of a space.
func New(p Parts) *Approvals { return &Approvals{p} }

// request is what the policy is asked about a call with the rules of its session.
func (s *Approvals) request(c *toolcall.Call) permission.Request {
	return s.Judge.Request(s.Snapshot(c, s.View.Rules(c.SessionKey())))
}

// now is the time as the journal keeps it: without a monotonic reading.
func now() time.Time { return time.Now().UTC().Round(0) }
