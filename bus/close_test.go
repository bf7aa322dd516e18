package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Requests continue to work while one engine after another leaves.
func TestServicesShareAndReplaceEachOther(t *testing.T) {
	w := newWorld(t)
	r1 := w.engine(bus.ServiceOptions{})
	r2 := w.engine(bus.ServiceOptions{})
	bot := w.client(toolcall.RoleRuntime, "bot")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 10 {
				id := fmt.Sprintf("c-%d-%d", i, n)
				if _, err := bot.Propose(context.Background(), toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{toolCall(id, echo, `{}`)}}); err != nil {
					t.Errorf("%s: %v", id, err)
				}
				if i == 0 && n == 3 {
					r1.stop()
				}
			}
		})
	}
	wg.Wait()
	calls := finished(t, bot)
	if len(calls) != 80 {
		t.Errorf("%d calls, want 80", len(calls))
	}
	r2.stop()
}

// Held requests end at once when the service closes.
func TestCloseEndsHeldRequests(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		r := w.engine(bus.ServiceOptions{})
		bot := w.client(toolcall.RoleRuntime, "bot")
		propose(t, bot, toolCall("c1", pay, `{}`))
		done := make(chan error)
		go func() {
			_, err := bot.Wait(context.Background(), toolcall.WaitRequest{Session: "s1", Reply: "r1", TimeoutMS: 60_000})
			done <- err
		}()
		time.Sleep(time.Second)
		began := time.Now()
		r.stop()
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("Close took %v", d)
		}
		w.engine(bus.ServiceOptions{}) // the client continues with the next engine
		time.Sleep(2 * time.Second)
		ann := w.client(toolcall.RoleApprover, "ann")
		call, err := ann.List(t.Context(), toolcall.ListRequest{})
		if err != nil || len(call.Calls) != 1 {
			t.Fatalf("list: %+v, %v", call, err)
		}
		if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: call.Calls[0].Digest, Kind: toolcall.ResponseReject}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("the wait: %v", err)
		}
	})
}

// stuck answers nothing until the service closes.
type stuck struct{ api.Caller }

func (stuck) Call(ctx context.Context, _ *api.Operation, _ any) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Requests that wait for their turn when the service closes are sent elsewhere, so that their
// senders need not wait for a timeout.
func TestCloseAnswersWaitingRequests(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		s, err := bus.Serve(t.Context(), w.Conn("engine"), w.Journal("test"), func(toolcall.Principal, toolcall.Queue) api.Caller { return stuck{} }, bus.ServiceOptions{MaxReads: 1})
		if err != nil {
			t.Fatal(err)
		}
		nc := w.Conn("eve")
		answers := make(chan *nats.Msg, 8)
		if _, err := nc.ChanSubscribe("_INBOX_eve.x", answers); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := nc.PublishRequest("askance.v1.test.query.eve", "_INBOX_eve.x", []byte(`{"v":1,"op":"info"}`)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		closed := make(chan struct{})
		go func() { defer close(closed); s.Close() }()
		for n := range 3 { // the fourth is being executed and has its grace
			m := <-answers
			if d := time.Since(began); d > time.Second || !strings.Contains(string(m.Data), `"unavailable"`) {
				t.Errorf("answer %d after %v: %s", n, d, m.Data)
			}
		}
		<-closed
	})
}

// Held requests beyond the service's limit are refused, not queued, so other requests still get
// through.
func TestHeldRequestsAreBounded(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.engine(bus.ServiceOptions{MaxHeld: 4})
		bot := w.client(toolcall.RoleRuntime, "bot")
		propose(t, bot, toolCall("c1", pay, `{}`))
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				_, errs[i] = bot.Wait(ctx, toolcall.WaitRequest{Session: "s1", Reply: "r1", TimeoutMS: 5000})
			})
		}
		time.Sleep(time.Second)
		if _, err := bot.List(t.Context(), toolcall.ListRequest{}); err != nil {
			t.Errorf("list while all places are held: %v", err)
		}
		if e := rawRequest(t, w.Conn("bot"), "askance.v1.test.query.bot", `{"v":1,"op":"wait","body":{"session_id":"s1","reply_id":"r1"}}`); e == nil || e.Code != message.CodeOverloaded {
			t.Errorf("one too many: %+v", e)
		}
		wg.Wait()
		for i, err := range errs { // the third was refused at first, and accepted when a place was free
			if err != nil {
				t.Errorf("wait %d: %v", i, err)
			}
		}
	})
}
