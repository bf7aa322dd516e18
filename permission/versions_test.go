package permission_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission"
)

// The text of a policy and the position of each rule come from the file that was loaded, even for
// an earlier version.
func TestVersions(t *testing.T) {
	const first = `version: 1
name: shop
rules:
  # Lookups change nothing.
  - name: lookups
    tool_name: [find_order, find_customer]
    behavior: allow

  - {name: refunds, tool_name: refund,
     behavior: ask}
  - name: last
    tool_name: x
    behavior: deny

defaults: {mode: default}
`
	src := &memory{name: "rules.yaml", text: first}
	live, err := permission.NewLive(src, permission.LiveOptions{Options: permission.Options{AllowUnknownTools: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := live.Text(""); ok || len(live.Status().Versions) != 0 {
		t.Error("a text exists before a policy is in force")
	}
	reload := func() {
		t.Helper()
		if err := live.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reload()
	was := live.Hash()
	text, found := live.Text("")
	if !found || text.Bundle != was || len(text.Files) != 1 || text.Files[0].Text != first || text.Files[0].Digest == "" {
		t.Fatalf("%+v", text)
	}
	want := []struct {
		name      string
		line, end int
		text      string
	}{
		{"lookups", 5, 7, "- name: lookups\n  tool_name: [find_order, find_customer]\n  behavior: allow"},
		{"refunds", 9, 10, "- {name: refunds, tool_name: refund,\n   behavior: ask}"},
		{"last", 11, 13, "- name: last\n  tool_name: x\n  behavior: deny"},
	}
	for i, w := range want {
		if r := text.Rules[i]; r.Rule != w.name || r.File != "rules.yaml" || r.Line != w.line || r.End != w.end || r.Text != w.text {
			t.Errorf("%+v, want %+v", r, w)
		}
	}
	for _, c := range live.Status().ByRule {
		if c.Rule == "refunds" && (c.File != "rules.yaml" || c.Line != 9) {
			t.Errorf("%+v", c)
		}
	}

	src.set(first + "# a comment\n")
	reload()
	if v := live.Status().Versions; len(v) != 1 || v[0].Bundle != was {
		t.Errorf("a changed comment makes a new version: %+v", v)
	}
	if text, _ = live.Text(""); !strings.HasSuffix(text.Files[0].Text, "# a comment\n") || text.Loaded.IsZero() {
		t.Errorf("%+v", text)
	}

	src.set(strings.Replace(first, "behavior: deny", "behavior: ask", 1))
	reload()
	if v := live.Status().Versions; len(v) != 2 || v[0].Bundle != live.Hash() || v[1].Bundle != was {
		t.Errorf("%+v", v)
	}
	if text, found = live.Text(was); !found || !strings.Contains(text.Files[0].Text, "behavior: deny") {
		t.Errorf("%+v", text)
	}
	if _, found = live.Text("sha256:unknown"); found {
		t.Error("an unknown version has a text")
	}
	for i := range 30 {
		src.set(strings.Replace(first, "tool_name: x", "tool_name: x"+strings.Repeat("y", i+1), 1))
		reload()
	}
	if v := live.Status().Versions; len(v) != 20 || v[0].Bundle != live.Hash() {
		t.Errorf("%d versions", len(v))
	}
	src.set("rules: [")
	if live.Reload(t.Context()) == nil || len(live.Status().Versions) != 20 {
		t.Error("a refused policy became a version")
	}
}
