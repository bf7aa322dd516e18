package permission_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// The corpus: testdata/cases has a folder for each policy with its rules, its tools, and calls
// with their expected decisions.

type caseTool struct {
	Name        string `yaml:"name"`
	Server      string `yaml:"server"`
	Schema      any    `yaml:"schema"`
	ReadOnly    bool   `yaml:"read_only"`
	Destructive bool   `yaml:"destructive"`
	Idempotent  bool   `yaml:"idempotent"`
	OpenWorld   bool   `yaml:"open_world"`
}

type caseCall struct {
	Name string `yaml:"name"`
	Call struct {
		Tool         string          `yaml:"tool"`
		Input        string          `yaml:"input"`
		Mode         permission.Mode `yaml:"mode"`
		Now          string          `yaml:"now"`
		Cwd          string          `yaml:"cwd"`
		WorkingDirs  []string        `yaml:"working_dirs"`
		Caller       caseCaller      `yaml:"caller"`
		SessionRules []caseRule      `yaml:"session_rules"`
	} `yaml:"call"`
	Want caseDecision `yaml:"want"`
}

type caseCaller struct {
	Agent   string            `yaml:"agent"`
	User    string            `yaml:"user"`
	Space   toolcall.SpaceID  `yaml:"space"`
	Session message.SessionID `yaml:"session"`
	Reply   message.ReplyID   `yaml:"reply"`
	Roles   []string          `yaml:"roles"`
	Groups  []string          `yaml:"groups"`
	Tenant  string            `yaml:"tenant"`
	RunID   string            `yaml:"run_id"`

	ParentAgent string `yaml:"parent_agent"`
}

type caseRule struct {
	ToolName    string           `yaml:"tool_name"`
	RuleContent *string          `yaml:"rule_content"`
	Behavior    message.Behavior `yaml:"behavior"`
	Source      string           `yaml:"source"`
}

// caseDecision is compared completely, except for Source, Message and Expiry if a case omits
// them.
type caseDecision struct {
	Behavior  message.Behavior `yaml:"behavior"`
	Step      permission.Step  `yaml:"step"`
	Rule      string           `yaml:"rule"`
	Source    string           `yaml:"source"`
	Message   string           `yaml:"message"`
	Users     []string         `yaml:"users"`
	Expiry    string           `yaml:"expiry"`
	Suggested int              `yaml:"suggested"`
	Errors    []string         `yaml:"errors"` // the fields of the errors
}

func TestCases(t *testing.T) {
	folders, err := filepath.Glob("testdata/cases/*")
	if err != nil || len(folders) < 9 {
		t.Fatalf("cases: %d, %v", len(folders), err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			bundle, calls := loadCase(t, folder)
			for _, c := range calls {
				t.Run(c.Name, func(t *testing.T) {
					d := bundle.Decide(context.Background(), c.request(t))
					if d.Bundle != bundle.Hash() {
						t.Errorf("decision names bundle %q, want %q", d.Bundle, bundle.Hash())
					}
					if diff := cmp.Diff(c.Want, shownAs(d, c.Want), cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("Decide(%s %s) (-want +got):\n%s\nerrors: %v", c.Call.Tool, c.Call.Input, diff, d.Errors)
					}
				})
			}
		})
	}
}

// forEachCase calls f for each call of the corpus with the policy that decides it.
func forEachCase(t *testing.T, f func(*testing.T, *permission.Bundle, permission.Request)) {
	t.Helper()
	folders, err := filepath.Glob("testdata/cases/*")
	if err != nil || len(folders) < 9 {
		t.Fatalf("cases: %d, %v", len(folders), err)
	}
	for _, folder := range folders {
		bundle, calls := loadCase(t, folder)
		for _, c := range calls {
			t.Run(filepath.Base(folder)+"/"+c.Name, func(t *testing.T) { f(t, bundle, c.request(t)) })
		}
	}
}

func loadCase(t testing.TB, folder string) (*permission.Bundle, []caseCall) {
	t.Helper()
	var tools []caseTool
	var calls []caseCall
	readYAML(t, filepath.Join(folder, "tools.yaml"), &tools)
	readYAML(t, filepath.Join(folder, "calls.yaml"), &calls)
	rules, err := os.ReadFile(filepath.Join(folder, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	opts := permission.Options{Limits: permission.Limits{Deadline: time.Minute}} // a slow machine must not change a decision
	for _, ct := range tools {
		opts.Tools = append(opts.Tools, ct.tool(t))
	}
	b, err := permission.Load([]permission.File{{Name: "rules.yaml", Data: rules}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return b, calls
}

func readYAML(t testing.TB, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions(data, into, yaml.Strict()); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func (ct caseTool) tool(t testing.TB) permission.Tool {
	t.Helper()
	out := permission.Tool{Name: ct.Name, Server: ct.Server, ReadOnly: ct.ReadOnly, Destructive: ct.Destructive,
		Idempotent: ct.Idempotent, OpenWorld: ct.OpenWorld}
	if ct.Schema == nil {
		return out
	}
	raw, err := yaml.MarshalWithOptions(ct.Schema, yaml.JSON())
	if err != nil {
		t.Fatal(err)
	}
	if out.Schema, err = permission.CompileSchema(raw); err != nil {
		t.Fatalf("tool %s: %v\n%s", ct.Name, err, raw)
	}
	return out
}

func (c caseCall) request(t *testing.T) permission.Request {
	t.Helper()
	r := permission.Request{Tool: c.Call.Tool, Input: []byte(c.Call.Input), Mode: c.Call.Mode, Cwd: c.Call.Cwd,
		WorkingDirs: c.Call.WorkingDirs, Caller: permission.Caller(c.Call.Caller)}
	if c.Call.Now != "" {
		now, err := time.Parse(time.RFC3339, c.Call.Now)
		if err != nil {
			t.Fatal(err)
		}
		r.Now = now
	}
	for _, sr := range c.Call.SessionRules {
		r.SessionRules = append(r.SessionRules, message.PermissionRule(sr))
	}
	return r
}

// shownAs returns the parts of a decision that the case checks.
func shownAs(d permission.Decision, want caseDecision) caseDecision {
	got := caseDecision{Behavior: d.Behavior, Step: d.Step, Rule: d.Rule, Users: d.Requirement.Users, Suggested: len(d.Suggested)}
	for _, e := range d.Errors {
		got.Errors = append(got.Errors, e.Field)
	}
	if want.Source != "" {
		got.Source = d.Source
	}
	if want.Message != "" {
		got.Message = d.Message
	}
	if want.Expiry != "" {
		if wanted, err := time.ParseDuration(want.Expiry); err == nil && wanted == d.Requirement.Expiry {
			got.Expiry = want.Expiry
		} else {
			got.Expiry = d.Requirement.Expiry.String()
		}
	}
	return got
}
