package engine_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// asking is the number of approval requests open at once; the figures in the documents are
// for -asking 100000.
var asking = flag.Int("asking", 3_000, "how many open approval requests TestManyOpenRequests makes")

// An engine may need 340 MB of heap for 100,000 open approval requests, and a few additional
// goroutines for any number of them.
const (
	askHeap   = 350<<20/100_000 + racedHeap
	askStacks = 4
)

// Waiting costs only a little memory: approval requests have no goroutines of their own, and
// days pass without any work.
func TestManyOpenRequests(t *testing.T) {
	askers := *asking
	synctest.Test(t, func(t *testing.T) {
		policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{
			Name: "two", Tools: []string{"t"}, Behavior: message.BehaviorAsk, Quorum: 2, Approvers: permission.Approvers{Groups: []string{"finance"}},
			Escalation: []permission.Escalation{{After: 10 * 24 * time.Hour, To: permission.Approvers{Groups: []string{"managers"}}}},
			Expiry:     20 * 24 * time.Hour, OnExpiry: permission.OnExpiryEscalate,
		}}}, permission.Options{Enforced: engine.Duties()})
		if err != nil {
			t.Fatal(err)
		}
		journal := engine.NewMemory()
		tool := engine.Tool{Tool: permission.Tool{Name: "t"}, ConcurrencySafe: true}
		open := func() *engine.Engine {
			e, err := engine.New("default", journal, policy, []engine.Tool{tool})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			return e
		}
		ask(t, open(), askers)
		before, stacks := heap(), runtime.NumGoroutine()
		e := open() // knows the approval requests only from the journal
		time.Sleep(5 * 24 * time.Hour)
		synctest.Wait()
		size, more := heap()-before, runtime.NumGoroutine()-stacks
		t.Logf("%d open approval requests: %d MB of heap, %d additional goroutines", askers, size>>20, more)
		if size > int64(askers)*askHeap || more > askStacks {
			t.Errorf("%d open approval requests take %d MB of heap and %d goroutines, want at most %d and %d", askers, size>>20, more, int64(askers)*askHeap>>20, askStacks)
		}
		info, err := e.As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: "a"}).Info(t.Context())
		if err != nil || info.Open != askers {
			t.Errorf("%d are open: %v", info.Open, err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// ask opens n approval requests with engine e, and closes the engine.
func ask(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	bot := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	for i := 0; i < n; i += 100 {
		var calls []message.ToolCallBlock
		for k := range 100 {
			calls = append(calls, message.ToolCallBlock{ID: message.CallID(fmt.Sprintf("call_%d_%d", i, k)), Name: "t", Input: fmt.Sprintf(`{"order":"A-%d","cents":%d,"why":"the customer asked for it"}`, i, k)})
		}
		if _, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: message.ReplyID(fmt.Sprintf("r%d", i)), Calls: calls}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// heap returns the heap in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
