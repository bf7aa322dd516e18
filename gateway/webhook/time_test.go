package webhook_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/toolcall"
)

// memory passes requests to a handler without a socket, as bubbles require.
type memory struct{ h http.Handler }

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	m.h.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// bubble returns a space whose destination receives everything immediately.
func bubble(t *testing.T, dir string, change func(*webhook.Config)) (*gatewaytest.World, *receiver) {
	t.Helper()
	w := gatewaytest.New(t, gatewaytest.In(dir), gatewaytest.Piped())
	rc := &receiver{t: t, news: make(chan got, 1000)}
	h := newHooks(t, w.A, func(c *webhook.Config) {
		c.Transport, c.Pauses = memory{rc}, nil
		if change != nil {
			change(c)
		}
	}, everything(t, "https://receiver.example/"))
	run(t, h)
	w.A.Followed("bot")
	return w, rc
}

// inBubble runs f in a bubble. A follower of the outbox ends with a drained subscription, for
// which nats.go takes a timer from a pool of the process. A timer of one bubble must not be found
// there later.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer func() { runtime.GC(); runtime.GC() }() // the second empties a sync.Pool
	synctest.Test(t, f)
}

// A process that dies between a delivery and its acknowledgement causes a second delivery with
// the same id.
func TestKilledBeforeTheAcknowledgement(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(t *testing.T) {
		died := make(chan struct{})
		w, rc := bubble(t, dir, func(c *webhook.Config) {
			c.Outbox = lossy{c.Outbox, died}
		})
		w.A.Ask("s1", "r1", "c1")
		first := rc.next()
		<-died
		time.Sleep(3 * time.Minute)
		if again := rc.next(); again.id != first.id || string(again.body) != string(first.body) {
			t.Errorf("first %s, then %s: %s", first.id, again.id, again.body)
		}
		time.Sleep(10 * time.Minute)
		if len(rc.news) != 0 {
			t.Error("the message was delivered again")
		}
	})
}

// A delivery is given up after eight attempts with pauses between them. The pauses are sixty
// times shorter than by default, because an idle hour of fake time takes seconds.
func TestSchedule(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(t *testing.T) {
		pauses := []time.Duration{time.Second / 12, time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute, 8 * time.Minute}
		w, rc := bubble(t, dir, func(c *webhook.Config) { c.Pauses = pauses })
		rc.answer(func(rw http.ResponseWriter, _ *http.Request, _ got) { rw.WriteHeader(http.StatusInternalServerError) })
		w.A.Ask("s1", "r1", "c1")
		begun := time.Now()
		time.Sleep(18 * time.Minute)
		letters, err := w.A.Outbox().DeadLetters(t.Context())
		if err != nil || len(letters) != 1 || letters[0].Attempts != 1+len(pauses) {
			t.Fatalf("dead letters: %+v, %v", letters, err)
		}
		if took := letters[0].At.Sub(begun); took < 15*time.Minute || took > 18*time.Minute {
			t.Errorf("given up after %s", took)
		}
	})
}

// A record whose engine had a clock that was a day ahead is not sent every five seconds until then.
func TestScheduleOfAClockAhead(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(t *testing.T) {
		w, rc := bubble(t, dir, func(c *webhook.Config) {
			c.Outbox, c.Pauses = ahead{c.Outbox, 24 * time.Hour}, []time.Duration{time.Second, time.Minute}
		})
		rc.answer(func(rw http.ResponseWriter, _ *http.Request, _ got) { rw.WriteHeader(http.StatusInternalServerError) })
		w.A.Ask("s1", "r1", "c1")
		time.Sleep(10 * time.Minute)
		letters, err := w.A.Outbox().DeadLetters(t.Context())
		if err != nil || len(letters) != 1 || len(rc.news) != 8 {
			t.Fatalf("%d attempts, dead letters: %+v, %v", len(rc.news), letters, err)
		}
	})
}

// ahead is an outbox whose records were written by a clock that was ahead.
type ahead struct {
	webhook.Outbox
	by time.Duration
}

func (a ahead) Follow(ctx context.Context, destination string, f func(context.Context, toolcall.Delivery)) error {
	return a.Outbox.Follow(ctx, destination, func(ctx context.Context, d toolcall.Delivery) {
		late := *d.Record.Record
		late.At = d.Record.Time.Add(a.by)
		d.Record.Record = &late
		f(ctx, d)
	})
}

// Deliveries that never reached the receiver, because the server was restarted or could not read the
// state, leave the receiver its attempts, also if the engine's clock was a little ahead.
func TestCutOffDeliveriesAreNoAttempts(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(t *testing.T) {
		w, rc := bubble(t, dir, func(c *webhook.Config) { c.Outbox = restarted{ahead{c.Outbox, 4 * time.Second}} })
		var once sync.Once
		rc.answer(func(rw http.ResponseWriter, _ *http.Request, _ got) {
			once.Do(func() { rw.WriteHeader(http.StatusServiceUnavailable) })
		})
		w.A.Ask("s1", "r1", "c1")
		first := rc.next()
		time.Sleep(10 * time.Second)
		if letters, err := w.A.Outbox().DeadLetters(t.Context()); err != nil || len(letters) != 0 {
			t.Fatalf("dead letters after one attempt: %+v, %v", letters, err)
		}
		if len(rc.news) != 1 || rc.next().id != first.id {
			t.Error("the second attempt did not come after the first pause")
		}
	})
}

// restarted is an outbox whose records were delivered nine times before anything was sent.
type restarted struct{ webhook.Outbox }

func (r restarted) Follow(ctx context.Context, destination string, f func(context.Context, toolcall.Delivery)) error {
	return r.Outbox.Follow(ctx, destination, func(ctx context.Context, d toolcall.Delivery) {
		d.Attempt += 9
		f(ctx, d)
	})
}
