package mcp

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"
)

// session is a legacy client over HTTP.
type session struct {
	id   string
	peer *peer
	live inflight
	open int       // requests and streams; the server's mutex guards it
	used time.Time // when the last of them began or ended; the same
	idle *time.Timer

	mu     sync.Mutex // guards the rest
	queue  []*frame   // for the client's stream
	queued int        // bytes in it
	wake   chan struct{}
	stream bool // a client reads the stream
	ended  chan struct{}
	once   sync.Once
}

// Bounds of legacy sessions.
const (
	maxSessions  = 2000
	sessionIdle  = time.Hour
	maxQueued    = 1000 // messages
	maxBytes     = 4 * maxFrame
	sessionField = "Mcp-Session-Id"
)

const tooMany = "too many sessions are open: try again later"

func (s *httpServer) serveLegacy(w http.ResponseWriter, r *http.Request, principal string, f *frame) {
	if f.method == "initialize" && f.isRequest() {
		s.open(w, r, principal, f)
		return
	}
	ses := s.find(w, r, principal)
	if ses == nil {
		return
	}
	defer s.leave(ses)
	switch {
	case f.isResponse():
		ses.peer.answered(f)
	case !f.isRequest() && f.method == "notifications/cancelled":
		ses.live.cancel(f)
	case !f.isRequest():
		ses.peer.notified(s.g.life, f)
	default:
		a := newAnswer(w, r, true)
		if f.method == "tools/call" { // it may be held: proxies and clients want to see a beginning
			a.open()
		}
		s.carryOut(r, ses.peer, newExchange(ses.peer, f, a.send), a, &ses.live, errGone)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *httpServer) open(w http.ResponseWriter, r *http.Request, principal string, f *frame) {
	ses := &session{id: rand.Text() + rand.Text(), peer: s.g.newSession(principal, f), used: time.Now(), wake: make(chan struct{}, 1), ended: make(chan struct{})}
	ses.peer.out = ses.enqueue
	if !s.add(ses) {
		http.Error(w, tooMany, http.StatusServiceUnavailable)
		return
	}
	w.Header().Set(sessionField, ses.id)
	a := newAnswer(w, r, true)
	s.carryOut(r, ses.peer, newExchange(ses.peer, f, a.send), a, &ses.live, errGone)
}

// add stores a session until it has not been used for long: an approval may take longer.
func (s *httpServer) add(ses *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, other := range s.sessions {
		if other.peer.principal == ses.peer.principal {
			own++
		}
	}
	if len(s.sessions) >= s.cfg.Sessions || own >= s.cfg.Sessions/2 {
		return false
	}
	s.sessions[ses.id] = ses
	s.g.adopt(ses.peer)
	ses.idle = time.AfterFunc(sessionIdle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ses.open == 0 && time.Since(ses.used) >= sessionIdle {
			delete(s.sessions, ses.id)
			ses.end()
		}
	})
	return true
}

// find returns the session of a request until leave, or refuses the request.
func (s *httpServer) find(w http.ResponseWriter, r *http.Request, principal string) *session {
	id := r.Header.Get(sessionField)
	if id == "" {
		http.Error(w, "Bad Request: send initialize first, and then "+sessionField, http.StatusBadRequest)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.sessions[id]
	if ses == nil || ses.peer.principal != principal {
		http.Error(w, "there is no such session: send initialize", http.StatusNotFound)
		return nil
	}
	ses.open++
	ses.used = time.Now()
	return ses
}

func (s *httpServer) leave(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses.open--
	ses.used = time.Now()
	if s.sessions[ses.id] == ses { // else it has ended
		ses.idle.Reset(sessionIdle)
	}
}

// serveSession serves the stream of a session, or ends the session.
func (s *httpServer) serveSession(w http.ResponseWriter, r *http.Request, principal string) {
	ses := s.find(w, r, principal)
	if ses == nil {
		return
	}
	defer s.leave(ses)
	if r.Method == http.MethodDelete {
		s.mu.Lock()
		delete(s.sessions, ses.id)
		s.mu.Unlock()
		ses.end()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	ses.mu.Lock()
	busy := ses.stream
	ses.stream = true
	ses.mu.Unlock()
	if busy {
		http.Error(w, "the session has a stream already", http.StatusConflict)
		return
	}
	defer func() {
		ses.mu.Lock()
		ses.stream = false
		ses.mu.Unlock()
	}()
	a := newAnswer(w, r, true)
	a.mu.Lock()
	if !a.begin() {
		a.mu.Unlock()
		http.Error(w, "accept text/event-stream", http.StatusNotAcceptable)
		return
	}
	a.write(nil)
	a.mu.Unlock()
	defer a.keepAlive()()
	for {
		ses.mu.Lock()
		queue := ses.queue
		ses.queue, ses.queued = nil, 0
		ses.mu.Unlock()
		for _, f := range queue {
			a.send(f)
		}
		select {
		case <-ses.wake:
		case <-ses.ended:
			return
		case <-s.g.life.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// enqueue stores a message for the client's stream. Beyond the bounds the oldest is lost.
func (ses *session) enqueue(f *frame) {
	ses.mu.Lock()
	ses.queue, ses.queued = append(ses.queue, f), ses.queued+len(f.params)
	for len(ses.queue) > maxQueued || ses.queued > maxBytes {
		ses.queue, ses.queued = ses.queue[1:], ses.queued-len(ses.queue[0].params)
	}
	ses.mu.Unlock()
	offer(ses.wake, struct{}{})
}

// end closes the session and its upstreams, once its calls have ended.
func (ses *session) end() {
	ses.once.Do(func() {
		close(ses.ended)
		ses.idle.Stop()
		ses.live.leave()
		ses.peer.g.retire(ses.peer)
	})
}
