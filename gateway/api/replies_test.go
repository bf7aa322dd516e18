package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// TestKeptBytes: a reply that is dropped during its request is not counted forever. Otherwise the
// limit would be used up eventually.
func TestKeptBytes(t *testing.T) {
	k := newReplies()
	first := &storedResponse{key: replyKey{key: "first"}, at: time.Now(), done: make(chan struct{})}
	k.claim(first)
	for i := range keepRequests {
		k.claim(&storedResponse{key: replyKey{key: fmt.Sprint(i)}, at: time.Now(), done: make(chan struct{})})
	}
	a := &ask{op: &op{HTTP: operation.HTTP{ID: "test"}}, w: httptest.NewRecorder()}
	if err := k.carryOut(a, first, func() (any, error) { return "done", nil }); err != nil {
		t.Fatal(err)
	}
	if k.bytes != 0 || first.status != 200 {
		t.Errorf("%d bytes are counted without a reply; status %d", k.bytes, first.status)
	}
}

// TestIdentify: a repeated request has the same response id after a restart.
func TestIdentify(t *testing.T) {
	id := func(auth, key string, resp toolcall.Response) string {
		a := &ask{p: &gateway.Peer{Identity: gateway.Identity{Name: "ann", Auth: auth}}, r: httptest.NewRequest(http.MethodPost, "/", nil)}
		a.r.Header.Set("Idempotency-Key", key)
		return a.identify(resp).ID
	}
	one := id("token", "one", toolcall.Response{})
	if one == "" || one != id("token", "one", toolcall.Response{}) {
		t.Errorf("the id of a response with a key is %q, and another one when it is sent again", one)
	}
	for what, other := range map[string]string{"another key": id("token", "two", toolcall.Response{}), "another login": id("cookie", "one", toolcall.Response{})} {
		if other == one {
			t.Errorf("a response with %s has the same id", what)
		}
	}
	if got := id("token", "one", toolcall.Response{ID: "mine"}); got != "mine" {
		t.Errorf("the id %q replaced the sender's", got)
	}
	if got := id("token", "", toolcall.Response{}); got != "" {
		t.Errorf("a response without a key has the id %q", got)
	}
}
