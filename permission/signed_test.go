package permission_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// One rule that requires signatures is enough. Signing is a separate duty, and it changes the
// hash of the policy.
func TestSignedJoins(t *testing.T) {
	ask := func(signed ...bool) *permission.Bundle {
		t.Helper()
		var p permission.Policy
		for i, s := range signed {
			p.Rules = append(p.Rules, permission.Rule{Name: string(rune('a' + i)), Tools: []string{"t"}, Behavior: message.BehaviorAsk, Signed: s})
		}
		b, err := permission.Compile(p, everything())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tc := range []struct {
		rules []bool
		want  bool
	}{{[]bool{false, false}, false}, {[]bool{true, false}, true}, {[]bool{false, true}, true}, {[]bool{true}, true}} {
		d := ask(tc.rules...).Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`)})
		if d.Requirement.Signed != tc.want || slices.Contains(d.Duties(), permission.DutySigned) != tc.want || d.Requirement.Issue(time.Now()).Signed != tc.want {
			t.Errorf("%v: signed %v, duties %v", tc.rules, d.Requirement.Signed, d.Duties())
		}
	}
	if ask(true).Hash() == ask(false).Hash() {
		t.Error("the hash does not depend on whether signatures are required")
	}
}

func TestSignedIsForAsk(t *testing.T) {
	for _, b := range []message.Behavior{message.BehaviorAllow, message.BehaviorDeny} {
		_, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"t"}, Behavior: b, Signed: true}}}, everything())
		if err == nil || !strings.Contains(err.Error(), "signed: is only for ask rules") {
			t.Errorf("%s: %v", b, err)
		}
	}
	// An engine that does not enforce signatures refuses the rule.
	_, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"t"}, Behavior: message.BehaviorAsk, Signed: true}}}, permission.Options{AllowUnknownTools: true})
	if err == nil || !strings.Contains(err.Error(), "signed: is not enforced yet") {
		t.Errorf("signatures that are not enforced: %v", err)
	}
}
