package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
)

// TestPolicyStatus: the status shows the policy of a running engine, what its rules did, and why
// a newer policy is not in force.
func TestPolicyStatus(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	rules, shadow, tools := filepath.Join(dir, "policy"), filepath.Join(dir, "shadow.yaml"), filepath.Join(dir, "tools.yaml")
	if err := os.Mkdir(rules, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(rules, "rules.yaml"), testRules)
	write(t, filepath.Join(rules, "rules.yaml~"), testRules)
	write(t, shadow, "version: 1\nname: candidate\nrules:\n  - {name: never-pay, tool: pay, behavior: deny}\n")
	write(t, tools, strings.Replace(testTools, "concurrency_safe: true", "concurrency_safe: false", 1)) // pay waits for its turn
	s := serveOn(t, filepath.Join(dir, "data"), "--policy", rules, "--shadow", shadow, "--tools", tools)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	status := func() api.PolicyStatusReply {
		return decode[api.PolicyStatusReply](t, ok(t, "policy", "status", "--json", "--data", s.data))
	}
	r := status()
	if r.Engine == "" || r.Bundle == "" || r.Rules == 0 || len(r.ByRule) != r.Rules || r.Loaded.IsZero() || r.Calls != 1 || r.Alarm != "" || len(r.Ignored) != 1 || len(r.Files) != 1 ||
		r.Files[0].Name != filepath.Join(rules, "rules.yaml") || r.Files[0].Layer != "project" || !strings.HasPrefix(r.Files[0].Digest, "sha256:") {
		t.Errorf("%+v", r)
	}
	decided := uint64(0)
	for _, c := range r.ByRule {
		decided += c.Decided
		if c.Behavior == "" || c.Since.IsZero() {
			t.Errorf("%+v", c)
		}
	}
	if decided != 1 || r.Shadow == nil || r.Shadow.Differing != 1 || len(r.Shadow.Differences) != 1 || r.Shadow.Differences[0].Shadow.Behavior != message.BehaviorDeny {
		t.Errorf("%d decided, %+v", decided, r.Shadow)
	}
	text := ok(t, "policy", "status", "--data", s.data)
	for _, want := range []string{r.Bundle, "rules.yaml (project) sha256:", "rules.yaml~ is ignored", "1 decided, 0 could not be evaluated", "DECIDED", "a different decision for 1 of 1 call\n  1 call of ", "deny (never-pay)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	text = ok(t, "policy", "show", "--data", s.data)
	if !strings.Contains(text, strings.TrimSpace(testRules)) || !strings.Contains(text, "# "+filepath.Join(rules, "rules.yaml")+" (layer project)") {
		t.Errorf("show prints\n%s", text)
	}
	for _, c := range r.ByRule {
		one := decode[api.PolicyTextReply](t, ok(t, "policy", "show", c.Rule, "--version", r.Versions[0].Bundle, "--json", "--data", s.data))
		if len(one.Rules) != 1 || one.Rules[0].Line != c.Line || !strings.Contains(one.Rules[0].Text, c.Rule) || len(one.Files) != 0 {
			t.Errorf("%+v", one)
		}
	}
	for flag, want := range map[string]string{"": r.ByRule[0].Rule + "\n", "--version": r.Versions[0].Bundle + "\n"} {
		args := append([]string{"__complete", "policy", "show", "--data", s.data}, strings.Fields(flag)...)
		if out := ok(t, append(args, "")...); !strings.Contains(out, want) || !strings.Contains(out, ":4\n") {
			t.Errorf("completion of policy show %s:\n%s", flag, out)
		}
	}
	fails(t, cli.ExitNotFound, "the policy has no rule nope", "policy", "show", "nope", "--data", s.data)
	write(t, filepath.Join(rules, "rules.yaml"), "rules: [")
	for look := time.NewTicker(50 * time.Millisecond); ; <-look.C {
		if now := status(); now.Alarm != "" {
			if now.Bundle != r.Bundle || now.AlarmSince.IsZero() || now.Refused == 0 || !strings.Contains(now.Alarm, "half written") {
				t.Errorf("%+v", now)
			}
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("a bad policy is not reported")
		}
	}
	if text := ok(t, "policy", "status", "--data", s.data); !strings.Contains(text, "the newest policy has been refused since") || !strings.Contains(text, "half written") {
		t.Errorf("status prints\n%s", text)
	}
}
