package agentscope

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// rows reads a file of recorded rows; see testdata/agentscope/README.md.
func rows[T any](t *testing.T, name string, want int) []T {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	if err := lines.Err(); err != nil || len(out) < want {
		t.Fatalf("%s has %d rows, want at least %d: %v", name, len(out), want, err)
	}
	return out
}

// decided is a row of permission.jsonl.
type decided struct {
	Name        string                   `json:"name"`
	Mode        permission.Mode          `json:"mode"`
	Cwd         string                   `json:"cwd"`
	Home        string                   `json:"home"`
	WorkingDirs []string                 `json:"working_directories"`
	Rules       []message.PermissionRule `json:"rules"`
	Tool        string                   `json:"tool"`
	Input       json.RawMessage          `json:"input"`
	Hazard      string                   `json:"hazard"`
	Quirk       string                   `json:"quirk"`
	ToolSpec    *struct {
		Check      string `json:"check"`
		IsReadOnly bool   `json:"is_read_only"`
	} `json:"tool_spec"`
	Expect verdict `json:"expect"`
}

type verdict struct {
	Behavior     message.Behavior         `json:"behavior"`
	Suggested    []message.PermissionRule `json:"suggested_rules"`
	BypassImmune bool                     `json:"bypass_immune"`
	Step         permission.Step          `json:"step"`
}

func decisions(t *testing.T) []decided { return rows[decided](t, "agentscope/permission.jsonl", 146) }

var answers = map[string]permission.CheckResult{
	"": permission.CheckPassthrough, "passthrough": permission.CheckPassthrough, "allow": permission.CheckAllow,
	"deny": permission.CheckDeny, "ask": permission.CheckAsk, "ask_immune": permission.CheckAskImmune,
}

// builtin maps AgentScope's own tools to kinds, by AgentScope's names.
var builtin = map[string]string{
	"Bash": Bash, "Read": Read, "Write": Write, "Edit": Edit, "Glob": Glob, "Grep": Grep, "PowerShell": PowerShell,
}

func (d decided) request() permission.Request {
	return permission.Request{Tool: d.Tool, Input: d.Input, Mode: d.Mode, Cwd: d.Cwd, WorkingDirs: d.WorkingDirs}
}

func (d decided) tools() []permission.Tool {
	var out []permission.Tool
	for name, kind := range builtin {
		out = append(out, permission.Tool{Name: name, Kind: mustNew(kind, Config{Home: d.Home})})
	}
	if d.ToolSpec != nil {
		answer := answers[d.ToolSpec.Check]
		out = append(out, permission.Tool{Name: d.Tool, ReadOnly: d.ToolSpec.IsReadOnly,
			Check: func(permission.Call) permission.ToolVerdict { return permission.ToolVerdict{Answer: answer} }})
	}
	return out
}

// loadable returns the rules that we accept. The rules that we refuse match no call upstream:
// their content means nothing there, or no tool has their name.
func (d decided) loadable(t *testing.T, opts permission.Options) []message.PermissionRule {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(d.Rules), func(r message.PermissionRule) bool {
		_, err := permission.Compile(fromRules([]message.PermissionRule{r}), opts)
		contentless := builtin[r.ToolName] == "" || builtin[r.ToolName] == PowerShell
		if err != nil && r.ToolName == d.Tool && (!contentless || r.RuleContent == nil) {
			t.Errorf("%s: the rule %v is refused: %v", d.Name, r, err)
		}
		return err != nil
	})
}

// decide returns our verdict on a row.
func (d decided) decide(t *testing.T) verdict {
	t.Helper()
	opts := permission.Options{Tools: d.tools(), AllowUnknownTools: true}
	b, err := permission.Compile(fromRules(d.loadable(t, opts)), opts)
	if err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	got := b.Decide(context.Background(), d.request())
	if d.Tool == "Bash" {
		d.checkOffers(t, got.Suggested)
	}
	return verdict{got.Behavior, got.Suggested, got.BypassImmune, got.Step}
}

// checkOffers reports offered rules that do not cover the call itself.
func (d decided) checkOffers(t *testing.T, offers []message.PermissionRule) {
	t.Helper()
	b, err := permission.Compile(permission.Policy{}, permission.Options{Tools: d.tools()})
	if err != nil {
		t.Fatal(err)
	}
	for _, offer := range offers {
		if err := b.Covers(t.Context(), d.request(), []message.PermissionRule{offer}); err != nil {
			t.Errorf("%s: the offered rule %q does not cover the call: %v", d.Name, deref(offer.RuleContent), err)
		}
	}
}

// asUpstream returns our verdict with the offers in upstream's form, from our parts of the
// command. Our own offers differ; see checkOffers.
func (d decided) asUpstream(got verdict) verdict {
	var input struct{ Command string }
	if d.Tool != "Bash" || got.Suggested == nil {
		return got
	}
	got.Suggested = []message.PermissionRule{}
	if json.Unmarshal(d.Input, &input) == nil {
		got.Suggested = suggestPrefixes(permission.Call{Tool: d.Tool}, parseTree(input.Command))
	}
	return got
}

// upstream returns AgentScope's verdict on a row, according to the oracle.
func (d decided) upstream(t *testing.T) verdict {
	t.Helper()
	if builtin[d.Tool] != "" {
		return decideAsUpstream(t, d.Rules, d.request(), d.Home)
	}
	j := judged{rules: rulesOf(d.Tool, d.Rules), suggest: []message.PermissionRule{suggestRule(permission.Call{Tool: d.Tool}, nil)},
		match: func(r message.PermissionRule) bool { return r.RuleContent == nil || *r.RuleContent == "" }}
	if d.ToolSpec != nil {
		j.readOnly, j.check.Answer = d.ToolSpec.IsReadOnly, answers[d.ToolSpec.Check]
	}
	return j.decide(d.Mode)
}

// matched is a row of match_rule.jsonl.
type matched struct {
	Tool    string         `json:"tool"`
	Content *string        `json:"rule_content"`
	Input   map[string]any `json:"input"`
	Match   bool           `json:"match"`
}

func matches(t *testing.T) []matched { return rows[matched](t, "agentscope/match_rule.jsonl", 671) }

func (m matched) call() permission.Call {
	return permission.Call{Tool: m.Tool, Input: m.Input, Cwd: "/workspace/project"}
}

// match matches the content as a rule with the behavior. No content or an empty one matches every
// call before a kind is asked.
func (m matched) match(t *testing.T, b message.Behavior) (bool, error) {
	t.Helper()
	if m.Content == nil || *m.Content == "" {
		return true, nil
	}
	k, c := mustNew(builtin[m.Tool], Config{Home: "/home/dev"}), m.call()
	p, err := k.Compile(*m.Content, b)
	if err != nil {
		t.Fatalf("%q: %v", *m.Content, err)
	}
	c.Prepared = k.Prepare(c)
	return p.Match(c)
}

// upstream matches the content as the oracle does.
func (m matched) upstream() (bool, error) {
	if m.Content == nil || *m.Content == "" {
		return true, nil
	}
	return oracle{Config{Home: "/home/dev"}, builtin[m.Tool]}.match(*m.Content, m.call())
}

// analysed is a row of bash_analysis.jsonl.
type analysed struct {
	Command        string     `json:"command"`
	Injection      *string    `json:"injection"`
	ReadOnly       bool       `json:"read_only"`
	Dangerous      *string    `json:"dangerous"`
	SedBlocked     bool       `json:"sed_blocked"`
	Subcommands    []string   `json:"subcommands"`
	Prefixes       []string   `json:"prefixes"`
	FilePaths      [][]string `json:"file_paths"`
	DangerousPaths []string   `json:"dangerous_paths"`
	RemovalPath    *string    `json:"removal_path"`
	Quirk          string     `json:"quirk"`
}

func analyses(t *testing.T) []analysed {
	return rows[analysed](t, "agentscope/bash_analysis.jsonl", 133)
}

// analyse returns the row of a command.
func analyse(command string) analysed { return parseTree(command).analyse() }

// analyseAsUpstream cuts the command as upstream does.
func analyseAsUpstream(command string) analysed { return parseTree(command).cutByChar().analyse() }

func (tr *tree) analyse() analysed {
	command := tr.text
	at := places{cwd: "/workspace/project", home: "/home/dev", dirs: []string{"/workspace/project"}}
	out := analysed{
		Command: command, Injection: orNull(tr.dynamic), ReadOnly: tr.looksReadOnly(), Dangerous: orNull(dangerousText(command)),
		SedBlocked: sedFault(command) != "", Subcommands: tr.subcommands(), Prefixes: append([]string{}, tr.prefixes()...),
		FilePaths: [][]string{}, DangerousPaths: []string{}, RemovalPath: orNull(tr.removal(at)),
	}
	for _, f := range tr.paths() {
		out.FilePaths = append(out.FilePaths, []string{f.by, f.path})
		if at.isDangerous(f.path) {
			out.DangerousPaths = append(out.DangerousPaths, f.path)
		}
	}
	return out
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// fromRules imports rules in AgentScope's form, by behavior and tool.
func fromRules(rules []message.PermissionRule) permission.Policy {
	lists := map[message.Behavior]map[string][]message.PermissionRule{}
	for _, r := range rules {
		if lists[r.Behavior] == nil {
			lists[r.Behavior] = map[string][]message.PermissionRule{}
		}
		lists[r.Behavior][r.ToolName] = append(lists[r.Behavior][r.ToolName], r)
	}
	return permission.FromContext(message.PermissionContext{DenyRules: lists[message.BehaviorDeny], AskRules: lists[message.BehaviorAsk], AllowRules: lists[message.BehaviorAllow]})
}

// mustNew is like New, for names that exist.
func mustNew(name string, c Config) permission.Kind {
	k, err := New(name, c)
	if err != nil {
		panic(err)
	}
	return k
}
