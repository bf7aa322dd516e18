package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// limited returns an engine on which every call asks ann, bob or eve.
func limited(t *testing.T, journal *engine.Memory, limits toolcall.ReviewerLimits) *engine.Engine {
	t.Helper()
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{
		Name: "all", Tools: []string{"t"}, Behavior: message.BehaviorAsk, Approvers: permission.Approvers{Users: []string{"ann", "bob", "eve"}},
	}}}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}
	e, err := engine.New("default", journal, policy, []engine.Tool{tool}, engine.WithReviewerLimits(limits))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func requests(t *testing.T, e *engine.Engine, n int) []*toolcall.Call {
	t.Helper()
	r := toolcall.ProposeRequest{Session: "s", Reply: "r"}
	for i := range n {
		r.Calls = append(r.Calls, message.ToolCallBlock{ID: message.CallID(fmt.Sprint(i)), Name: "t", Input: fmt.Sprintf(`{"n":%d}`, i)})
	}
	out, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Calls {
		if c.State != message.ToolCallAsking {
			t.Fatalf("%s is %s", c.Call, c.State)
		}
	}
	return out.Calls
}

func reviewer(e *engine.Engine, name string) *engine.Port {
	return e.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: name})
}

// A reviewer who has answered too often is refused and the approval request stays open. A
// minute later the same answer counts. Other reviewers are not affected.
func TestResponsesPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := engine.NewMemory()
		e := limited(t, journal, toolcall.ReviewerLimits{PerMinute: 2})
		defer e.Close()
		calls := requests(t, e, 4)
		answer := func(name string, i int) error {
			c, err := reviewer(e, name).SubmitResponse(t.Context(), toolcall.Response{Key: calls[i].Key, Kind: toolcall.ResponseReject, Digest: calls[i].Digest})
			if err == nil && c.State != message.ToolCallFinished {
				t.Errorf("%d is %s", i, c.State)
			}
			return err
		}
		time.Sleep(time.Second)
		for i := range 2 {
			if err := answer("ann", i); err != nil {
				t.Fatal(err)
			}
		}
		err := answer("ann", 2)
		me, ok := errors.AsType[*message.Error](err)
		if !ok || me.Code != message.CodeOverLimit || toolcall.CallOf(me) == nil || toolcall.CallOf(me).State != message.ToolCallAsking {
			t.Fatalf("the third answer: %v", err)
		}
		if err := answer("ann", 0); !errors.Is(err, message.ErrFinished) {
			t.Errorf("an answer to a finished call returns %v, want the error about the finished call", err)
		}
		if err := answer("bob", 3); err != nil {
			t.Errorf("bob: %v", err)
		}
		other := limited(t, journal, toolcall.ReviewerLimits{PerMinute: 2}) // another engine on the journal
		defer other.Close()
		if _, err := reviewer(other, "ann").SubmitResponse(t.Context(), toolcall.Response{Key: calls[2].Key, Kind: toolcall.ResponseReject, Digest: calls[2].Digest}); !errors.Is(err, message.ErrOverLimit) {
			t.Errorf("another engine accepts the answer: %v", err)
		}
		time.Sleep(time.Minute)
		if err := answer("ann", 2); err != nil {
			t.Errorf("a minute later: %v", err)
		}
		r, err := reviewer(e, "ann").Load(t.Context(), toolcall.LoadRequest{V: 1})
		if err != nil || r.Refused != 1 || r.Open != 0 || len(r.People) != 3 || r.People[0].Answered != 3 || r.People[0].LastMinute != 1 {
			t.Errorf("load: %+v, %v", r, err)
		}
	})
}

func TestHandOverToTheBusy(t *testing.T) {
	e := limited(t, engine.NewMemory(), toolcall.ReviewerLimits{MaxOpen: 2})
	defer e.Close()
	c := requests(t, e, 2)[0]
	_, err := reviewer(e, "ann").SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Kind: toolcall.ResponseDelegate, To: "bob", Digest: c.Digest})
	if !errors.Is(err, message.ErrOverLimit) {
		t.Errorf("delegated: %v", err)
	}
}

// Of 64 answers by one reviewer at once, no more than the limit count.
func TestResponsesPerMinuteAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a fake clock, which stands still meanwhile
		e := limited(t, engine.NewMemory(), toolcall.ReviewerLimits{PerMinute: 7})
		defer e.Close()
		calls := requests(t, e, 64)
		var wg sync.WaitGroup
		for _, c := range calls {
			wg.Go(func() {
				_, err := reviewer(e, "ann").SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Kind: toolcall.ResponseReject, Digest: c.Digest})
				if err != nil && !errors.Is(err, message.ErrOverLimit) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r, err := reviewer(e, "eve").Load(t.Context(), toolcall.LoadRequest{})
		if err != nil || r.People[0].Answered != 7 || r.Open != 57 || r.Refused != 57 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestLoadIsNotForRuntimes(t *testing.T) {
	e := limited(t, engine.NewMemory(), toolcall.ReviewerLimits{})
	defer e.Close()
	if _, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Load(t.Context(), toolcall.LoadRequest{}); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("Load = %v", err)
	}
	if _, err := engine.New("x", engine.NewMemory(), new(permission.Bundle), nil, engine.WithReviewerLimits(toolcall.ReviewerLimits{PerMinute: -1})); err == nil {
		t.Error("a negative limit is accepted")
	}
}

// A runtime cannot send reviewers more approval requests than they may have open. The call
// is refused, nothing of it is written, and the same proposal is accepted later.
func TestProposeToTheBusy(t *testing.T) {
	journal := engine.NewMemory()
	e := limited(t, journal, toolcall.ReviewerLimits{MaxOpen: 2})
	defer e.Close()
	calls := requests(t, e, 2)
	propose := func() (toolcall.ProposeReply, error) {
		return e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), toolcall.ProposeRequest{
			Session: "s", Reply: "next", Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{}`}},
		})
	}
	_, err := propose()
	me, ok := errors.AsType[*message.Error](err)
	if !ok || me.Code != message.CodeOverLimit || me.Op != "propose" || !strings.Contains(me.What, "(ann, bob, eve)") || !strings.Contains(me.What, "the limit is 2") {
		t.Fatalf("the third approval request: %v", err)
	}
	if _, err := e.As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: "eve"}).Show(t.Context(), toolcall.ShowRequest{Key: toolcall.Key{Session: "s", Reply: "next", Call: "c"}}); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("the refused call is recorded: %v", err)
	}
	if _, err := reviewer(e, "bob").SubmitResponse(t.Context(), toolcall.Response{Key: calls[0].Key, Kind: toolcall.ResponseReject, Digest: calls[0].Digest}); err != nil {
		t.Fatal(err)
	}
	if r, err := propose(); err != nil || r.Calls[0].State != message.ToolCallAsking {
		t.Errorf("the same proposal later: %+v, %v", r.Calls, err)
	}
	if r, err := propose(); err != nil || r.Calls[0].State != message.ToolCallAsking {
		t.Errorf("a recorded call is refused: %+v, %v", r.Calls, err)
	}
	if r, err := reviewer(e, "ann").Load(t.Context(), toolcall.LoadRequest{}); err != nil || r.Refused != 1 {
		t.Errorf("load: %+v, %v", r, err)
	}
}

// After 64 proposals at once, no more approval requests than the limit are open.
func TestProposeToTheBusyAtOnce(t *testing.T) {
	e := limited(t, engine.NewMemory(), toolcall.ReviewerLimits{MaxOpen: 5})
	defer e.Close()
	requests(t, e, 1) // binds the session
	var wg sync.WaitGroup
	var asked atomic.Int64
	for i := range 64 {
		wg.Go(func() {
			_, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), toolcall.ProposeRequest{
				Session: "s", Reply: message.ReplyID(fmt.Sprint("r", i)), Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{}`}},
			})
			switch {
			case err == nil:
				asked.Add(1)
			case !errors.Is(err, message.ErrOverLimit):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r, err := reviewer(e, "eve").Load(t.Context(), toolcall.LoadRequest{})
	if err != nil || r.Open != 5 || asked.Load() != 4 || r.People[0].Open != 5 {
		t.Errorf("%d asked, %+v, %v", asked.Load(), r, err)
	}
}

// There is a separate limit for each hour.
func TestResponsesPerHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := limited(t, engine.NewMemory(), toolcall.ReviewerLimits{PerMinute: 2, PerHour: 3})
		defer e.Close()
		calls := requests(t, e, 5)
		answer := func(i int) error {
			_, err := reviewer(e, "ann").SubmitResponse(t.Context(), toolcall.Response{Key: calls[i].Key, Kind: toolcall.ResponseReject, Digest: calls[i].Digest})
			return err
		}
		for i := range 3 {
			time.Sleep(5 * time.Minute)
			if err := answer(i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		if err := answer(3); !errors.Is(err, message.ErrOverLimit) || !strings.Contains(err.Error(), "ann has answered 3 approval requests within an hour, the limit is 3") {
			t.Errorf("the fourth: %v", err)
		}
		time.Sleep(46 * time.Minute) // the first is now more than an hour old
		if err := answer(3); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}
