package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// For any proposals at once on two engines, pauses and restarts, no hour has more calls or a larger
// sum than the budget of the rule that allowed them, and later there is room again.
func TestBudgetOverTime(t *testing.T) {
	tool := engine.Tool{Tool: permission.Tool{Name: "pay"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{
		Name: "small", Tools: []string{"pay"}, Behavior: message.BehaviorAllow, Budget: &permission.Budget{Sum: "args.n", AtMost: "10", Calls: 4, Every: time.Hour},
	}}}, permission.Options{Tools: []permission.Tool{tool.Tool}, Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			s := &spenders{T: rt, journal: engine.NewMemory(), policy: policy, tool: tool}
			s.start(0)
			s.start(1)
			defer func() { _, _ = s.engines[0].Close(), s.engines[1].Close() }()
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				s.step()
			}
			time.Sleep(2 * time.Hour)
			if s.propose(0, 10); len(s.spent) == 0 || !s.spent[len(s.spent)-1].at.Equal(time.Now()) {
				rt.Fatal("after two quiet hours the budget has no room")
			}
		})
	})
}

// spenders are two engines whose calls share a budget.
type spenders struct {
	*rapid.T
	journal *engine.Memory
	policy  engine.Policy
	tool    engine.Tool
	engines [2]*engine.Engine
	n       int

	mu    sync.Mutex // guards all below
	spent []spending // in the order of time
}

type spending struct {
	at time.Time
	n  int
}

func (s *spenders) start(i int) {
	e, err := engine.New("sp", s.journal, s.policy, []engine.Tool{s.tool})
	if err == nil {
		err = e.Start(context.Background())
	}
	if err != nil {
		s.Fatal(err)
	}
	s.engines[i] = e
}

func (s *spenders) step() {
	switch rapid.IntRange(0, 3).Draw(s.T, "step") {
	case 0:
		time.Sleep(time.Duration(rapid.IntRange(1, 70).Draw(s.T, "minutes"))*time.Minute - time.Duration(rapid.IntRange(0, 1).Draw(s.T, "early"))*time.Nanosecond)
	case 1:
		i := rapid.IntRange(0, 1).Draw(s.T, "stops")
		_ = s.engines[i].Close()
		s.start(i)
	default:
		var all sync.WaitGroup
		for range rapid.IntRange(1, 4).Draw(s.T, "at once") {
			i, n := rapid.IntRange(0, 1).Draw(s.T, "engine"), rapid.IntRange(0, 6).Draw(s.T, "n")
			s.n++
			id := s.n
			all.Go(func() { s.proposeAs(id, i, n) })
		}
		all.Wait()
	}
}

func (s *spenders) propose(i, n int) {
	s.n++
	s.proposeAs(s.n, i, n)
}

// proposeAs proposes a call that takes n, and checks the hour that ends with it.
func (s *spenders) proposeAs(id, i, n int) {
	out, err := s.engines[i].As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(context.Background(), toolcall.ProposeRequest{
		Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: message.CallID(fmt.Sprint("c", id)), Name: "pay", Input: fmt.Sprintf(`{"n":%d}`, n)}},
	})
	if err != nil {
		s.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := out.Calls[0].Decision; d.Behavior != message.BehaviorAllow {
		return
	}
	now, sum, calls := time.Now(), n, 1
	for _, x := range s.spent {
		if now.Sub(x.at) < time.Hour {
			sum, calls = sum+x.n, calls+1
		}
	}
	s.spent = append(s.spent, spending{now, n})
	if sum > 10 || calls > 4 {
		s.Errorf("%d calls spent %d within an hour: %v", calls, sum, s.spent)
	}
}
