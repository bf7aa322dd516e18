package engine_test

import (
	"fmt"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func recordCases() []engineCase {
	return []engineCase{
		{"the explanation of a decision", explanationKept},
		{"of decisions about edits", explanationOfEdits},
		{"of a later denial", explanationOfLateDenial},
		{"without hidden values", explanationHides},
		{"only of decisions whose rule asks for it", explanationUnwanted},
		{"that is too large", explanationTooLarge},
		{"outlives an engine and its policy", explanationOutlives},
	}
}

// audited makes the rules record their explanations.
func audited(rules ...permission.Rule) []permission.Rule {
	for i := range rules {
		rules[i].Audit = permission.AuditFull
	}
	return rules
}

// kept holds the parts of a recorded explanation that these tests check.
type kept struct {
	Decision  message.Behavior `json:"decision"`
	Rule      string           `json:"rule"`
	Bundle    string           `json:"bundle"`
	Truncated bool             `json:"truncated"`
	Trace     []struct {
		Rule    string `json:"rule"`
		Matched bool   `json:"matched"`
	} `json:"trace"`
}

// explanations returns the explanations in the event records of a call, "" for none.
func (w *world) explanations(key toolcall.Key) []string {
	w.Helper()
	records, err := w.journal.History(w.Context(), key)
	w.must(err)
	var out []string
	for _, r := range records {
		out = append(out, string(r.Record.Explanation))
	}
	return out
}

// recorded returns the recorded explanation as a principal of the role receives it.
func (r *replica) recorded(key toolcall.Key, role toolcall.Role) (kept, string) {
	r.w.Helper()
	reply, err := r.as(role, "eve").Explain(r.w.Context(), toolcall.ExplainRequest{Key: key})
	r.w.must(err)
	var k kept
	if reply.Recorded != nil {
		r.w.must(strictjson.UnmarshalOpen(reply.Recorded, &k))
	}
	return k, string(reply.Recorded)
}

func explanationKept(w *world) {
	w.policy.use(w, audited(
		permission.Rule{Name: "free", Tools: []string{echo, remote}, Behavior: message.BehaviorAllow},
		permission.Rule{Name: "big", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.amount > 100"},
		permission.Rule{Name: "no-rm", Tools: []string{rm}, Behavior: message.BehaviorDeny})...)
	e := w.engine()
	for _, tc := range []struct {
		tool, input, rule string
		decision          message.Behavior
	}{
		{echo, `{}`, "free", message.BehaviorAllow}, {remote, `{}`, "free", message.BehaviorAllow},
		{pay, `{"amount":500}`, "big", message.BehaviorAsk}, {rm, `{}`, "no-rm", message.BehaviorDeny},
	} {
		c := e.propose(call(message.CallID(tc.tool), tc.tool, tc.input))[0]
		if all := w.explanations(c.Key); all[0] == "" {
			w.Errorf("the decision about %s is not explained", tc.tool)
		}
		for _, role := range []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor} {
			k, _ := e.recorded(c.Key, role)
			if k.Decision != tc.decision || k.Rule != tc.rule || k.Bundle != c.Decision.Bundle || k.Truncated || len(k.Trace) == 0 || !k.Trace[0].Matched {
				w.Errorf("to %s the decision about %s is explained as %+v", role, tc.tool, k)
			}
		}
		digest, err := c.Request.Digest()
		if err != nil || digest != c.Digest || strings.Contains(fmt.Sprintf("%+v", *c.Request), "trace") {
			w.Errorf("the approval request about %s has the digest %s, want %s (%v)", tc.tool, digest, c.Digest, err)
		}
	}
	_, err := e.bot().Explain(w.Context(), toolcall.ExplainRequest{Key: w.key(pay)})
	w.wantErr(err, message.ErrForbidden)
}

func explanationOfEdits(w *world) {
	w.policy.use(w, audited(
		permission.Rule{Name: "free", Tools: []string{pay}, Behavior: message.BehaviorAllow},
		permission.Rule{Name: "big", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.amount > 100"})...)
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	_, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":50}`))
	w.must(err)
	c := e.finished(q.Key)
	all := w.explanations(q.Key)
	if len(all) != 3 || !strings.Contains(all[0], "500") || all[1] == "" || strings.Contains(all[1], "500") || all[2] != "" {
		w.Errorf("the event records have the explanations %q", all)
	}
	if k, _ := e.recorded(q.Key, toolcall.RoleAuditor); k.Rule != "free" || k.Decision != message.BehaviorAllow || k.Bundle != c.Decision.Bundle {
		w.Errorf("the edited call is explained as %+v", k)
	}
}

func explanationOfLateDenial(w *world) {
	ask := permission.Rule{Name: "big", Tools: []string{pay}, Behavior: message.BehaviorAsk}
	w.policy.use(w, audited(ask)...)
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	w.policy.use(w, audited(ask, permission.Rule{Name: "closed", Tools: []string{pay}, Behavior: message.BehaviorDeny})...)
	c, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	if k, _ := e.recorded(q.Key, toolcall.RoleAuditor); c.Decision.Rule != "closed" || k.Rule != "closed" || k.Decision != message.BehaviorDeny {
		w.Errorf("%s, explained as %+v", describe(c), k)
	}
}

func explanationHides(w *world) {
	pin := pinRule()
	pin.Tools = []string{deploy}
	pin.When = `args.pin != "x" && args.n > 0`
	pin.Message = `"pin " + args.pin`
	w.policy.use(w, audited(pin)...)
	e := w.engine()
	q := e.propose(call("c", deploy, `{"pin":"`+secret+`","n":1}`))[0]
	all := w.explanations(q.Key)
	if all[0] == "" || strings.Contains(all[0], secret) {
		w.Errorf("the event record has the explanation %s", all[0])
	}
	if k, text := e.recorded(q.Key, toolcall.RoleApprover); k.Rule != "pin" || strings.Contains(text, secret) {
		w.Errorf("it is explained as %s", text)
	}
	rec, err := w.journal.Last(w.Context(), q.Key)
	w.must(err)
	text, err := strictjson.Marshal(rec.Record.Redacted())
	w.must(err)
	if strings.Contains(string(text), secret) || !strings.Contains(string(text), `"explanation":`) {
		w.Errorf("an export contains the event record %s", text)
	}
	e.wantHidden()
}

func explanationUnwanted(w *world) {
	w.policy.use(w, append(audited(permission.Rule{Name: "look", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.amount > 100"}),
		permission.Rule{Name: "free", Tools: []string{pay, echo}, Behavior: message.BehaviorAllow})...)
	e := w.engine()
	plain := e.propose(call("a", echo, `{}`))[0]
	for _, text := range w.explanations(plain.Key) {
		if text != "" {
			w.Errorf("a decision without audit has %s", text)
		}
	}
	if _, text := e.recorded(plain.Key, toolcall.RoleAuditor); text != "" {
		w.Errorf("the call is recorded with the explanation %s", text)
	}
	// The explanation of the decision before an edit does not apply to the decision after it.
	q := e.ask("c", pay, `{"amount":500}`)
	_, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":50}`))
	w.must(err)
	if _, text := e.recorded(q.Key, toolcall.RoleAuditor); text != "" {
		w.Errorf("the edited call is recorded with the explanation %s", text)
	}
}

func explanationTooLarge(w *world) {
	rules := audited(permission.Rule{Name: "look", Tools: []string{pay}, Behavior: message.BehaviorAsk})
	for i := range 300 {
		rules = append(rules, permission.Rule{Name: fmt.Sprintf("rule-%d-%s", i, strings.Repeat("x", 100)), Tools: []string{pay, echo}, Behavior: message.BehaviorAllow,
			When: fmt.Sprintf("args.amount == %d && args.note != %q", i, strings.Repeat("y", 200))})
	}
	w.policy.use(w, rules...)
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500,"note":"`+strings.Repeat("z", 100_000)+`"}`)
	k, text := e.recorded(q.Key, toolcall.RoleAuditor)
	if len(text) > 32<<10 || !k.Truncated || k.Rule != "look" || len(k.Trace) == 0 || k.Trace[0].Rule != "look" {
		w.Errorf("%d bytes are kept: truncated %v, rule %s, %d rules", len(text), k.Truncated, k.Rule, len(k.Trace))
	}
	_, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	e.finished(q.Key)
}

func explanationOutlives(w *world) {
	w.policy.use(w, audited(permission.Rule{Name: "look", Tools: []string{pay}, Behavior: message.BehaviorAsk})...)
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	_, before := e.recorded(q.Key, toolcall.RoleAuditor)
	e.kill()
	w.policy.use(w, permission.Rule{Name: "other", Tools: []string{pay}, Behavior: message.BehaviorAllow})
	other := w.engine()
	if _, after := other.recorded(q.Key, toolcall.RoleAuditor); before == "" || after != before {
		w.Errorf("the recorded explanation is %q, before it was %q", after, before)
	}
}
