package permission_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// This file decides calls a second time, by the table in doc.go: slowly, without compiling, and
// with conditions that are Go functions.

// answer is what a condition says about a call.
type answer int

const (
	no answer = iota
	yes
	fails
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

// oracleCall is a call with one number and one text. Both may be missing.
type oracleCall struct {
	n    *int64
	s    *string
	hour int
}

func (c oracleCall) input() string {
	var parts []string
	if c.n != nil {
		parts = append(parts, fmt.Sprintf(`"n": %d`, *c.n))
	}
	if c.s != nil {
		parts = append(parts, fmt.Sprintf(`"s": %q`, *c.s))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (c oracleCall) number(f func(int64) bool) answer {
	if c.n == nil {
		return fails
	}
	return answerOf(f(*c.n))
}

func (c oracleCall) text(f func(string) bool) answer {
	if c.s == nil {
		return fails
	}
	return answerOf(f(*c.s))
}

// both is CEL's &&: false wins over an error.
func both(a, b answer) answer {
	switch {
	case a == no || b == no:
		return no
	case a == fails || b == fails:
		return fails
	}
	return yes
}

// either is CEL's ||: true wins over an error.
func either(a, b answer) answer {
	switch {
	case a == yes || b == yes:
		return yes
	case a == fails || b == fails:
		return fails
	}
	return no
}

func invert(a answer) answer {
	switch a {
	case yes:
		return no
	case no:
		return yes
	}
	return fails
}

type condition struct {
	cel  string
	eval func(oracleCall) answer
}

var atoms = []condition{
	{`args.n > 5`, func(c oracleCall) answer { return c.number(func(n int64) bool { return n > 5 }) }},
	{`args.n == 7`, func(c oracleCall) answer { return c.number(func(n int64) bool { return n == 7 }) }},
	{`args.n != 7`, func(c oracleCall) answer { return c.number(func(n int64) bool { return n != 7 }) }},
	{`args.n in [1, 7, 9]`, func(c oracleCall) answer {
		return c.number(func(n int64) bool { return slices.Contains([]int64{1, 7, 9}, n) })
	}},
	{`100 / args.n >= 10`, func(c oracleCall) answer {
		if c.n == nil || *c.n == 0 {
			return fails
		}
		return answerOf(100 / *c.n >= 10)
	}},
	{`args.s == "a"`, func(c oracleCall) answer { return c.text(func(s string) bool { return s == "a" }) }},
	{`args.s.startsWith("b")`, func(c oracleCall) answer { return c.text(func(s string) bool { return strings.HasPrefix(s, "b") }) }},
	{`size(args.s) == 1`, func(c oracleCall) answer { return c.text(func(s string) bool { return len([]rune(s)) == 1 }) }},
	{`has(args.n)`, func(c oracleCall) answer { return answerOf(c.n != nil) }},
	{`args.?s.orValue("") == ""`, func(c oracleCall) answer { return answerOf(c.s == nil || *c.s == "") }},
	{`ctx.now.getHours() >= 8`, func(c oracleCall) answer { return answerOf(c.hour >= 8) }},
	{`tool.name != "u"`, func(oracleCall) answer { return yes }},
	{`caller.tenant == "x"`, func(oracleCall) answer { return fails }},
	{`false`, func(oracleCall) answer { return no }},
}

func drawCondition(t *rapid.T, depth int) condition {
	kind := rapid.IntRange(0, 6).Draw(t, "condition")
	if depth == 0 || kind < 3 {
		return rapid.SampledFrom(atoms).Draw(t, "atom")
	}
	a := drawCondition(t, depth-1)
	if kind == 3 {
		return condition{"!(" + a.cel + ")", func(c oracleCall) answer { return invert(a.eval(c)) }}
	}
	b := drawCondition(t, depth-1)
	if kind == 4 {
		return condition{"(" + a.cel + " || " + b.cel + ")", func(c oracleCall) answer { return either(a.eval(c), b.eval(c)) }}
	}
	return condition{a.cel + " && " + b.cel, func(c oracleCall) answer { return both(a.eval(c), b.eval(c)) }}
}

// oracleRule is a rule with its condition.
type oracleRule struct {
	permission.Rule
	cond condition
}

func drawOracleRule(t *rapid.T, name string) oracleRule {
	r := oracleRule{Rule: permission.Rule{Name: name, Source: "test", Behavior: rapid.SampledFrom(behaviors).Draw(t, "behavior")}}
	tools := [][]string{{"t"}, {"u"}, {"u", "t"}, {"srv/*"}, {permission.AnyTool}}
	if r.Behavior == message.BehaviorAllow {
		tools = tools[:4]
	}
	r.Tools = rapid.SampledFrom(tools).Draw(t, "tools")
	r.cond = condition{"", func(oracleCall) answer { return yes }}
	if rapid.IntRange(0, 3).Draw(t, "conditional") > 0 {
		r.cond = drawCondition(t, 2)
	}
	r.When = r.cond.cel
	if r.Behavior != message.BehaviorAllow {
		r.OnError = rapid.SampledFrom([]permission.OnError{"", "", permission.OnErrorAsk, permission.OnErrorDeny}).Draw(t, "on_error")
		r.Locked = rapid.IntRange(0, 4).Draw(t, "locked") == 0
	}
	if !r.Locked && rapid.IntRange(0, 6).Draw(t, "watched") == 0 {
		r.Enforcement = rapid.SampledFrom([]permission.Enforcement{permission.EnforcementWarn, permission.EnforcementAudit}).Draw(t, "enforcement")
	}
	if r.Behavior == message.BehaviorAsk {
		drawDuties(t, &r.Rule)
	}
	if r.Behavior == message.BehaviorAllow && rapid.IntRange(0, 3).Draw(t, "budget") == 0 {
		r.Budget = &permission.Budget{Calls: 3, Per: rapid.SampledFrom([][]string{nil, {"session"}, {"agent"}, {"tool", "requester"}}).Draw(t, "per")}
		if rapid.Bool().Draw(t, "sum") {
			r.Budget.Sum, r.Budget.AtMost = "args.n", "100"
		}
	}
	if r.Behavior != message.BehaviorDeny && rapid.IntRange(0, 4).Draw(t, "routes") == 0 {
		r.Executor = permission.Executor{Subject: rapid.SampledFrom([]string{"", "exec.a", "exec.b"}).Draw(t, "subject"), Timeout: rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "timeout")}
	}
	if r.When != "" && r.Behavior != message.BehaviorDeny {
		r.Recheck = rapid.IntRange(0, 4).Draw(t, "recheck") == 0
	}
	if rapid.IntRange(0, 5).Draw(t, "redacts") == 0 {
		r.Redact = rapid.SampledFrom([][]string{{"args.n"}, {"args.s"}, {"args.s", "args.n"}}).Draw(t, "redact")
	}
	return r
}

func drawDuties(t *rapid.T, r *permission.Rule) {
	r.Approvers.Users = rapid.SampledFrom([][]string{nil, nil, {"ann"}, {"bob", "ann"}, {"cid", "bob", "Ann"}, {"ann", "Ann", "dan"}}).Draw(t, "users")
	r.Approvers.Groups = rapid.SampledFrom([][]string{nil, nil, nil, {"ops"}}).Draw(t, "groups")
	r.Approvers.ExcludeRequester = rapid.IntRange(0, 3).Draw(t, "exclude requester") == 0
	r.Approvers.ExcludeEditor = rapid.IntRange(0, 3).Draw(t, "exclude editor") == 0
	r.Quorum = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "quorum")
	r.Signed = rapid.IntRange(0, 5).Draw(t, "signed") == 0
	r.Expiry = rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "expiry")
	if len(r.Approvers.Users) > 0 && rapid.IntRange(0, 3).Draw(t, "escalates") == 0 {
		r.Escalation = []permission.Escalation{{After: 30 * time.Second, To: permission.Approvers{Users: []string{"eve"}}}}
		if r.Expiry > 0 && rapid.Bool().Draw(t, "on_expiry") {
			r.OnExpiry = permission.OnExpiryEscalate
		}
	}
	if len(r.Approvers.Users) == 1 && len(r.Approvers.Groups) == 0 && r.Escalation == nil {
		r.Quorum = min(r.Quorum, 1) // the policy is refused if more must approve than can
	}
	if rapid.IntRange(0, 2).Draw(t, "remembers") == 0 {
		r.Remember = &permission.Remember{Scope: rapid.SampledFrom([][]string{nil, {"caller.user"}, {"caller.session", "args.n"}}).Draw(t, "scope"), TTL: rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(t, "ttl"), Uses: rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "uses")}
	}
}

// oracle is one policy and one call.
type oracle struct {
	rules     []oracleRule
	call      oracleCall
	mode      permission.Mode
	tool      string // t, or an undeclared one that is named after the server of t
	readOnly  bool
	check     permission.CheckResult
	session   []message.PermissionRule
	user      string
	exhausted []string
	expiry    time.Duration
}

// verdict is the part of a decision that the oracle knows.
type verdict struct {
	Behavior message.Behavior
	Step     permission.Step
	Rule     string
	Immune   bool
	Budget   string
	Redact   string
	Executor permission.Executor
	Recheck  string
	Need     string
	Watched  string
}

func (o oracle) about(r oracleRule) bool {
	return slices.ContainsFunc(r.Tools, func(name string) bool {
		return name == permission.AnyTool || name == o.tool || name == "srv/*" && (o.tool == "t" || r.Behavior != message.BehaviorAllow)
	})
}

func (o oracle) of(b message.Behavior, watched bool) (out []oracleRule) {
	for _, r := range o.rules {
		if r.Behavior == b && o.about(r) && r.isWatched() == watched {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b oracleRule) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (o oracle) remembers(b message.Behavior) bool {
	return slices.ContainsFunc(o.session, func(r message.PermissionRule) bool { return r.Behavior == b })
}

func (r oracleRule) isWatched() bool { return r.Enforcement != "" }

// hardens reports whether an error in a rule denies.
func (r oracleRule) hardens() bool {
	return r.OnError == permission.OnErrorDeny || r.OnError == "" && r.Locked
}

func (o oracle) handling() (redact []string, x permission.Executor, conflict bool) {
	for _, r := range o.rules {
		a := r.cond.eval(o.call)
		if !o.about(r) || a == no || r.isWatched() {
			continue
		}
		redact = append(redact, r.Redact...)
		if a == fails && r.Behavior == message.BehaviorAllow {
			continue
		}
		if s := r.Executor.Subject; s != "" {
			conflict = conflict || x.Subject != "" && x.Subject != s
			x.Subject = s
		}
		if d := r.Executor.Timeout; d > 0 && (x.Timeout == 0 || d < x.Timeout) {
			x.Timeout = d
		}
	}
	slices.Sort(redact)
	return slices.Compact(redact), x, conflict
}

func (o oracle) decide() verdict {
	v := o.steps()
	redact, x, conflict := o.handling()
	if conflict && v.Behavior != message.BehaviorDeny {
		v = verdict{Behavior: message.BehaviorDeny, Step: v.Step, Rule: v.Rule}
	}
	v.Redact = strings.Join(redact, " ")
	if v.Behavior != message.BehaviorDeny {
		v.Executor = x
	}
	var watched []string
	for _, b := range behaviors {
		for _, r := range o.of(b, true) {
			if a := r.cond.eval(o.call); a != no {
				watched = append(watched, fmt.Sprint(r.Name, a == fails))
			}
		}
	}
	slices.Sort(watched)
	v.Watched = strings.Join(watched, " ")
	return v
}

const bySession = permission.SessionRuleName

func (o oracle) steps() verdict {
	deny := func(step permission.Step, rule string) verdict {
		return verdict{Behavior: message.BehaviorDeny, Step: step, Rule: rule}
	}
	// 1: a deny rule
	var failing []oracleRule
	hard := ""
	for _, r := range o.of(message.BehaviorDeny, false) {
		switch r.cond.eval(o.call) {
		case yes:
			return deny(permission.StepRule, r.Name)
		case fails:
			if !r.hardens() {
				failing = append(failing, r)
			} else if hard == "" {
				hard = r.Name
			}
		}
	}
	if o.remembers(message.BehaviorDeny) {
		return deny(permission.StepRule, bySession)
	}
	if hard != "" {
		return deny(permission.StepError, hard)
	}
	// 2: an ask rule
	var asking, broken []oracleRule
	for _, r := range o.of(message.BehaviorAsk, false) {
		switch r.cond.eval(o.call) {
		case yes:
			asking = append(asking, r)
		case fails:
			if r.hardens() {
				return deny(permission.StepError, r.Name)
			}
			broken = append(broken, r)
		}
	}
	if o.remembers(message.BehaviorAsk) {
		asking = append(asking, oracleRule{Rule: permission.Rule{Name: bySession, Behavior: message.BehaviorAsk}})
	}
	failing = append(failing, broken...)
	all := slices.Concat(asking, failing)
	ask := verdict{}
	if len(all) > 0 {
		ask = o.ask(all, len(asking) == 0, len(failing) > 0)
		if ask.Behavior == message.BehaviorDeny {
			return ask
		}
	}
	asks := len(all) > 0
	w, decided := o.withoutRules()
	switch {
	case asks && decided && w.Behavior == message.BehaviorDeny:
		return w
	case asks:
		return ask
	case decided:
		return w
	}
	// 5: an allow rule
	return o.allow()
}

// withoutRules takes steps 3 and 4, and step 6 of explore mode.
func (o oracle) withoutRules() (verdict, bool) {
	v := verdict{Behavior: message.BehaviorAllow, Step: permission.StepReadOnly}
	if o.readOnly {
		return v, true
	}
	if o.mode == permission.ModeExplore {
		return verdict{Behavior: message.BehaviorDeny, Step: permission.StepFallbackExplore}, true
	}
	switch o.check {
	case permission.CheckAllow:
		return verdict{Behavior: message.BehaviorAllow, Step: permission.StepToolCheck}, true
	case permission.CheckDeny:
		return verdict{Behavior: message.BehaviorDeny, Step: permission.StepToolCheck}, true
	case permission.CheckAskImmune:
		switch o.mode {
		case permission.ModeBypass:
			return verdict{}, false
		case permission.ModeDontAsk:
			return verdict{Behavior: message.BehaviorDeny, Step: permission.StepAskConverted}, true
		}
		return verdict{Behavior: message.BehaviorAsk, Step: permission.StepToolCheck, Immune: true, Need: o.need(permission.Requirement{Expiry: o.expiry})}, true
	case permission.CheckUncovered:
		switch o.mode {
		case permission.ModeBypass:
			return verdict{}, false
		case permission.ModeDontAsk:
			return verdict{Behavior: message.BehaviorDeny, Step: permission.StepFallbackDontAsk}, true
		}
		return verdict{Behavior: message.BehaviorAsk, Step: permission.StepFallbackAsk, Need: o.need(permission.Requirement{Expiry: o.expiry})}, true
	}
	return verdict{}, false
}

func (o oracle) allow() verdict {
	unsure := false
	allow := verdict{Behavior: message.BehaviorAllow, Step: permission.StepAllowRule}
	rules := o.of(message.BehaviorAllow, false)
	for _, r := range rules {
		if r.Budget != nil {
			continue
		}
		switch r.cond.eval(o.call) {
		case yes:
			allow.Rule = r.Name
			if r.Recheck {
				allow.Recheck = r.Name
			}
			return allow
		case fails:
			unsure = true
		}
	}
	if o.remembers(message.BehaviorAllow) {
		allow.Rule = bySession
		return allow
	}
	for _, r := range rules {
		if r.Budget == nil {
			continue
		}
		switch r.cond.eval(o.call) {
		case fails:
			unsure = true
		case yes:
			if slices.Contains(o.exhausted, r.Name) {
				continue
			}
			if r.Budget.Sum != "" && (o.call.n == nil || *o.call.n < 0) {
				unsure = true
				continue
			}
			allow.Rule, allow.Budget = r.Name, r.Name
			if r.Budget.Sum != "" {
				allow.Budget += fmt.Sprint(" ", *o.call.n)
			}
			if r.Recheck {
				allow.Recheck = r.Name
			}
			return allow
		}
	}
	need := o.need(permission.Requirement{Expiry: o.expiry})
	switch {
	case o.mode == permission.ModeDontAsk:
		return verdict{Behavior: message.BehaviorDeny, Step: permission.StepFallbackDontAsk}
	case o.mode == permission.ModeBypass && unsure:
		return verdict{Behavior: message.BehaviorAsk, Step: permission.StepError, Need: need}
	case o.mode == permission.ModeBypass:
		return verdict{Behavior: message.BehaviorAllow, Step: permission.StepFallbackBypass}
	}
	return verdict{Behavior: message.BehaviorAsk, Step: permission.StepFallbackAsk, Need: need}
}

// ask joins the rules that ask.
func (o oracle) ask(rules []oracleRule, onlyFailed, someFailed bool) verdict {
	step := permission.StepRule
	if onlyFailed {
		step = permission.StepError
	}
	if _, _, conflict := o.handling(); conflict {
		return verdict{Behavior: message.BehaviorDeny, Step: permission.StepRule, Rule: rules[0].Name}
	}
	var need permission.Requirement
	var lists [][]string
	enough, every := true, 1
	for _, r := range rules {
		if len(r.Approvers.Users)+len(r.Approvers.Groups) == 0 {
			every = max(every, r.Quorum)
		}
	}
	need.Quorum = every
	for _, r := range rules {
		need.ExcludeRequester = need.ExcludeRequester || r.Approvers.ExcludeRequester
		need.ExcludeEditor = need.ExcludeEditor || r.Approvers.ExcludeEditor
		need.Signed = need.Signed || r.Signed
		if r.Expiry > 0 && (need.Expiry == 0 || r.Expiry < need.Expiry) {
			need.Expiry = r.Expiry
		}
	}
	if need.Expiry == 0 {
		need.Expiry = o.expiry
	}
	people := func(names []string, quorum int) bool {
		left := map[string]bool{}
		for _, n := range names {
			if n = strings.ToLower(n); !need.ExcludeRequester || n != strings.ToLower(o.user) {
				left[n] = true
			}
		}
		return len(left) >= quorum
	}
	need.OnExpiry = permission.OnExpiryEscalate
	for _, r := range rules {
		if r.OnExpiry != permission.OnExpiryEscalate {
			need.OnExpiry = permission.OnExpiryDeny
		}
		a := r.Approvers
		switch {
		case len(a.Users)+len(a.Groups) == 0:
		case len(a.Groups) == 0 && len(r.Escalation) == 0:
			lists, need.Quorum = append(lists, a.Users), max(need.Quorum, r.Quorum)
		default:
			need.Approvers = append(need.Approvers, permission.ApproverSet{Rule: r.Name, Quorum: max(every, r.Quorum), Users: a.Users, Groups: a.Groups, Escalation: r.Escalation})
			if len(a.Groups) == 0 {
				all := slices.Clone(a.Users)
				for _, e := range r.Escalation {
					all = append(all, e.To.Users...)
				}
				enough = enough && people(all, max(every, r.Quorum))
			}
		}
	}
	if len(lists) > 0 {
		for _, name := range lists[0] {
			if !slices.ContainsFunc(lists[1:], func(l []string) bool { return !slices.Contains(l, name) }) {
				need.Users = append(need.Users, name)
			}
		}
		enough = enough && people(need.Users, need.Quorum)
	}
	if !enough {
		return verdict{Behavior: message.BehaviorDeny, Step: permission.StepRule, Rule: rules[0].Name}
	}
	if o.mode == permission.ModeDontAsk {
		return verdict{Behavior: message.BehaviorDeny, Step: permission.StepAskConverted, Rule: rules[0].Name}
	}
	if all := !slices.ContainsFunc(rules, func(r oracleRule) bool { return r.Remember == nil }); all && !someFailed {
		need.Remember = &permission.Remember{}
		for _, r := range rules {
			m := r.Remember
			need.Remember.Scope = append(need.Remember.Scope, m.Scope...)
			if need.Remember.TTL == 0 || m.TTL < need.Remember.TTL {
				need.Remember.TTL = m.TTL
			}
			if m.Uses > 0 && (need.Remember.Uses == 0 || m.Uses < need.Remember.Uses) {
				need.Remember.Uses = m.Uses
			}
		}
	}
	v := verdict{Behavior: message.BehaviorAsk, Step: step, Rule: rules[0].Name, Need: o.need(need)}
	var again []string
	for _, r := range rules {
		if r.Recheck {
			again = append(again, r.Name)
		}
	}
	v.Recheck = strings.Join(again, " ")
	return v
}

// denied reports whether a call is denied right before it starts: by deny rules, which need not deny
// if they fail, or by rules that must still hold.
func (o oracle) denied(again []string) bool {
	applies := func(r oracleRule) bool { return r.cond.eval(o.call) != no }
	holds := func(name string) bool {
		return slices.ContainsFunc(slices.Concat(o.of(message.BehaviorAsk, false), o.of(message.BehaviorAllow, false)), func(r oracleRule) bool {
			return r.Name == name && r.cond.eval(o.call) == yes
		})
	}
	return o.remembers(message.BehaviorDeny) || slices.ContainsFunc(o.of(message.BehaviorDeny, false), applies) ||
		slices.ContainsFunc(again, func(name string) bool { return !holds(name) })
}

// need writes a requirement so that two that mean the same are equal.
func (o oracle) need(r permission.Requirement) string {
	sets := []string{}
	for _, s := range r.Approvers {
		sets = append(sets, fmt.Sprint(s.Rule, max(cmp.Or(s.Quorum, r.Quorum), 1), slices.Sorted(slices.Values(s.Users)), s.Groups, s.Escalation))
	}
	slices.Sort(sets)
	onExpiry := r.OnExpiry
	if onExpiry == "" {
		onExpiry = permission.OnExpiryDeny
	}
	remember := "none"
	if m := r.Remember; m != nil {
		remember = fmt.Sprint(slices.Compact(slices.Sorted(slices.Values(m.Scope))), m.TTL, m.Uses)
	}
	quorum := max(r.Quorum, 1)
	if len(r.Users) == 0 && len(sets) > 0 {
		quorum = 0 // each set has its own
	}
	return fmt.Sprint(slices.Sorted(slices.Values(r.Users)), sets, quorum, r.ExcludeRequester, r.ExcludeEditor, r.Signed, r.Expiry, onExpiry, remember)
}

func (o oracle) verdictOf(d permission.Decision) verdict {
	v := verdict{Behavior: d.Behavior, Step: d.Step, Rule: d.Rule, Immune: d.BypassImmune, Redact: strings.Join(d.Redact, " "), Executor: d.Executor, Recheck: strings.Join(d.Recheck, " ")}
	if d.Budget != nil {
		v.Budget = strings.TrimSpace(d.Budget.Rule + " " + d.Budget.Amount)
	}
	if d.Behavior == message.BehaviorAsk {
		v.Need = o.need(d.Requirement)
	}
	var watched []string
	for _, w := range d.Watched {
		watched = append(watched, fmt.Sprint(w.Rule, w.Failed))
	}
	slices.Sort(watched)
	v.Watched = strings.Join(watched, " ")
	return v
}

// The engine of rules and the oracle decide every call alike, and so does Explain.
func TestDecisionsAreDocumented(t *testing.T) {
	duties := append(slices.Clone(allDuties), permission.DutyBudget, permission.DutyRecheck)
	rapid.Check(t, func(t *rapid.T) {
		o := oracle{
			mode:     rapid.SampledFrom(allModes).Draw(t, "mode"),
			readOnly: rapid.IntRange(0, 4).Draw(t, "read-only") == 0,
			check:    permission.CheckResult(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4, 5}).Draw(t, "check")),
			tool:     "t",
			user:     rapid.SampledFrom([]string{"ann", "zoe"}).Draw(t, "user"),
			expiry:   rapid.SampledFrom([]time.Duration{0, 10 * time.Minute}).Draw(t, "expiry"),
		}
		if rapid.IntRange(0, 4).Draw(t, "undeclared") == 0 {
			o.tool, o.readOnly, o.check = rapid.SampledFrom([]string{"srv.x", "mcp__srv__x"}).Draw(t, "tool"), false, permission.CheckPassthrough
		}
		o.call.hour = rapid.SampledFrom([]int{3, 12}).Draw(t, "hour")
		if rapid.IntRange(0, 3).Draw(t, "has n") > 0 {
			o.call.n = new(rapid.SampledFrom([]int64{-1, 0, 1, 6, 7, 9007199254740993}).Draw(t, "n"))
		}
		if rapid.IntRange(0, 3).Draw(t, "has s") > 0 {
			o.call.s = new(rapid.SampledFrom([]string{"", "a", "bc", "é"}).Draw(t, "s"))
		}
		for _, b := range behaviors {
			if rapid.IntRange(0, 7).Draw(t, "session "+string(b)) == 0 {
				o.session = append(o.session, message.PermissionRule{ToolName: o.tool, Behavior: b, Source: "user"})
			}
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "rules") {
			o.rules = append(o.rules, drawOracleRule(t, fmt.Sprintf("r%d", i)))
		}
		o.exhausted = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"r0", "r1", "r2", "r3"}), rapid.ID).Draw(t, "exhausted")

		policy := permission.Policy{Expiry: o.expiry}
		for _, r := range rapid.Permutation(o.rules).Draw(t, "order") {
			policy.Rules = append(policy.Rules, r.Rule)
		}
		tool := permission.Tool{Name: "t", Server: "srv", ReadOnly: o.readOnly, Check: answers(o.check)} // undeclared tools have neither
		if rapid.Bool().Draw(t, "typed") {
			s, err := permission.CompileSchema([]byte(`{"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 9}}}`))
			if err != nil {
				t.Fatal(err)
			}
			tool.Schema = s
		}
		b, err := permission.Compile(policy, permission.Options{Tools: []permission.Tool{tool, {Name: "u", Server: "srv2"}}, Enforced: duties, Unhurried: true})
		if err != nil {
			t.Fatal(err)
		}
		req := permission.Request{
			Tool: o.tool, Input: []byte(o.call.input()), Mode: o.mode, SessionRules: o.session, Now: time.Date(2026, 3, 1, o.call.hour, 0, 0, 0, time.UTC),
			Caller: permission.Caller{User: o.user, Session: "s", Agent: "a"},
		}
		for _, name := range o.exhausted {
			req.Exhausted = append(req.Exhausted, permission.Exhausted{Rule: name, Why: "spent"})
		}
		want := o.decide()
		if got := o.verdictOf(b.Decide(context.Background(), req)); got != want {
			t.Fatalf("input %s: decided\n%+v, the documents say\n%+v", req.Input, got, want)
		}
		if got := o.verdictOf(b.Explain(context.Background(), req).Decided); got != want {
			t.Fatalf("input %s: explained\n%+v, the documents say\n%+v", req.Input, got, want)
		}
		req.Recheck = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"r0", "r1", "r2", "gone"}), rapid.ID).Draw(t, "recheck")
		if d, denied := b.Denied(context.Background(), req); denied != o.denied(req.Recheck) || denied && d.Behavior == message.BehaviorAllow {
			t.Fatalf("input %s: denied before its start: %v by %+v, the documents say %v", req.Input, denied, o.verdictOf(d), !denied)
		}
	})
}
