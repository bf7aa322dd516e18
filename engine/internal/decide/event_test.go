package decide_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// policy asks about every call, and allows those for which the session has a rule.
type policy struct{}

func (policy) Decide(_ context.Context, r permission.Request) permission.Decision {
	for _, rule := range r.SessionRules {
		if rule.ToolName == r.Tool {
			return permission.Decision{Behavior: message.BehaviorAllow}
		}
	}
	return permission.Decision{Behavior: message.BehaviorAsk}
}

func (policy) Denied(context.Context, permission.Request) (permission.Decision, bool) {
	return permission.Decision{Behavior: message.BehaviorAsk, Reason: "cannot be evaluated"}, true
}

func (policy) Explain(context.Context, permission.Request) *permission.Explanation { return nil }

func (policy) Hash() string { return "b2" }

var now = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func judge() *decide.Judge {
	return decide.NewJudge(policy{}, map[string]decide.Tool{
		"safe": {ConcurrencySafe: true, Placement: toolcall.PlaceRemote, Timeout: time.Minute}, "serial": {Placement: toolcall.PlaceLocal},
		"outside": {Placement: toolcall.PlaceExternal},
	}, decide.Settings{})
}

func call(id message.CallID, tool string, state message.ToolCallState) *toolcall.Call {
	return &toolcall.Call{Key: toolcall.Key{Space: "x", Session: "s", Reply: "r", Call: id}, Tool: tool, Input: "{}", State: state, Runtime: "bot", UpdatedAt: now}
}

func TestEvent(t *testing.T) {
	covers := []message.PermissionRule{{ToolName: "safe", Behavior: message.BehaviorAllow}}
	asking := call("a", "safe", message.ToolCallAsking)
	asking.Suggested = covers
	other := call("o", "safe", message.ToolCallAsking)
	other.Suggested, other.Order = covers, toolcall.OrderShared
	behind := call("h", "safe", message.ToolCallPending)
	behind.Behind = "a"
	tests := []struct {
		name     string
		behavior message.Behavior
		immune   bool
		tool     string
		behind   message.CallID
		earlier  []*toolcall.Call
		want     toolcall.Event // its type
		err      error
	}{
		{"allowed", message.BehaviorAllow, false, "safe", "", []*toolcall.Call{asking}, toolcall.Decided{}, nil},
		{"denied", message.BehaviorDeny, false, "safe", "", []*toolcall.Call{asking}, toolcall.Decided{}, nil},
		{"asked, alone", message.BehaviorAsk, false, "safe", "", nil, toolcall.Decided{}, nil},
		{"behind an approval request that covers it", message.BehaviorAsk, false, "safe", "", []*toolcall.Call{asking}, toolcall.Hidden{}, nil},
		{"already behind it", message.BehaviorAsk, false, "safe", "a", []*toolcall.Call{asking}, nil, decide.ErrNoNews},
		{"no answer can cover it", message.BehaviorAsk, true, "safe", "", []*toolcall.Call{asking}, toolcall.Decided{}, nil},
		{"an unknown word asks", "maybe", false, "safe", "", []*toolcall.Call{asking}, toolcall.Hidden{}, nil},
		{"an approval request of another group", message.BehaviorAsk, false, "safe", "", []*toolcall.Call{other}, toolcall.Decided{}, nil},
		{"a serial tool hides behind nothing", message.BehaviorAsk, false, "serial", "", []*toolcall.Call{asking}, toolcall.Decided{}, nil},
		{"an earlier call may still ask", message.BehaviorAsk, false, "safe", "", []*toolcall.Call{call("p", "safe", message.ToolCallPending)}, nil, decide.ErrUndecided},
		{"an earlier call is hidden itself", message.BehaviorAsk, false, "safe", "", []*toolcall.Call{asking, behind}, toolcall.Hidden{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := call("c", tt.tool, message.ToolCallPending)
			c.Behind = tt.behind
			v := decide.Verdict{Decision: permission.Decision{Behavior: tt.behavior, BypassImmune: tt.immune, Bundle: "b1"}}
			ev, err := judge().Event(t.Context(), decide.Snapshot{Call: c, Now: now, Earlier: tt.earlier}, v)
			if !errors.Is(err, tt.err) || reflect.TypeOf(ev) != reflect.TypeOf(tt.want) {
				t.Fatalf("Event = %T, %v; want %T, %v", ev, err, tt.want, tt.err)
			}
			if d, ok := ev.(toolcall.Decided); ok && (d.Decision.Behavior != tt.behavior || d.Digest == "" || d.At != now) {
				t.Errorf("the event is %+v", d)
			}
			if h, ok := ev.(toolcall.Hidden); ok && h.Behind != "a" {
				t.Errorf("the call is hidden behind %q", h.Behind)
			}
		})
	}
}

// A deny rule that cannot be evaluated denies a call that was allowed under another bundle.
// Under the same bundle the decision has already taken it into account.
func TestIsDeniedNow(t *testing.T) {
	tests := []struct {
		name   string
		bundle string
		waited time.Duration
		want   bool
	}{
		{"another bundle", "b1", 0, true},
		{"the same bundle, at once", "b2", 0, false},
		{"the same bundle, later", "b2", time.Minute, false},
	}
	for _, tt := range tests {
		c := call("c", "safe", message.ToolCallAllowed)
		c.Decision = &toolcall.Decision{Bundle: tt.bundle}
		d, denied := judge().IsDeniedNow(t.Context(), decide.Snapshot{Call: c, Now: now.Add(tt.waited)})
		if denied != tt.want || denied && d.Behavior != message.BehaviorDeny {
			t.Errorf("%s: IsDeniedNow = %+v, %t; want %t", tt.name, d, denied, tt.want)
		}
	}
}

// denies is a policy whose deny rules have come into force.
type denies struct{ policy }

func (denies) Denied(context.Context, permission.Request) (permission.Decision, bool) {
	return permission.Decision{Behavior: message.BehaviorDeny}, true
}

// A call may have waited although the clock, or that of another engine, says that it has not.
func TestIsDeniedNowAfterClockSetBack(t *testing.T) {
	c := call("c", "safe", message.ToolCallAllowed)
	c.Decision = &toolcall.Decision{Bundle: "b2"}
	j := decide.NewJudge(denies{}, nil, decide.Settings{})
	if _, denied := j.IsDeniedNow(t.Context(), decide.Snapshot{Call: c, Now: now.Add(-time.Hour)}); !denied {
		t.Error("deny rules are not checked")
	}
}

// A call is denied if rules demand something of its run that the engine cannot enforce.
func TestEnforce(t *testing.T) {
	tests := []struct {
		name, tool string
		run        permission.Executor
		want       message.Behavior
	}{
		{"nothing demanded", "outside", permission.Executor{}, message.BehaviorAllow},
		{"a timeout of a worker", "safe", permission.Executor{Timeout: time.Second}, message.BehaviorAllow},
		{"a timeout of an external tool", "outside", permission.Executor{Timeout: time.Second}, message.BehaviorDeny},
		{"workers for an external tool", "outside", permission.Executor{Subject: "gpu"}, message.BehaviorDeny},
		{"a subject that is too long", "safe", permission.Executor{Subject: strings.Repeat("x", 257)}, message.BehaviorDeny},
	}
	for _, tt := range tests {
		d, ok := judge().Enforce(call("c", tt.tool, message.ToolCallPending), permission.Decision{Behavior: message.BehaviorAllow, Executor: tt.run})
		if d.Behavior != tt.want || ok != (tt.want == message.BehaviorAllow) {
			t.Errorf("%s: Enforce = %s, %t; want %s", tt.name, d.Behavior, ok, tt.want)
		}
	}
}
