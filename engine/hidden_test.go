package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// interrupted is a policy at which something else happens right after it has
// decided about one input.
type interrupted struct {
	engine.Policy
	input string
	mu    sync.Mutex // guards then
	then  func()     // once
}

func (p *interrupted) Decide(ctx context.Context, r permission.Request) permission.Decision {
	d := p.Policy.Decide(ctx, r)
	if string(r.Input) != p.input {
		return d
	}
	p.mu.Lock()
	then := p.then
	p.then = nil
	p.mu.Unlock()
	if then != nil {
		then()
	}
	return d
}

// TestRuleArrivesWhileHiddenCallIsDecided: the question that a call hides behind
// is answered with a rule between the moment at which the policy is asked about
// the call, without that rule, and the look at the question.
func TestRuleArrivesWhileHiddenCallIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bundle, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"other"}, Behavior: message.BehaviorAllow}}}, permission.Options{Tools: []permission.Tool{{Name: "t"}, {Name: "other"}}})
		if err != nil {
			t.Fatal(err)
		}
		policy := &interrupted{Policy: bundle, input: `{"n":2}`}
		tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: message.PlaceExternal, ConcurrencySafe: true}
		eng, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{tool})
		if err != nil {
			t.Fatal(err)
		}
		if err := eng.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = eng.Close() }()
		bot := eng.As(message.Principal{Role: message.RoleRuntime, Name: "bot"})
		ann := eng.As(message.Principal{Role: message.RoleApprover, Name: "ann"})
		out, err := bot.Propose(t.Context(), message.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{
			{ID: "a", Name: "t", Input: `{"n":1}`}, {ID: "b", Name: "t", Input: `{"n":2}`},
		}})
		if err != nil {
			t.Fatal(err)
		}
		a, b := out.Calls[0], out.Calls[1]
		if a.State != message.ToolCallAsking || b.Behind != "a" {
			t.Fatalf("a is %s, b behind %q", a.State, b.Behind)
		}
		answered := make(chan error, 1)
		policy.mu.Lock()
		policy.then = func() {
			_, err := ann.Answer(t.Context(), message.Answer{Key: a.Key, Kind: message.AnswerApprove, Digest: a.Digest, Rules: a.Suggested})
			answered <- err
		}
		policy.mu.Unlock()
		time.Sleep(time.Minute) // the engine looks at calls that wait
		synctest.Wait()
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		show, err := bot.Show(t.Context(), message.ShowRequest{Key: b.Key})
		if err != nil {
			t.Fatal(err)
		}
		if show.Call.State != message.ToolCallSubmitted {
			t.Errorf("b is %s by %s", show.Call.State, show.Call.Cause)
		}
	})
}
