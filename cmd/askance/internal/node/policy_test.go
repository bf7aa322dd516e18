package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
)

func policyText(behavior string) []byte {
	return []byte("version: 1\nname: kv\nrules:\n  - {name: r, tool_name: upper, behavior: " + behavior + "}\n")
}

// waitForStatus polls the status until ok returns true.
func waitForStatus(t *testing.T, n *node.Node, what string, ok func(api.PolicyStatusReply) bool) api.PolicyStatusReply {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		s := n.PolicyStatus()
		if ok(s) {
			return s
		}
		select {
		case <-look.C:
		case <-t.Context().Done():
			t.Fatalf("%s: %+v", what, s)
		}
	}
}

// An engine starts on an empty bucket and denies everything. A policy that is put there comes
// into force without a restart, and a bad policy leaves the last good one in force.
func TestPolicyFromTheBucket(t *testing.T) {
	cfg := config(t)
	cfg.Policy, cfg.PolicyBucket = nil, true
	n := start(t, cfg)
	if s := n.PolicyStatus(); s.Alarm == "" || s.Rules != 0 {
		t.Errorf("on an empty bucket: %+v", s)
	}
	nc, err := n.Connect(t.Context(), "admin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b, err := journal.OpenPolicyBucket(t.Context(), nc, "default", journal.PolicyBucketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(text []byte) {
		t.Helper()
		if _, err := b.Put(t.Context(), "main.yaml", text); err != nil {
			t.Fatal(err)
		}
	}
	put(policyText("allow"))
	good := waitForStatus(t, n, "a policy in the bucket", func(s api.PolicyStatusReply) bool { return s.Alarm == "" && s.Rules == 1 })
	propose(t, n, "c1", "upper", `{}`)
	put([]byte("rules: ["))
	bad := waitForStatus(t, n, "a bad policy in the bucket", func(s api.PolicyStatusReply) bool { return s.Alarm != "" })
	if bad.Bundle != good.Bundle || bad.Refused <= good.Refused || !strings.Contains(bad.Alarm, "main.yaml") {
		t.Errorf("after a bad policy: %+v", bad)
	}
	put(policyText("deny"))
	waitForStatus(t, n, "a corrected policy", func(s api.PolicyStatusReply) bool { return s.Alarm == "" && s.Bundle != good.Bundle })
}

func TestShadowIsCompared(t *testing.T) {
	cfg := config(t)
	shadow := filepath.Join(t.TempDir(), "shadow.yaml")
	if err := os.WriteFile(shadow, policyText("ask"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Shadow = []string{shadow}
	n := start(t, cfg)
	propose(t, n, "c1", "upper", `{}`)
	s := waitForStatus(t, n, "a difference", func(s api.PolicyStatusReply) bool { return s.Shadow.Differing > 0 })
	if d := s.Shadow.Differences[0]; d.Tool != "upper" || d.Live.Behavior != message.BehaviorAllow || d.Shadow.Behavior != message.BehaviorAsk || d.Session != "s" {
		t.Errorf("%+v", d)
	}
	cfg = config(t)
	cfg.Policy, cfg.Shadow = nil, []string{shadow}
	if _, err := node.Start(t.Context(), cfg); err == nil {
		t.Error("a shadow policy without a policy in force is accepted")
	}
}

// The paths of tools that run on this machine are resolved before the policy sees them.
func TestPathsOfLocalToolsAreResolved(t *testing.T) {
	cfg := config(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"work", "secret"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "work", "out")); err != nil {
		t.Fatal(err)
	}
	cfg.Tools, err = toolfile.Parse("tools", []byte(`
version: 1
tools:
  - name: upper
    command: [tr, a-z, A-Z]
    input_schema: {type: object, properties: {path: {type: string, format: path}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	rule := "version: 1\nname: p\nrules:\n  - name: inside\n    tool_name: upper\n    behavior: allow\n    when: path.within(ctx.resolved[args.path], \"" + dir + "/work\")\n" +
		"  - name: outside\n    tool_name: upper\n    behavior: deny\n    when: \"!path.within(ctx.resolved[args.path], '" + dir + "/work')\"\n"
	if err := os.WriteFile(cfg.Policy[0], []byte(rule), 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, cfg)
	propose(t, n, "c1", "upper", `{"path": "`+dir+`/work/x"}`)
	propose(t, n, "c2", "upper", `{"path": "`+dir+`/work/out/x"}`)
	s := waitForStatus(t, n, "two decisions", func(s api.PolicyStatusReply) bool { return s.Calls >= 2 })
	for _, c := range s.ByRule {
		if c.Decided == 0 || c.Failed != 0 {
			t.Errorf("%+v", c)
		}
	}
	if len(s.ByRule) != 2 {
		t.Errorf("%+v", s.ByRule)
	}
}

// Versions of the policy survive the engine. A check, or a request without a server, adds none.
func TestPolicyHistory(t *testing.T) {
	cfg := config(t)
	first := policyText("allow")
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(rules, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Policy = []string{rules}
	versions := func(n *node.Node) []api.PolicyVersion {
		return n.PolicyStatus().Versions
	}
	write(first)
	n := start(t, cfg)
	was := versions(n)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	write(policyText("ask"))
	if err := node.Check(t.Context(), cfg); err == nil {
		t.Error("a check accepts a space that was served on its own as a further one")
	}
	offline := cfg
	offline.Offline = true
	if err := start(t, offline).Close(); err != nil {
		t.Fatal(err)
	}
	write(first)
	n = start(t, cfg)
	if got := versions(n); len(got) != 1 || !got[0].Loaded.Equal(was[0].Loaded) {
		t.Errorf("after a restart %+v, want %+v", got, was)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	write(policyText("deny"))
	n = start(t, cfg)
	if got := versions(n); len(got) != 2 || got[1] != was[0] || got[0].Bundle != n.PolicyStatus().Bundle {
		t.Errorf("after an edit %+v, before %+v", got, was)
	}
	files, err := os.ReadDir(cfg.Dir.Policies(cfg.Space))
	if err != nil || len(files) != 2 {
		t.Errorf("%v %v", files, err)
	}
}
