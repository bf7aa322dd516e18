package api

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	operation "github.com/askance-dev/askance/message/api"
)

// TestKeptBytes: what is forgotten while it is carried out does not count for
// ever: else nothing would be remembered in the end.
func TestKeptBytes(t *testing.T) {
	k := newKept()
	first := &storedResponse{key: keptKey{key: "first"}, at: time.Now(), done: make(chan struct{})}
	k.take(first)
	for i := range keepRequests {
		k.take(&storedResponse{key: keptKey{key: fmt.Sprint(i)}, at: time.Now(), done: make(chan struct{})})
	}
	a := &ask{op: &op{HTTP: operation.HTTP{ID: "test"}}, w: httptest.NewRecorder()}
	if err := k.carryOut(a, first, func() (any, error) { return "done", nil }); err != nil {
		t.Fatal(err)
	}
	if k.bytes != 0 || first.status != 200 {
		t.Errorf("%d bytes are kept of nothing; status %d", k.bytes, first.status)
	}
}
