package journal_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

const (
	askAPI   = "$JS.API."
	askProxy = "$JX.API." // as long as askAPI
)

// leaderless answers for JetStream. While it has no leader it does not answer, like servers whose
// leader has just died. Only its own connections use it.
type leaderless struct{ dead atomic.Bool }

func newLeaderless(t *testing.T, b *bustest.Bus) *leaderless {
	t.Helper()
	l, nc := &leaderless{}, b.Conn("servers")
	sub, err := nc.Subscribe(askProxy+">", func(m *nats.Msg) {
		if !l.dead.Load() {
			_ = nc.PublishRequest(strings.Replace(m.Subject, askProxy, askAPI, 1), m.Reply, m.Data)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil { // what the server does not have yet, nobody answers
		t.Fatal(err)
	}
	return l
}

// redirect returns a hook that sends requests to other subjects, which are as long.
func redirect(from, to string) func(c net.Conn, b []byte) (int, error) {
	return func(c net.Conn, b []byte) (int, error) {
		return c.Write(bytes.ReplaceAll(b, []byte(from), []byte(to)))
	}
}

// A watch does not depend on the consumer, and says when the server delivers nothing.
func TestWatchOfAServerThatDeliversNothing(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir))
		const records = 50
		w := b.Journal("test")
		for n := range records {
			bustest.MustAppend(t, w, bustest.CallRecord(bustest.ID(n), bustest.CallKey(bustest.ID(n)), message.ToolCallPending, "propose"), 0)
		}
		newLeaderless(t, b).dead.Store(true)
		nc, err := bus.ConnectInProcess(t.Context(), hooked{b, redirect(askAPI+"CONSUMER.MSG.NEXT.", askProxy+"CONSUMER.MSG.NEXT.")}, bus.ConnectOptions{Principal: "engine"})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		var log bytes.Buffer
		j, err := journal.Open(t.Context(), nc, "test", b.Keys(), journal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		s := bustest.Watch(t, j, 0)
		s.Wait(t, "all", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == records && caught == records })
		bustest.MustAppend(t, w, bustest.CallRecord("new", bustest.CallKey("new"), message.ToolCallPending, "propose"), 0)
		s.Wait(t, "the new one", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == records+1 })
		time.Sleep(time.Minute)
		s.End()
		if !strings.Contains(log.String(), "NATS delivers no new records") {
			t.Errorf("the log says %q", log.String())
		}
	})
}

// Reads return soon after an election, as the servers do, and a new call does not wait for the
// store's free space.
func TestElectionIsSoonOver(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir))
		servers := newLeaderless(t, b)
		nc, err := bus.ConnectInProcess(t.Context(), hooked{b, redirect(askAPI, askProxy)}, bus.ConnectOptions{Principal: "engine"})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		j, err := journal.Open(t.Context(), nc, "test", b.Keys(), journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
		const election = 2100 * time.Millisecond // a second reading of two seconds would have just begun
		servers.dead.Store(true)
		began := time.Now()
		go func() {
			time.Sleep(election)
			servers.dead.Store(false)
		}()
		if _, err := j.Last(t.Context(), bustest.CallKey("c1")); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < election || took > election+time.Second {
			t.Errorf("the reading took %s, the election %s", took, election)
		}
		servers.dead.Store(true)
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := j.Append(ctx, bustest.CallRecord("f2", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a new call waited %s for the store's free space", took)
		}
	})
}
