package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
)

// Bounds of sessions.
const (
	maxSessions   = 10_000
	maxOfOne      = 50 // of one person; the oldest goes
	sessionLife   = 12 * time.Hour
	sessionCookie = "askance-session"
)

// sessions are log-ins of browsers. They live in memory: a restart of the server
// ends them. What a browser holds is a random number that says nothing. Methods
// may be called from many goroutines.
type sessions struct {
	life   time.Duration
	secure bool // cookies go over TLS alone

	mu  sync.Mutex // guards what follows
	all map[[sha256.Size]byte]*session
}

// session is one log-in.
type session struct {
	id   gateway.Identity
	key  [sha256.Size]byte
	made time.Time
	end  func() // closes id.Revoked
}

func newSessions(life time.Duration, secure bool) *sessions {
	if life <= 0 {
		life = sessionLife
	}
	return &sessions{life: life, secure: secure, all: map[[sha256.Size]byte]*session{}}
}

// random is a text with 256 random bits.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// begin logs somebody in, under a new number whatever the browser has sent, and
// ends with what it was begun with.
func (s *sessions) begin(w http.ResponseWriter, id gateway.Identity) {
	now, number, parent := time.Now(), random(), id.Revoked
	if until := now.Add(s.life); id.Expires.IsZero() || until.Before(id.Expires) {
		id.Expires = until
	}
	ctx, cancel := context.WithDeadline(context.Background(), id.Expires)
	id.Ambient, id.CSRF, id.Revoked = true, random(), ctx.Done()
	if parent != nil {
		go func() {
			select {
			case <-parent:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	n := &session{id: id, key: sha256.Sum256([]byte(number)), made: now, end: cancel}
	s.mu.Lock()
	s.makeRoom(id.Name, now)
	s.all[n.key] = n
	s.mu.Unlock()
	http.SetCookie(w, s.cookie(number, int(time.Until(id.Expires).Seconds())))
}

// makeRoom drops what has ended, and the oldest where there are too many.
func (s *sessions) makeRoom(name string, now time.Time) {
	var oldest, oldestOfName *session
	ofName := 0
	for key, old := range s.all {
		if over(old, now) {
			old.end()
			delete(s.all, key)
			continue
		}
		if oldest == nil || old.made.Before(oldest.made) {
			oldest = old
		}
		if old.id.Name == name {
			if ofName++; oldestOfName == nil || old.made.Before(oldestOfName.made) {
				oldestOfName = old
			}
		}
	}
	switch {
	case ofName >= maxOfOne:
		s.drop(oldestOfName)
	case len(s.all) >= maxSessions:
		s.drop(oldest)
	}
}

// drop ends a session. s.mu is held.
func (s *sessions) drop(old *session) {
	old.end()
	delete(s.all, old.key)
}

func over(s *session, now time.Time) bool {
	select {
	case <-s.id.Revoked:
		return true
	default:
		return !now.Before(s.id.Expires)
	}
}

// find gives the session of a request; nil if it has none that goes on.
func (s *sessions) find(r *http.Request) *session {
	c, err := r.Cookie(s.name())
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[sha256.Sum256([]byte(c.Value))]
	if found == nil || over(found, time.Now()) {
		return nil
	}
	return found
}

// leave ends the session of a request, if it has one.
func (s *sessions) leave(w http.ResponseWriter, r *http.Request) {
	if found := s.find(r); found != nil {
		s.mu.Lock()
		s.drop(found)
		s.mu.Unlock()
	}
	http.SetCookie(w, s.cookie("", -1))
}

// close ends all sessions.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.all {
		s.drop(old)
	}
}

// name is that of the cookie. Browsers let nobody but this very host set one
// with the prefix.
func (s *sessions) name() string {
	if s.secure {
		return "__Host-" + sessionCookie
	}
	return sessionCookie
}

// cookie is Lax and not Strict: whoever comes back from an identity provider, or
// follows a link in a message, is logged in. Nothing is changed by a GET.
func (s *sessions) cookie(value string, seconds int) *http.Cookie {
	return &http.Cookie{Name: s.name(), Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode} //nolint:gosec // G124: Secure wherever there is TLS
}
