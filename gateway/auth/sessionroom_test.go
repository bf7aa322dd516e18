package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
)

// Sessions that are over make room first, also those that no cookie brings back: none that
// is in use ends for them.
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
		t.Error("a session in use was ended for those that are over")
	}
	if len(s.seen) != 2 {
		t.Errorf("%d sessions are remembered", len(s.seen))
	}
}

// A request that looked at its session right before the logout gets none right after it.
func TestLogoutBeforeTheSessionIsRemembered(t *testing.T) {
	s := newSessions(0, false, newSealer([32]byte{}), func(ticket) *gateway.Identity { return nil })
	defer s.close()
	until := time.Now().Add(time.Hour)
	s.ended["a"] = until
	if n := s.remember(ticket{ID: "a", Until: until}, gateway.Identity{}, false); !hasEnded(n, time.Now()) || len(s.seen) != 0 {
		t.Errorf("the session goes on: %+v", n.id)
	}
}

// A session is over at once when its token is revoked.
func TestSessionEndsWithItsIdentity(t *testing.T) {
	s := newSessions(0, false, newSealer([32]byte{}), func(ticket) *gateway.Identity { return nil })
	defer s.close()
	for i := range 100 {
		revoked := make(chan struct{})
		n := s.remember(ticket{ID: fmt.Sprint(i), Until: time.Now().Add(time.Hour)}, gateway.Identity{Revoked: revoked}, false)
		close(revoked)
		if !hasEnded(n, time.Now()) {
			t.Fatal("the session goes on")
		}
	}
}
