package api

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	operation "github.com/askance-dev/askance/message/api"
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
