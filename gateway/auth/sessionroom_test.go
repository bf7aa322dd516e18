package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
)

// If the table is full, ended sessions are removed first, even if no request has used their
// cookie again. No session in use is ended for them.
func TestEndedSessionsMakeRoom(t *testing.T) {
	s := newSessions(0, false, newSealer([32]byte{}), func(ticket) *gateway.Identity { return nil })
	defer s.close()
	until := time.Now().Add(time.Hour)
	live := s.remember(ticket{ID: "live", Until: until}, gateway.Identity{}, false)
	for i := range maxSessions - 1 {
		s.remember(ticket{ID: fmt.Sprint(i), Until: until}, gateway.Identity{}, true).end()
	}
	s.remember(ticket{ID: "next", Until: until}, gateway.Identity{}, false)
	if hasEnded(live, time.Now()) {
		t.Error("a session in use was ended although others had ended")
	}
	if len(s.seen) != 2 {
		t.Errorf("%d sessions are remembered", len(s.seen))
	}
}

// A request that reads its session just before the logout cannot use it just after the logout.
func TestLogoutBeforeTheSessionIsRemembered(t *testing.T) {
	s := newSessions(0, false, newSealer([32]byte{}), func(ticket) *gateway.Identity { return nil })
	defer s.close()
	until := time.Now().Add(time.Hour)
	s.ended["a"] = until
	if n := s.remember(ticket{ID: "a", Until: until}, gateway.Identity{}, false); !hasEnded(n, time.Now()) || len(s.seen) != 0 {
		t.Errorf("the session is still open: %+v", n.id)
	}
}

// A session ends as soon as its token is revoked.
func TestSessionEndsWithItsIdentity(t *testing.T) {
	s := newSessions(0, false, newSealer([32]byte{}), func(ticket) *gateway.Identity { return nil })
	defer s.close()
	for i := range 100 {
		revoked := make(chan struct{})
		n := s.remember(ticket{ID: fmt.Sprint(i), Until: time.Now().Add(time.Hour)}, gateway.Identity{Revoked: revoked}, false)
		close(revoked)
		if !hasEnded(n, time.Now()) {
			t.Fatal("the session is still open")
		}
	}
}
