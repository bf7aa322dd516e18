package auth

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
)

const (
	maxSessions   = 10_000 // that a server remembers
	maxCookie     = 3800   // bytes of a cookie's value: browsers keep 4096 with its name
	sessionLife   = 12 * time.Hour
	sessionCookie = "askance-session"
)

// sessions are the logins of browsers. Each one is in a sealed cookie, so every server with the
// same key accepts it. A server remembers the sessions that it has seen, to end their streams,
// and the ones that people ended on it. It is safe for concurrent use.
type sessions struct {
	life   time.Duration
	secure bool // cookies are sent over TLS only
	sealer *sealer
	// restore returns the identity that a ticket represents now, or nil.
	restore func(ticket) *gateway.Identity

	mu    sync.Mutex // guards what follows
	seen  map[string]*session
	ended map[string]time.Time // until when their cookies would be valid
}

// ticket is what a cookie carries: how the person logged in, not what they may do.
type ticket struct {
	ID    string    `json:"id"`
	CSRF  string    `json:"csrf"`
	Until time.Time `json:"until"`
	// Token is the id of the token that was used to log in, Grant what it granted then.
	Token string `json:"token,omitzero"`
	Grant string `json:"grant,omitzero"`
	// Auth is the identity provider of the login, which supplied Name and Groups.
	Auth   string   `json:"auth,omitzero"`
	Name   string   `json:"name,omitzero"`
	Groups []string `json:"groups,omitzero"`
}

// sealedSession is the purpose with which tickets are sealed.
const sealedSession = "session"

type session struct {
	id     gateway.Identity
	parent <-chan struct{} // closed when the original identity is revoked; then id.Revoked is closed, too
	end    func()          // closes id.Revoked
	local  bool            // its cookie means nothing to another server
}

func newSessions(life time.Duration, secure bool, s *sealer, restore func(ticket) *gateway.Identity) *sessions {
	if life <= 0 {
		life = sessionLife
	}
	return &sessions{life: life, secure: secure, sealer: s, restore: restore, seen: map[string]*session{}, ended: map[string]time.Time{}}
}

// randomID returns at least 256 random bits as text.
func randomID() string { return rand.Text() + rand.Text() }

// begin starts a session with a new id, which replaces the browser's present session. It ends
// with its identity.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request, id gateway.Identity) error {
	t := ticket{ID: randomID(), CSRF: randomID(), Until: time.Now().Add(s.life)}
	if !id.Expires.IsZero() && id.Expires.Before(t.Until) {
		t.Until = id.Expires
	}
	bare := t
	if t.Token, t.Grant = id.Credential, id.Grant; t.Token == "" {
		t.Auth, t.Name, t.Groups = id.Auth, id.Name, id.Groups
	}
	text, err := s.sealer.seal(sealedSession, t)
	local := err == nil && (len(text) > maxCookie || s.restore(t) == nil)
	if local {
		text, err = s.sealer.seal(sealedSession, bare)
	}
	if err != nil {
		return err
	}
	s.endOf(r)
	s.remember(t, id, local)
	http.SetCookie(w, s.cookie(text, int(time.Until(t.Until).Seconds())))
	return nil
}

// remember makes the session of a ticket. It ends at the ticket's time, and with the identity.
func (s *sessions) remember(t ticket, id gateway.Identity, local bool) *session {
	parent := id.Revoked
	ctx, cancel := context.WithDeadline(context.Background(), t.Until)
	id.Ambient, id.CSRF, id.Expires, id.Revoked = true, t.CSRF, t.Until, ctx.Done()
	if parent != nil {
		go func() {
			select {
			case <-parent:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	n := &session{id: id, parent: parent, end: cancel, local: local}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, over := s.ended[t.ID]; over { // ended by a concurrent request
		cancel()
		return n
	}
	if old := s.seen[t.ID]; old != nil { // stored by a concurrent request
		cancel()
		return old
	}
	s.makeRoom()
	s.seen[t.ID] = n
	return n
}

// makeRoom removes ended sessions and, if there are still too many, one more, preferably one that
// its cookie can restore. The caller holds s.mu.
func (s *sessions) makeRoom() {
	if len(s.seen) < maxSessions && len(s.ended) < maxSessions {
		return
	}
	now, victim, first := time.Now(), "", ""
	for id, old := range s.seen {
		if hasEnded(old, now) { // its cookie has expired as well, or restores nothing
			old.end()
			delete(s.seen, id)
		} else if victim == "" || s.seen[victim].local && !old.local {
			victim = id
		}
	}
	for id, until := range s.ended {
		if !now.Before(until) {
			delete(s.ended, id)
		} else if first == "" || until.Before(s.ended[first]) {
			first = id
		}
	}
	if len(s.seen) >= maxSessions {
		s.seen[victim].end()
		delete(s.seen, victim)
	}
	if len(s.ended) >= maxSessions {
		delete(s.ended, first)
	}
}

func hasEnded(s *session, now time.Time) bool {
	select {
	case <-s.id.Revoked:
		return true
	case <-s.parent:
		return true
	default:
		return !now.Before(s.id.Expires)
	}
}

// find returns the session of a request and its ticket, or nil.
func (s *sessions) find(r *http.Request) (*session, ticket) {
	c, err := r.Cookie(s.name())
	if err != nil {
		return nil, ticket{}
	}
	var t ticket
	now := time.Now()
	if s.sealer.unseal(sealedSession, c.Value, &t) != nil || !now.Before(t.Until) {
		return nil, ticket{}
	}
	s.mu.Lock()
	found := s.seen[t.ID]
	_, over := s.ended[t.ID]
	s.mu.Unlock()
	if found == nil && !over {
		if id := s.restore(t); id != nil {
			found = s.remember(t, *id, false)
		}
	}
	if found == nil || over || hasEnded(found, now) {
		return nil, ticket{}
	}
	return found, t
}

// leave ends the session of a browser, if any.
func (s *sessions) leave(w http.ResponseWriter, r *http.Request) {
	s.endOf(r)
	http.SetCookie(w, s.cookie("", -1))
}

func (s *sessions) endOf(r *http.Request) {
	if found, t := s.find(r); found != nil {
		s.mu.Lock()
		found.end()
		delete(s.seen, t.ID)
		s.makeRoom()
		s.ended[t.ID] = t.Until
		s.mu.Unlock()
	}
}

func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, old := range s.seen {
		old.end()
		delete(s.seen, id)
	}
}

func (s *sessions) name() string { return cookieName(sessionCookie, s.secure) }

// cookieName adds the prefix with which browsers let only this host set a cookie.
func cookieName(name string, secure bool) string {
	if secure {
		return "__Host-" + name
	}
	return name
}

// cookie is Lax and not Strict: a person who returns from an identity provider or
// follows a link in a message is logged in. No GET changes anything.
func (s *sessions) cookie(value string, seconds int) *http.Cookie {
	return &http.Cookie{Name: s.name(), Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode} //nolint:gosec // G124: Secure wherever there is TLS
}

// restore returns a ticket's identity by the current tokens and roles, or nil.
func (a *Auth) restore(t ticket) *gateway.Identity {
	switch {
	case t.Token != "" && a.cfg.Tokens != nil:
		return a.cfg.Tokens.granted(t.Token, t.Grant)
	case t.Token == "" && a.cfg.OIDC != nil && t.Auth == a.cfg.OIDC.via():
		id, err := a.cfg.OIDC.person(t.Name, t.Groups)
		if err != nil {
			return nil
		}
		return id
	}
	return nil
}
