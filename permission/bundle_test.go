package permission_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Everything that can change a decision changes the hash. The order does not.
func TestHash(t *testing.T) {
	base := func() (permission.Policy, permission.Options) {
		r := rule("r", "ask", "true")
		r.Message, r.Description = `"m"`, "d"
		return permission.Policy{Mode: permission.ModeDefault, Expiry: time.Minute, Rules: []permission.Rule{r, rule("s", "deny", "false")}},
			permission.Options{Tools: []permission.Tool{{Name: "t"}, {Name: "u"}}, Matchers: map[string]permission.Matcher{"t": anyContent{}}}
	}
	hash := func(change func(*permission.Policy, *permission.Options)) string {
		p, o := base()
		change(&p, &o)
		b, err := permission.Compile(p, o)
		if err != nil {
			t.Fatal(err)
		}
		return b.Hash()
	}
	same := hash(func(*permission.Policy, *permission.Options) {})
	if !strings.HasPrefix(same, "sha256:") || len(same) != 7+64 {
		t.Errorf("hash %q", same)
	}
	for name, change := range map[string]func(*permission.Policy, *permission.Options){
		"order of rules": func(p *permission.Policy, _ *permission.Options) { p.Rules[0], p.Rules[1] = p.Rules[1], p.Rules[0] },
		"order of tools": func(_ *permission.Policy, o *permission.Options) { o.Tools[0], o.Tools[1] = o.Tools[1], o.Tools[0] },
		"default mode":   func(p *permission.Policy, _ *permission.Options) { p.Mode = "" },
		"default limits": func(_ *permission.Policy, o *permission.Options) { o.Limits = permission.DefaultLimits },
	} {
		if got := hash(change); got != same {
			t.Errorf("%s changes the hash", name)
		}
	}
	seen := map[string]string{same: "the base"}
	for name, change := range map[string]func(*permission.Policy, *permission.Options){
		"mode":         func(p *permission.Policy, _ *permission.Options) { p.Mode = permission.ModeBypass },
		"expiry":       func(p *permission.Policy, _ *permission.Options) { p.Expiry = time.Hour },
		"one rule":     func(p *permission.Policy, _ *permission.Options) { p.Rules = p.Rules[:1] },
		"name":         func(p *permission.Policy, _ *permission.Options) { p.Rules[0].Name = "q" },
		"description":  func(p *permission.Policy, _ *permission.Options) { p.Rules[0].Description = "x" },
		"tools":        func(p *permission.Policy, _ *permission.Options) { p.Rules[0].Tools = []string{"t", "u"} },
		"content":      func(p *permission.Policy, _ *permission.Options) { p.Rules[0].RuleContent = new("x") },
		"behavior":     func(p *permission.Policy, _ *permission.Options) { p.Rules[0].Behavior = "deny" },
		"source":       func(p *permission.Policy, _ *permission.Options) { p.Rules[0].Source = "x" },
		"when":         func(p *permission.Policy, _ *permission.Options) { p.Rules[0].When = "false" },
		"message":      func(p *permission.Policy, _ *permission.Options) { p.Rules[0].Message = `"x"` },
		"on_error":     func(p *permission.Policy, _ *permission.Options) { p.Rules[0].OnError = permission.OnErrorDeny },
		"locked":       func(p *permission.Policy, _ *permission.Options) { p.Rules[0].Locked = true },
		"approvers":    func(p *permission.Policy, _ *permission.Options) { p.Rules[0].Approvers.Users = []string{"a"} },
		"rule expiry":  func(p *permission.Policy, _ *permission.Options) { p.Rules[0].Expiry = time.Second },
		"limits":       func(_ *permission.Policy, o *permission.Options) { o.Limits.RuleCost = 999 },
		"tool":         func(_ *permission.Policy, o *permission.Options) { o.Tools[1].Name = "v" },
		"tool server":  func(_ *permission.Policy, o *permission.Options) { o.Tools[0].Server = "s" },
		"read-only":    func(_ *permission.Policy, o *permission.Options) { o.Tools[0].ReadOnly = true },
		"check":        func(_ *permission.Policy, o *permission.Options) { o.Tools[0].Check = answers(permission.CheckDeny) },
		"schema":       func(_ *permission.Policy, o *permission.Options) { o.Tools[0].Schema = schema(t, `{"type": "object"}`) },
		"other schema": func(_ *permission.Policy, o *permission.Options) { o.Tools[0].Schema = schema(t, `{}`) },
	} {
		got := hash(change)
		if other, ok := seen[got]; ok {
			t.Errorf("%s leads to the same hash as %s", name, other)
		}
		seen[got] = name
	}
}

// Compile makes copies, so later changes of the caller's rules have no effect.
func TestBundleIsImmutable(t *testing.T) {
	r := rule("r", "ask", "")
	r.Approvers.Users = []string{"ann"}
	rules := []permission.Rule{r}
	b := compile(t, permission.Options{}, rules...)
	rules[0].Behavior, rules[0].Approvers.Users[0], rules[0].Tools[0] = "allow", "eve", "x"
	d := decide(b, permission.ModeDefault, `{}`)
	if d.Behavior != "ask" || d.Requirement.Users[0] != "ann" {
		t.Errorf("%s of %v", d.Behavior, d.Requirement.Users)
	}
	d.Requirement.Users[0] = "eve"
	d.Suggested[0].ToolName = "x"
	if again := decide(b, permission.ModeDefault, `{}`); again.Requirement.Users[0] != "ann" || again.Suggested[0].ToolName != "t" {
		t.Error("changing a decision changes the next one")
	}
}

func TestRequirementIssue(t *testing.T) {
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	r := permission.Requirement{Users: []string{"ann"}, Expiry: time.Hour}.Issue(now)
	if !r.Deadline.Equal(now.Add(time.Hour)) || len(r.Users) != 1 {
		t.Errorf("issued %+v", r)
	}
	if r := (permission.Requirement{}).Issue(now); !r.Deadline.IsZero() {
		t.Errorf("without an expiry: %v", r.Deadline)
	}
}

// The JSON of a decision uses the wire's names and keeps times exact.
func TestDecisionJSON(t *testing.T) {
	r := rule("r", "ask", "")
	r.Expiry = 90 * time.Second
	raw, err := strictjson.Marshal(decide(compile(t, permission.Options{}, r), permission.ModeDefault, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"behavior", "step", "mode", "rule", "source", "reason", "message", "bundle", "errors", "suggested_rules", "bypass_immune", "requirement"} {
		if _, ok := got[key]; !ok {
			t.Errorf("%s is missing in %s", key, raw)
		}
	}
	if ms := got["requirement"].(map[string]any)["expiry_ms"]; ms != 90_000.0 {
		t.Errorf("expiry_ms %v", ms)
	}
}

// Files are merged. Contradictions are faults, and the shortest expiry applies to approval
// requests without a rule.
func TestSeveralFiles(t *testing.T) {
	file := func(name, defaults, rules string) permission.File {
		return permission.File{Name: name, Data: []byte("version: 1\nname: " + name + "\ndefaults: {" + defaults + "}\nrules: [" + rules + "]\n")}
	}
	p, err := permission.Parse(
		file("a", "expiry: 1h, on_error: deny", "{name: x, tool_name: t, behavior: ask}, {name: z, tool_name: t, behavior: allow}"),
		file("b", "mode: explore, expiry: 5m", "{name: y, tool_name: t, behavior: ask}"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Mode != permission.ModeExplore || p.Expiry != 5*time.Minute || len(p.Rules) != 3 {
		t.Errorf("policy %+v", p)
	}
	x, y := p.Rules[0], p.Rules[2]
	if x.Source != "a" || x.Expiry != time.Hour || x.OnError != permission.OnErrorDeny || y.Source != "b" || y.Expiry != 5*time.Minute || y.OnError != "" {
		t.Errorf("rules %+v and %+v", x, y)
	}
	if _, err := permission.Parse(file("a", "mode: bypass", ""), file("b", "mode: explore", "")); err == nil {
		t.Error("two modes are accepted")
	}
	if _, err := permission.Load([]permission.File{file("a", "", "{name: x, tool_name: t, behavior: ask}"), file("b", "", "{name: x, tool_name: t, behavior: ask}")}, permission.Options{}); err == nil {
		t.Error("the same name in two files is accepted")
	}
	if _, err := permission.Parse(); err == nil {
		t.Error("an empty list of files is accepted")
	}
	plain := file("a", "", "{name: x, tool_name: t, behavior: ask}")
	marked := permission.File{Name: "a", Data: []byte("\ufeff" + strings.ReplaceAll(string(plain.Data), "\n", "\r\n"))}
	if a, b := load(t, permission.Options{}, string(plain.Data)), load(t, permission.Options{}, string(marked.Data)); a.Hash() != b.Hash() {
		t.Error("a byte order mark and CR LF change the policy")
	}
	if _, err := permission.Parse(permission.File{Name: "big", Data: make([]byte, permission.MaxFileBytes+1)}); err == nil {
		t.Error("a file of more than 1 MiB is accepted")
	}
}

// The approval request of a rule without an expiry, or of no rule, is open for the shortest time
// of any file, in every order of reading.
func TestTheShortestExpiryOfSeveralFiles(t *testing.T) {
	file := func(name, defaults, rules string) permission.File {
		return permission.File{Name: name, Data: []byte("version: 1\nname: " + name + "\n" + defaults + "rules: [" + rules + "]\n")}
	}
	files := []permission.File{
		file("a", "", "{name: x, tool: t, behavior: ask, when: args.x == 1}"), file("b", "defaults: {expiry: 1h}\n", ""),
		file("c", "defaults: {expiry: 5m}\n", ""), file("d", "defaults: {expiry: 2h}\n", ""),
	}
	for range files {
		files = append(files[1:], files[0])
		b, err := permission.Load(files, permission.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, input := range []string{`{"x": 1}`, `{"x": 2}`} {
			if d := decide(b, "", input); d.Behavior != message.BehaviorAsk || d.Requirement.Expiry != 5*time.Minute {
				t.Errorf("%s first, %s: %s for %s", files[0].Name, input, d.Behavior, d.Requirement.Expiry)
			}
		}
	}
}

// on_error of the file does not weaken a locked deny or ask rule, but its own on_error decides.
func TestLockedRuleKeepsDenying(t *testing.T) {
	for rule, want := range map[string]message.Behavior{
		"behavior: deny":                "deny",
		"behavior: ask":                 "deny",
		"behavior: deny, on_error: ask": "ask",
		"behavior: ask, on_error: ask":  "ask",
	} {
		b, err := permission.Load([]permission.File{{Name: "f", Data: []byte(`version: 1
name: f
defaults: {on_error: ask}
rules: [{name: r, tool_name: t, locked: true, when: args.missing == 1, ` + rule + `}]
`)}}, permission.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := decide(b, permission.ModeBypass, `{}`); d.Behavior != want {
			t.Errorf("a locked rule with %s that fails: %s, want %s", rule, d.Behavior, want)
		}
	}
}
