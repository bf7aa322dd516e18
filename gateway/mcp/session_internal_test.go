package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestIdleSessions: a session is not removed while one of its requests waits, for however long.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &httpServer{g: &Gateway{peers: map[string]*peer{}}, cfg: HTTPConfig{Sessions: maxSessions}, sessions: map[string]*session{}}
		begin := func(id string) {
			p := &peer{g: s.g, principal: "bot"}
			if !s.add(&session{id: id, peer: p, used: time.Now(), wake: make(chan struct{}, 1), ended: make(chan struct{})}) {
				t.Fatalf("no session %s", id)
			}
		}
		has := func(id string) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.sessions[id] != nil
		}
		begin("a")
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set(sessionField, "a")
		held := s.find(httptest.NewRecorder(), r, "bot")
		time.Sleep(2 * sessionIdle)
		begin("b")
		if !has("a") {
			t.Error("the session of a held request was removed")
		}
		s.leave(held)
		begin("c")
		if !has("a") {
			t.Error("the session was removed when its request ended")
		}
		time.Sleep(sessionIdle)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.sessions) != 0 {
			t.Errorf("an hour after the last request there are %d sessions", len(s.sessions))
		}
	})
}

// TestGoneClientIsNotAsked: a question ends when its client is gone, and there are no more.
func TestGoneClientIsNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{peers: map[string]*peer{}}
		p := g.newPeer("bot", false, legacyNewest, []byte(`{"elicitation":{}}`), nil)
		g.adopt(p)
		p.out = func(*frame) { go g.retire(p) }
		begun := time.Now()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), inputTime)
			if _, err := p.ask(ctx, nil, "elicitation/create", nil); err == nil || time.Since(begun) > 0 {
				t.Errorf("after %s: %v", time.Since(begun), err)
			}
			cancel()
		}
		synctest.Wait()
	})
}

// TestIdleModernClients: the upstreams of a modern client that sends nothing are closed after a while,
// but not because there are many legacy clients.
func TestIdleModernClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, err := New(Config{Key: make([]byte, 32), Upstreams: []*Upstream{{Command: []string{"/nonexistent"}}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		request := func(name string) {
			_, release, _ := g.modernPeer("bot", object{{Name: metaClient, Value: quote(name)}})
			release()
		}
		peers := func() int {
			synctest.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			return len(g.peers)
		}
		for range 2 * maxPeers {
			g.adopt(g.newPeer("bot", false, legacyNewest, []byte("{}"), nil))
		}
		request("a")
		request("b")
		if n := peers(); n != 2*maxPeers+2 {
			t.Errorf("%d peers", n)
		}
		time.Sleep(sessionIdle)
		request("b")
		time.Sleep(time.Second)
		request("c")
		if n := peers(); n != 2*maxPeers+2 {
			t.Errorf("an hour later there are %d peers", n)
		}
		for n := range 2 * maxPeers {
			request(strings.Repeat("x", n+1))
		}
		if n := peers(); n != 3*maxPeers {
			t.Errorf("after many clients there are %d peers", n)
		}
		time.Sleep(sessionIdle)
		if n := peers(); n != 2*maxPeers {
			t.Errorf("an hour after the last request there are %d peers", n)
		}
	})
}

// TestModernClientsInUse: the number of modern clients with open requests has a bound, and one
// principal gets half of it.
func TestModernClientsInUse(t *testing.T) {
	t.Parallel()
	g, err := New(Config{Key: make([]byte, 32), Upstreams: []*Upstream{{Command: []string{"/nonexistent"}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var releases []func()
	request := func(principal string, n int) bool {
		_, release, ok := g.modernPeer(principal, object{{Name: metaClient, Value: encode(n)}})
		if ok {
			releases = append(releases, release)
		}
		return ok
	}
	for _, principal := range []string{"ann", "ben"} {
		for n := range maxSessions / 2 {
			if !request(principal, n) {
				t.Fatalf("client %d of %s is refused", n, principal)
			}
		}
		if request(principal, maxSessions) {
			t.Errorf("%s has more than half of the clients", principal)
		}
	}
	if request("cid", 0) {
		t.Error("more clients than the bound are in use")
	}
	if !request("ann", 0) {
		t.Error("a further request of a known client is refused")
	}
	releases[1]()
	if !request("cid", 0) {
		t.Error("a client is refused after another one has ended")
	}
}

// elsewhere is a server on which another gateway took the call.
type elsewhere struct{ Client }

func (elsewhere) Begin(context.Context, toolcall.BeginRequest) (*toolcall.Call, error) {
	call := &toolcall.Call{State: message.ToolCallSubmitted, Placement: toolcall.PlaceExternal, Attempt: toolcall.Attempt{Number: 1, Claim: "other"}}
	return nil, &message.Error{Code: message.CodeSuperseded, Call: toolcall.ErrorCall(call)}
}

func (elsewhere) Wait(ctx context.Context, _ toolcall.WaitRequest) (toolcall.WaitReply, error) {
	<-ctx.Done()
	return toolcall.WaitReply{}, ctx.Err()
}

// TestStopWhileAnotherGatewayRuns: a gateway that stops while another one runs an idempotent call
// neither runs it, too, nor reports its outcome as unknown.
func TestStopWhileAnotherGatewayRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		ups := []*Upstream{{Command: []string{"/nonexistent"}, Idempotent: []string{"lookup"}}}
		g, err := New(Config{Key: make([]byte, 32), Upstreams: ups, Askance: elsewhere{}, Hold: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		h := &held{g: g, peer: g.newPeer("bot", false, legacyNewest, []byte("{}"), nil), tool: &tool{up: ups[0], name: "lookup"}, changed: make(chan struct{}), wanted: true}
		h.bind()
		call := &toolcall.Call{State: message.ToolCallSubmitted}
		if now := h.run(ctx, call); !now.Open() || now.Attempt.Claim != "other" || h.stop != nil {
			t.Errorf("the call is %+v, its run %t", now, h.stop != nil)
		}
	})
}

// TestEndedSessionLeavesNoServer: a request that opens a server for a session that has ended closes
// it again.
func TestEndedSessionLeavesNoServer(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	up := &Upstream{Command: []string{self, "mcp-server", "legacy", filepath.Join(t.TempDir(), "ran")}}
	g, err := New(Config{Key: make([]byte, 32), Upstreams: []*Upstream{up}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	p := g.newPeer("bot", false, legacyNewest, []byte(`{"elicitation":{}}`), nil)
	g.adopt(p)
	p.retired = true // and what was open is closed
	if r := p.accept(t.Context(), &exchange{peer: p, id: []byte("1"), method: "tools/list"}, &inflight{})(); r.result == nil {
		t.Fatalf("the tools are %s", r.fault)
	}
	isOpen := func() bool {
		s := p.links[""]
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.link != nil
	}
	for isOpen() {
		runtime.Gosched()
	}
}

// TestCancelledBeforeItStarts: a request is known before it is carried out, because the next message
// of the client can cancel it.
func TestCancelledBeforeItStarts(t *testing.T) {
	t.Parallel()
	g, err := New(Config{Key: make([]byte, 32), Upstreams: []*Upstream{{Command: []string{"/nonexistent"}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	p, live := g.newPeer("bot", false, legacyNewest, []byte("{}"), nil), &inflight{}
	g.adopt(p)
	serve := p.accept(t.Context(), &exchange{peer: p, id: []byte("1"), method: "ping"}, live)
	if live.m["1"] == nil {
		t.Error("the request cannot be cancelled yet")
	}
	if r := serve(); r.fault != nil || len(live.m) != 0 {
		t.Errorf("the response is %s, %d requests are left", r.fault, len(live.m))
	}
}

// TestQueueIsBounded: what a client does not fetch takes a bounded amount of memory, and the newest
// is kept.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	ses := &session{wake: make(chan struct{}, 1)}
	for range 100 {
		ses.enqueue(&frame{method: "notifications/message", params: make([]byte, 1<<20)})
	}
	last := &frame{method: "notifications/tools/list_changed"}
	ses.enqueue(last)
	if n := len(ses.queue); n != 17 || ses.queue[n-1] != last {
		t.Errorf("%d messages are kept", n)
	}
}
