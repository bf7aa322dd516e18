package lint_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/permission/lint"
	"github.com/askance-dev/askance/permission/suite"
)

var update = flag.Bool("update", false, "rewrite bad.txt")

type caseTool struct {
	Name        string `yaml:"name"`
	Server      string `yaml:"server"`
	Schema      any    `yaml:"schema"`
	Kind        string `yaml:"kind"`
	Idempotent  bool   `yaml:"idempotent"`
	Destructive bool   `yaml:"destructive"`
	ReadOnly    bool   `yaml:"read_only"`
}

func tools(t testing.TB) []permission.Tool {
	t.Helper()
	var given []caseTool
	if err := yaml.UnmarshalWithOptions([]byte(read(t, "testdata/tools.yaml")), &given, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	var out []permission.Tool
	for _, ct := range given {
		tool := permission.Tool{Name: ct.Name, Server: ct.Server, Idempotent: ct.Idempotent, Destructive: ct.Destructive, ReadOnly: ct.ReadOnly}
		if ct.Kind != "" {
			kind, err := agentscope.New(ct.Kind, agentscope.Config{Home: "/home/dev"})
			if err != nil {
				t.Fatal(err)
			}
			tool.Kind = kind
		}
		if ct.Schema != nil {
			raw, err := yaml.MarshalWithOptions(ct.Schema, yaml.JSON())
			if err != nil {
				t.Fatal(err)
			}
			if tool.Schema, err = permission.CompileSchema(raw); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, tool)
	}
	return out
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// anything is a matcher that accepts every content, because lint does not check the meaning of
// rule_content.
type anything struct{}

func (anything) Compile(string, message.Behavior) (permission.Pattern, error) { return nothing{}, nil }
func (anything) Suggest(permission.Call) []message.PermissionRule             { return nil }

type nothing struct{}

func (nothing) Match(permission.Call) (bool, error) { return false, nil }

// allDuties lets a policy require everything.
var allDuties = []permission.Duty{permission.DutyUsers, permission.DutyGroups, permission.DutyExcludeRequester, permission.DutyExcludeEditor,
	permission.DutyQuorum, permission.DutySigned, permission.DutyExpiry, permission.DutyOnExpiry, permission.DutyEscalation,
	permission.DutyRemember, permission.DutyRedact, permission.DutyExecutorSubject, permission.DutyExecutorTimeout, permission.DutyAudit, permission.DutyBudget}

// options returns the options of lint for the cases of one code.
func options(t testing.TB, code lint.Code, which string) lint.Options {
	opts := lint.Options{Options: permission.Options{Tools: tools(t), Enforced: allDuties,
		Matchers: map[string]permission.Matcher{"Bash": anything{}}}}
	switch code {
	case lint.Approvers:
		opts.Directory = &lint.Directory{Users: []string{"ann", "bob"}, Groups: map[string][]string{"finance": {"fiona", "frank"}, "empty": nil}}
	case lint.Times:
		opts.RunLimit, opts.ExecutorLimit = 24*time.Hour, time.Hour
	case lint.Drift:
		r := lint.NewRecord(opts.Tools)
		if which == "bad" {
			r.Language, r.Tools["refund"], r.Tools["gone"] = "sha256:0", "sha256:1", ""
		}
		opts.Recorded = &r
	case lint.Untested:
		opts.Coverage = coverage(t, opts, filepath.Join("testdata", string(code), which+".yaml"))
	}
	return opts
}

func coverage(t testing.TB, opts lint.Options, path string) *suite.Report {
	t.Helper()
	policy, err := permission.Parse(permission.File{Name: path, Data: []byte(read(t, path))})
	if err != nil {
		t.Fatal(err)
	}
	b, err := permission.Compile(policy, opts.Options)
	if err != nil {
		t.Fatal(err)
	}
	report := suite.Run(t.Context(), policy, b)
	if report.Failed > 0 {
		t.Fatalf("%+v", report.Results)
	}
	return report
}

// TestCodes checks every code with a policy that has the fault and one that means the same
// without it.
func TestCodes(t *testing.T) {
	for _, d := range lint.Codes() {
		t.Run(string(d.Code), func(t *testing.T) {
			folder := filepath.Join("testdata", string(d.Code))
			run := func(which string) *lint.Report {
				file := permission.File{Name: which + ".yaml", Data: []byte(read(t, filepath.Join(folder, which+".yaml")))}
				return lint.Run([]permission.File{file}, options(t, d.Code, which))
			}
			for _, f := range run("good").Findings {
				t.Errorf("good.yaml: %s", f)
			}
			var lines []string
			mine := 0
			for _, f := range run("bad").Findings {
				lines = append(lines, f.String())
				if f.Code == d.Code {
					mine++
				}
			}
			if mine == 0 {
				t.Errorf("bad.yaml gets no finding %s", d.Code)
			}
			golden := filepath.Join(folder, "bad.txt")
			got := strings.Join(lines, "\n") + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, golden), got); diff != "" {
				t.Errorf("bad.txt (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryCodeIsDescribed(t *testing.T) {
	for i, d := range lint.Codes() {
		if want := lint.Code("L" + string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10))); d.Code != want {
			t.Errorf("code %d is %s, want %s", i, d.Code, want)
		}
		if d.Level == "" || d.Finding == "" || d.Why == "" || d.Fix == "" {
			t.Errorf("%s is not described: %+v", d.Code, d)
		}
	}
	if n := len(lint.Codes()); n != 24 {
		t.Errorf("%d codes, want 24", n)
	}
}
