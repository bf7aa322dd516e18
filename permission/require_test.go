package permission_test

import (
	gocmp "cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// everything enforces all duties, for policies that are only checked.
func everything(tools ...permission.Tool) permission.Options {
	return permission.Options{Tools: tools, Enforced: allDuties}
}

func TestAcceptedPolicy(t *testing.T) {
	refund := permission.Tool{Name: "stripe.refund", Server: "stripe", Schema: schema(t, `{"type": "object", "required": ["amount_cents", "customer_id"], "properties": {
		"amount_cents": {"type": "integer"}, "customer_id": {"type": "string"}, "customer": {"type": "object", "properties": {"email": {"type": "string"}}},
		"card": {"type": "object", "properties": {"number": {"type": "string"}, "month": {"type": "integer"}}}}}`)}
	opts := everything(refund, permission.Tool{Name: "Bash"})
	opts.Matchers = map[string]permission.Matcher{"Bash": anyContent{}}
	policy, err := permission.Parse(permission.File{Name: "payments.yaml", Data: readFile(t, "testdata/accepted/payments.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	b, err := permission.Compile(policy, opts)
	if err != nil {
		t.Fatal(err)
	}
	d := b.Decide(context.Background(), permission.Request{Tool: "stripe.refund", Now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC),
		Input:  []byte(`{"amount_cents": 60000, "customer_id": "c1", "card": {"number": "4242"}}`),
		Caller: permission.Caller{Tenant: "eu", User: "ann"}})
	want := permission.Decision{
		Behavior: message.BehaviorAsk, Step: permission.StepRule, Mode: permission.ModeDefault, Rule: "refund-large", Source: "payments-prod",
		Reason: `rule refund-large: args.amount_cents > 50000 && caller.tenant == 'eu'`, Message: "Refund of 600 EUR", Bundle: b.Hash(), Headline: true,
		Requirement: permission.Requirement{
			Approvers: []permission.ApproverSet{{Rule: "refund-large", Groups: []string{"finance"},
				Escalation: []permission.Escalation{{After: 10 * time.Minute, To: permission.Approvers{Groups: []string{"finance-leads"}}}}}},
			Quorum: 2, ExcludeRequester: true, Expiry: 30 * time.Minute, OnExpiry: permission.OnExpiryDeny,
			Remember: &permission.Remember{Scope: []string{"args.customer_id"}, TTL: time.Hour, Uses: 5},
		},
		Suggested: []message.PermissionRule{{ToolName: "stripe.refund", Behavior: message.BehaviorAllow, Source: "suggested"}},
		Redact:    []string{"args.card.*", "args.customer.email"}, Executor: permission.Executor{Subject: "exec.payments", Timeout: time.Minute},
		Audit: permission.AuditFull, Layer: permission.LayerProject,
		Watched: []permission.Watched{{Rule: "at-night", Behavior: message.BehaviorAsk, Enforcement: permission.EnforcementAudit}},
	}
	if diff := cmp.Diff(want, d, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	for person, want := range map[string]bool{"ann": false, "bob": true, "": false} {
		if got := accepts(d.Requirement, person, []string{"finance"}, 0); got != want {
			t.Errorf("finance's %q accepted: %v", person, got)
		}
	}
	for open, want := range map[time.Duration]bool{0: false, 10*time.Minute - 1: false, 10 * time.Minute: true} {
		if got := accepts(d.Requirement, "bob", []string{"finance-leads"}, open); got != want {
			t.Errorf("a lead after %v: %v", open, got)
		}
	}
	checkRequirementJSON(t, d.Requirement)
	checkPolicyTests(t, policy)
}

// accepts reports whether all rules accept a person once the approval request has been open for
// the given time, if ann requested the call, so that with a quorum of one the person could approve alone.
func accepts(r permission.Requirement, user string, groups []string, open time.Duration) bool {
	now := time.Unix(0, 0)
	req := r.Issue(now)
	req.Quorum, req.Requester = 0, "ann"
	for i := range req.Approvers {
		req.Approvers[i].Quorum = 0
	}
	step := 0
	for _, at := range req.Plan() {
		if !at.After(now.Add(open)) {
			step++
		}
	}
	ended := !req.Ends().IsZero() && !now.Add(open).Before(req.Ends())
	return !ended && req.ApprovesAlone(toolcall.Vote{By: toolcall.Principal{Name: user}, Groups: groups, Step: step})
}

func checkRequirementJSON(t *testing.T, r permission.Requirement) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"users":[],"approvers":[{"rule":"refund-large","users":[],"groups":["finance"],"escalation":[{"after_ms":600000,"users":[],"groups":["finance-leads"]}]}],` +
		`"quorum":2,"exclude_requester":true,"expiry_ms":1800000,"on_expiry":"deny","remember":{"scope":["args.customer_id"],"ttl_ms":3600000,"uses":5}}`
	if string(text) != want {
		t.Errorf("requirement as JSON:\n%s\nwant\n%s", text, want)
	}
}

func checkPolicyTests(t *testing.T, p permission.Policy) {
	t.Helper()
	if len(p.Tests) != 2 {
		t.Fatalf("%d tests", len(p.Tests))
	}
	first, second := p.Tests[0], p.Tests[1]
	if string(first.Call.Input) != `{"amount_cents":60000,"customer_id":"c1"}` || first.Call.Caller.Tenant != "eu" || *first.Expect.Rule != "refund-large" || *first.Expect.Quorum != 2 {
		t.Errorf("first test %+v", first)
	}
	if string(second.Call.Input) != `{"command":"git status\ntouch x"}` || second.Expect.Rule == nil || *second.Expect.Rule != "" || second.Expect.Quorum != nil {
		t.Errorf("second test %+v", second)
	}
	if at := second.Place(); at != (permission.Place{File: "payments.yaml", Line: 39, Col: 5}) {
		t.Errorf("the second test is at %+v", at)
	}
}

// drawAsk returns an ask rule with some requirements.
func drawAsk(t *rapid.T, name string) permission.Rule {
	names := func(label string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, func(s string) string { return s }).Draw(t, label)
	}
	minutes := func(label string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(t, label)) * time.Minute
	}
	r := permission.Rule{Name: name, Tools: []string{"t"}, Behavior: message.BehaviorAsk, Expiry: minutes("expiry", 5, 9),
		Redact: names("redact", "args.a", "args.b.*", "args.c")}
	r.Approvers = permission.Approvers{Users: names("users", "ann", "bob", "cid"), Groups: names("groups", "g", "h"), ExcludeRequester: rapid.Bool().Draw(t, "exclude")}
	if len(r.Approvers.Users)+len(r.Approvers.Groups) > 0 && rapid.Bool().Draw(t, "escalates") {
		r.Escalation = []permission.Escalation{{After: minutes("after", 1, 4), To: permission.Approvers{Users: []string{rapid.SampledFrom([]string{"ann", "dan"}).Draw(t, "to")}}}}
		r.OnExpiry = rapid.SampledFrom([]permission.OnExpiry{"", permission.OnExpiryDeny, permission.OnExpiryEscalate}).Draw(t, "on expiry")
	}
	if len(r.Approvers.Users) == 0 || len(r.Approvers.Groups) > 0 {
		r.Quorum = rapid.IntRange(0, 3).Draw(t, "quorum")
	}
	if rapid.Bool().Draw(t, "remembers") {
		r.Remember = &permission.Remember{Scope: names("scope", "args.a", "caller.user", "ctx.cwd"), TTL: minutes("ttl", 1, 9), Uses: rapid.IntRange(0, 3).Draw(t, "uses")}
	}
	return r
}

// The joint requirement of several rules is at least as strict as that of each rule, for every
// person at every time, and does not depend on their order.
func TestRequirementsJoinStrictly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rules []permission.Rule
		for i := range rapid.IntRange(1, 3).Draw(t, "rules") {
			rules = append(rules, drawAsk(t, fmt.Sprint("r", i)))
		}
		requester := rapid.SampledFrom([]string{"ann", "eve"}).Draw(t, "requester")
		ask := func(rules ...permission.Rule) permission.Decision {
			b, err := permission.Compile(permission.Policy{Rules: rules}, everything())
			if err != nil {
				t.Fatal(err)
			}
			return b.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{"a": "1"}`), Caller: permission.Caller{User: requester}})
		}
		all := ask(rules...)
		slices.Reverse(rules)
		other := ask(rules...)
		other.Bundle = all.Bundle
		if diff := cmp.Diff(all, other, cmpopts.IgnoreFields(permission.RuleError{}, "Err")); diff != "" {
			t.Fatalf("the order matters:\n%s", diff)
		}
		for _, r := range rules {
			one := ask(r)
			if one.Behavior == message.BehaviorDeny && all.Behavior != message.BehaviorDeny {
				t.Fatalf("rule %s on its own denies, but together they do not", r.Name)
			}
			if all.Behavior == message.BehaviorAsk {
				checkStricter(t, all, one)
			}
		}
	})
}

// needsAsMany reports whether the people of a rule, or of every part if it names no people, must
// approve as often in all as in one, the requirement of that rule.
func needsAsMany(all, one permission.Requirement) bool {
	if len(one.Users) > 0 {
		return max(all.Quorum, 1) >= max(one.Quorum, 1)
	}
	for _, s := range all.Approvers {
		isOf := len(one.Approvers) == 0 || one.Approvers[0].Rule == s.Rule
		if quorum := max(gocmp.Or(s.Quorum, all.Quorum), 1); isOf && quorum < max(one.Quorum, 1) {
			return false
		}
	}
	return len(one.Approvers) > 0 || max(all.Quorum, 1) >= max(one.Quorum, 1)
}

func checkStricter(t *rapid.T, all, one permission.Decision) {
	a, o := all.Requirement, one.Requirement
	if !needsAsMany(a, o) || o.ExcludeRequester && !a.ExcludeRequester || a.Expiry > o.Expiry {
		t.Fatalf("together %+v, on its own %+v", a, o)
	}
	if o.OnExpiry == permission.OnExpiryDeny && a.OnExpiry != permission.OnExpiryDeny {
		t.Fatalf("on expiry together %q, on its own %q", a.OnExpiry, o.OnExpiry)
	}
	for _, path := range one.Redact {
		if !slices.Contains(all.Redact, path) {
			t.Fatalf("%s is not redacted", path)
		}
	}
	if m := a.Remember; m != nil {
		if o.Remember == nil || m.TTL > o.Remember.TTL || o.Remember.Uses > 0 && (m.Uses == 0 || m.Uses > o.Remember.Uses) {
			t.Fatalf("standing approval together %+v, on its own %+v", m, o.Remember)
		}
		for _, path := range o.Remember.Scope {
			if !slices.Contains(m.Scope, path) {
				t.Fatalf("scope %v lacks %s", m.Scope, path)
			}
		}
	}
	for _, person := range []string{"ann", "bob", "cid", "dan", "eve"} {
		for _, groups := range [][]string{nil, {"g"}, {"h"}, {"g", "h"}} {
			for _, open := range []time.Duration{0, 2 * time.Minute, 6 * time.Minute, 12 * time.Minute} {
				if accepts(a, person, groups, open) && !accepts(o, person, groups, open) {
					t.Fatalf("together they accept %s of %v after %v, but %+v does not", person, groups, open, o)
				}
			}
		}
	}
}

// A requirement is read as it was written, except for the expiry.
func TestRequirementFromJSON(t *testing.T) {
	want := permission.Requirement{
		Users: []string{"ann"}, Quorum: 2, OnExpiry: permission.OnExpiryEscalate,
		Approvers: []permission.ApproverSet{{Rule: "r", Users: []string{}, Groups: []string{"ops"}, Escalation: []permission.Escalation{{After: time.Minute, To: permission.Approvers{Users: []string{"bob"}, Groups: []string{"boss"}}}}}},
		Remember:  &permission.Remember{Scope: []string{"args.id"}, TTL: time.Hour, Uses: 5},
	}
	raw, err := strictjson.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got permission.Requirement
	if err := strictjson.UnmarshalOpen(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s is read as %+v, %v", raw, got, err)
	}
	for _, bad := range []string{`{"remember":{"ttl_ms":"1h"}}`, `{"approvers":[{"escalation":[{"after_ms":"1h"}]}]}`} {
		if err := strictjson.UnmarshalOpen([]byte(bad), &got); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
