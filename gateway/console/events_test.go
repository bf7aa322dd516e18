package console

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/toolcall"
)

// recorded is a reply without deadlines.
type recorded struct{ *httptest.ResponseRecorder }

func (recorded) SetReadDeadline(time.Time) error  { return nil }
func (recorded) SetWriteDeadline(time.Time) error { return nil }

// Changes that wait for a slow reader are not sent after its login has ended.
func TestNoChangesAfterTheLogin(t *testing.T) {
	for range 20 { // the end and the changes are ready at once, so each try sends some by chance
		ctx, end := context.WithCancel(t.Context())
		f := &follower{changes: make(chan gateway.Change, 16), ended: make(chan struct{})}
		for range cap(f.changes) {
			f.changes <- gateway.Change{Call: &toolcall.Call{}}
		}
		end()
		close(f.ended)
		w := recorded{httptest.NewRecorder()}
		New().follow(ctx, gateway.NewSSE(w), f)
		if got := w.Body.String(); strings.Contains(got, "event: changed") {
			t.Fatalf("sent after the end: %s", got)
		}
	}
}
