package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// refusesMore checks that a new call is refused as overloaded, and that nothing of it was
// written.
func (r *replica) refusesMore(id message.CallID, tool, input string) {
	r.w.Helper()
	size := len(r.w.records())
	_, err := r.bot().Propose(r.w.Context(), request(call(id, tool, input)))
	if !errors.Is(err, message.ErrOverloaded) || !errors.Is(err, message.ErrUnavailable) {
		r.w.Errorf("%s: %v, want an error with the code %s", id, err, message.CodeOverloaded)
	}
	r.w.wantSize(size)
}

// Above the limit of open calls new calls are refused. Known calls can still be answered and
// finished.
func TestOpenCallsHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), t, newMemory)
		e := w.engine(engine.WithMaxOpen(2))
		first := e.ask("c1", pay, `{"amount":500}`)
		e.ask("c2", pay, `{"amount":500}`)
		e.refusesMore("c3", pay, `{"amount":500}`)
		e.refusesMore("c4", echo, `{}`)
		if again := e.ask("c1", pay, `{"amount":500}`); again.Digest != first.Digest {
			t.Errorf("the known call is returned with the digest %s, want %s", again.Digest, first.Digest)
		}
		_, err := e.ann().SubmitResponse(t.Context(), approve(first))
		w.must(err)
		w.until("the approved call finishes", func() bool { return !w.known(first.Key).Open() })
		e.ask("c3", pay, `{"amount":500}`)
	})
}

// Above the limit of running calls new local calls are refused. Approved calls, calls for
// workers and calls that running calls propose continue.
func TestRunningCallsHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), t, newMemory)
		e := w.engine(engine.WithMaxRunning(1))
		asked := e.ask("asked", pay, `{"amount":500}`)
		running := e.propose(call("running", block, `{}`))[0]
		w.until("it runs", func() bool { return len(w.effects.of(running.Key)) == 1 })
		e.refusesMore("more", echo, `{}`)
		e.submit("remote", remote)
		_, err := e.within(running, "sub", call("nested", echo, `{}`))
		w.must(err)
		_, err = e.ann().SubmitResponse(t.Context(), approve(asked))
		w.must(err)
		w.until("the approved call finishes", func() bool { return !w.known(asked.Key).Open() })
		w.effects.release(running.Key)
		w.until("it ends", func() bool { return !w.known(running.Key).Open() })
		e.propose(call("more", echo, `{}`))
	})
}

// unhurriedJournal is slow to store each record.
type unhurriedJournal struct{ *engine.Memory }

func (j unhurriedJournal) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	time.Sleep(time.Second)
	return j.Memory.Append(ctx, rec, prev)
}

// stuck is an executor whose calls run until they are released.
type stuck struct{ release chan struct{} }

func (stuck) Has(string) bool { return true }

func (s stuck) Run(ctx context.Context, _ toolcall.Invocation, _ func(string)) message.ToolResultBlock {
	select {
	case <-s.release:
	case <-ctx.Done():
	}
	return message.ToolResultBlock{State: message.ToolResultSuccess}
}

// Proposals at the same moment also keep the limits. Refused proposals write nothing, and the
// places reserved for them become free again.
func TestLimitsHoldForConcurrentProposals(t *testing.T) {
	const most, proposals = 3, 40
	for name, limit := range map[string]engine.Option{"open": engine.WithMaxOpen(most), "running": engine.WithMaxRunning(most)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"t"}, Behavior: message.BehaviorAllow}}}, permission.Options{AllowUnknownTools: true})
				if err != nil {
					t.Fatal(err)
				}
				j, ex := unhurriedJournal{engine.NewMemory()}, stuck{make(chan struct{})}
				e, err := engine.New("default", j, policy, []engine.Tool{{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceLocal, ConcurrencySafe: true}}, limit, engine.WithExecutor(ex))
				if err == nil {
					err = e.Start(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				round := func(name string) {
					var wg sync.WaitGroup
					var mu sync.Mutex
					taken := map[int]bool{}
					for i := range proposals {
						wg.Go(func() {
							_, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), toolcall.ProposeRequest{
								Session: "s", Reply: message.ReplyID(fmt.Sprint(name, i)), Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{}`}}})
							if err != nil && !errors.Is(err, message.ErrOverloaded) {
								t.Errorf("%s: %v", name, err)
							}
							mu.Lock()
							taken[i] = err == nil
							mu.Unlock()
						})
					}
					wg.Wait()
					n := 0
					for i, ok := range taken {
						records, err := j.History(t.Context(), toolcall.Key{Space: "default", Session: "s", Reply: message.ReplyID(fmt.Sprint(name, i)), Call: "c"})
						if written := err == nil && len(records) > 0; written != ok {
							t.Errorf("%s: accepted %v, recorded %v", name, ok, written)
						}
						if ok {
							n++
						}
					}
					if n != most {
						t.Errorf("%s: %d proposals were accepted, want %d", name, n, most)
					}
				}
				round("first")
				close(ex.release)
				time.Sleep(time.Minute)
				round("second")
			})
		})
	}
}

// Each call of a proposal that is still being written counts once, so other calls have room.
func TestCallsOfALongProposalCountOnce(t *testing.T) {
	for name, limit := range map[string]engine.Option{"open": engine.WithMaxOpen(4), "running": engine.WithMaxRunning(4)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"t"}, Behavior: message.BehaviorAllow}}}, permission.Options{AllowUnknownTools: true})
				if err != nil {
					t.Fatal(err)
				}
				ex := stuck{make(chan struct{})}
				e, err := engine.New("default", unhurriedJournal{engine.NewMemory()}, policy, []engine.Tool{{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceLocal, ConcurrencySafe: true}}, limit, engine.WithExecutor(ex))
				if err == nil {
					err = e.Start(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				propose := func(reply message.ReplyID, ids ...message.CallID) {
					r := toolcall.ProposeRequest{Session: "s", Reply: reply}
					for _, id := range ids {
						r.Calls = append(r.Calls, message.ToolCallBlock{ID: id, Name: "t", Input: `{}`})
					}
					if _, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), r); err != nil {
						t.Errorf("%s: %v", reply, err)
					}
				}
				var wg sync.WaitGroup
				wg.Go(func() { propose("long", "a", "b", "c") })
				time.Sleep(3500 * time.Millisecond) // the session and two calls are recorded
				propose("short", "d")
				wg.Wait()
			})
		})
	}
}
