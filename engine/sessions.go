package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// sessions binds each session to the runtime that used it first.
type sessions struct{ *core }

// bindSession makes the session this runtime's at its first use, and refuses
// every other runtime from then on.
func (s *sessions) bindSession(ctx context.Context, by toolcall.Principal, session toolcall.Key) error {
	owner := s.view.Runtime(session)
	if owner == "" {
		binding := store.Entity[string]{
			Key:   session,
			Known: func() (string, uint64, bool) { return "", 0, true }, // the write tells whether it was bound
			Read:  func(ctx context.Context) (string, uint64, error) { return s.store.LastRuntime(ctx, session) },
		}
		bound, _, err := store.Update(ctx, s.store, "propose", binding, func(_ context.Context, bound string) (*toolcall.EventRecord, error) {
			if bound != "" {
				return nil, errNoChange
			}
			f := s.store.NewRecord(by, stamp().At)
			f.Session = &toolcall.SessionState{Key: session, Runtime: by.Name}
			return f, nil
		})
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errNoChange):
			return opError("propose", err)
		}
		owner = bound
	}
	if owner != by.Name {
		return foreignSessionError(session.Session)
	}
	return nil
}

// checkSession keeps runtimes to the sessions that are bound to them. An unknown
// session belongs to no runtime.
func (s *sessions) checkSession(ctx context.Context, op string, by toolcall.Principal, id message.SessionID) error {
	if by.Role != toolcall.RoleRuntime {
		return nil
	}
	session := toolcall.Key{Space: s.space, Session: id}
	owner := s.view.Runtime(session)
	if owner == "" { // perhaps only the view has not seen it yet
		var err error
		if owner, _, err = s.store.LastRuntime(ctx, session); err != nil {
			return opError(op, err)
		}
	}
	if owner != "" && owner != by.Name {
		return opError(op, foreignSessionError(id))
	}
	return nil
}

func foreignSessionError(s message.SessionID) error {
	return &message.Error{Code: message.CodeForeign, Op: "propose", What: "the session " + string(s) + " belongs to another runtime", Hint: "use a session of your own"}
}
