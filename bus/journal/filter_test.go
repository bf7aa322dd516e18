package journal_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// write makes a write of a call's event record as the journal does, without its MAC.
func write(t testing.TB, key toolcall.Key, tool string, prev uint64, msgID string) journal.Write {
	t.Helper()
	s, err := bus.RecordSubject(key, toolcall.Queue{Tool: tool})
	if err != nil {
		t.Fatal(err)
	}
	entity, err := bus.EntityOf(key)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(s.String())
	m.Header.Set(bustest.HeaderPrev, strconv.FormatUint(prev, 10))
	m.Header.Set(bustest.HeaderFilter, string(entity))
	m.Header.Set("Nats-Msg-Id", msgID)
	m.Data = []byte(msgID)
	return journal.Write{Entity: entity, Msg: m}
}

// Every write to an entity uses one filter, because two filters over the same event records are two
// locks: a write guarded by a narrower filter does not see what the other wrote.
func TestMixedFiltersAreTwoLocks(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	key := bustest.CallKey("c1")
	task := bustest.MustAppend(t, j, bustest.WorkRecord("f1", key, "echo"), 0)
	bustest.MustAppend(t, j, bustest.CallRecord("f2", key, message.ToolCallFinished, "result"), task)
	// A writer that guards its task with the task's own subject believes that the task is still the
	// call's last record.
	w := write(t, key, "echo", task, "f3")
	w.Msg.Header.Set(bustest.HeaderFilter, w.Msg.Subject)
	if _, err := journal.NewDirect(b.Conn("engine")).Publish(t.Context(), w); err != nil {
		t.Fatalf("the server refused it; the rule may not be needed any more: %v", err)
	}
	// Under the entity's filter the same write loses.
	if _, err := journal.NewDirect(b.Conn("engine")).Publish(t.Context(), write(t, key, "echo", task, "f4")); err == nil {
		t.Error("a stale write under the entity's filter was stored")
	}
}

// Event records and tasks of one call exclude each other: one of 64 racers wins each round.
func TestOneFilterOneWinner(t *testing.T) {
	b := bustest.New(t)
	b.Journal("test")
	pub := journal.NewDirect(b.Conn("engine"))
	for round := range 20 {
		key := bustest.CallKey(fmt.Sprint("c", round))
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			w := write(t, key, []string{"", "echo", "other"}[i%3], 0, fmt.Sprintf("%d-%d", round, i))
			wg.Go(func() {
				if _, err := pub.Publish(t.Context(), w); err == nil {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d winners", round, won.Load())
		}
	}
}
