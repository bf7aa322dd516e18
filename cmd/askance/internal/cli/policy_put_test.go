package cli_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const putRules = `version: 1
name: NAME
rules:
  - {name: RULE, tool: pay, behavior: BEHAVIOR, when: args.cents > 100}
tests:
  - {name: t, call: {tool: pay, args: {cents: 500}}, expect: {behavior: EXPECTED}}
`

func putFile(t *testing.T, path, rule, behavior, expected string) string {
	t.Helper()
	write(t, path, strings.NewReplacer("NAME", rule, "RULE", rule, "BEHAVIOR", behavior, "EXPECTED", expected).Replace(putRules))
	return path
}

// TestPolicyPut: a policy that is put into the bucket comes into force. A policy that does not
// load or fails its tests is not put.
func TestPolicyPut(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	tools, data := filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "data")
	write(t, tools, testTools)
	main := putFile(t, filepath.Join(dir, "main.yaml"), "big", "deny", "deny")
	fails(t, cli.ExitNotFound, "", "policy", "put", filepath.Join(dir, "none.yaml"), "--data", data)
	fails(t, cli.ExitUnavailable, "no server runs", "policy", "put", main, "--data", data, "--tools", tools)

	deaf := serveOn(t, filepath.Join(dir, "deaf"), "--tools", tools)
	if r := run(t, "policy", "put", main, "--data", deaf.data, "--tools", tools); r.code != cli.ExitOK || !strings.Contains(r.err, "no engine reads this bucket now") {
		t.Errorf("put where no engine has --policy-bucket: exit %d\n%s", r.code, r.err)
	}
	s := serveOn(t, data, "--policy-bucket", "--tools", tools)
	put := func(args ...string) []string {
		return append([]string{"policy", "put", "--data", s.data, "--tools", tools}, args...)
	}
	fails(t, cli.ExitUsage, "", put()...)
	fails(t, cli.ExitFindings, "nothing was stored", put(putFile(t, filepath.Join(dir, "bad.yaml"), "bad", "deny", "allow"))...)
	fails(t, cli.ExitUsage, "", put(putFile(t, filepath.Join(dir, "my rules.yaml"), "bad", "deny", "deny"))...)
	write(t, filepath.Join(dir, "broken.yaml"), "version: 1\nname: x\nrules: [{name: a, tool: pay, behavior: deny, when: args.cent > 1}]\n")
	fails(t, cli.ExitUsage, "undefined field 'cent'", put(filepath.Join(dir, "broken.yaml"))...)
	fails(t, cli.ExitUsage, "layer", put("managed="+main)...)
	fails(t, cli.ExitNotFound, "has no file", put("--delete", "main.yaml")...)

	type stored struct {
		Files  []string `json:"files"`
		Rules  int      `json:"rules"`
		Stored bool     `json:"stored"`
	}
	if got := decode[stored](t, ok(t, put(main, "--dry-run", "--json")...)); got.Stored || got.Rules != 1 || len(got.Files) != 1 {
		t.Errorf("a dry run returns %+v", got)
	}
	if r := run(t, put(main, "--dry-run")...); strings.Contains(r.err, "no engine") {
		t.Errorf("put where an engine has --policy-bucket: %s", r.err)
	}
	if got := decode[stored](t, ok(t, put(main, "--json")...)); !got.Stored || got.Rules != 1 {
		t.Errorf("put returns %+v", got)
	}
	for n := 1; ; n++ { // until the engine uses it
		id := "c" + strconv.Itoa(n)
		s.propose("r1", id, "pay", `{"cents":500}`)
		c := decode[toolcall.ShowReply](t, ok(t, "show", id, "--json", "--data", s.data)).Call
		if c.Decision != nil && c.Decision.Rule == "big" {
			break
		}
	}

	// The new file is checked together with the existing ones.
	fails(t, cli.ExitUsage, "big", put(putFile(t, filepath.Join(dir, "other.yaml"), "big", "ask", "ask"))...)
	second := putFile(t, filepath.Join(dir, "other.yaml"), "second", "ask", "deny")
	if got := decode[stored](t, ok(t, put(second, "--json")...)); len(got.Files) != 2 || got.Rules != 2 {
		t.Errorf("put returns %+v", got)
	}
	fails(t, cli.ExitUsage, "both to store and to delete", put(second, "--delete", "other.yaml")...)
	if got := decode[stored](t, ok(t, put("--delete", "other.yaml", "--json")...)); len(got.Files) != 1 || got.Rules != 1 {
		t.Errorf("after the deletion: %+v", got)
	}
	fails(t, cli.ExitUsage, "no rule file", put("--delete", "main.yaml")...)
}

// Several files come into force together: with only some of the changes, a rule that moves to
// another file would be missing. A command that was cut off is repeated.
func TestPolicyPutOfSeveralFiles(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	tools := filepath.Join(dir, "tools.yaml")
	write(t, tools, testTools)
	s := serveOn(t, filepath.Join(dir, "data"), "--policy-bucket", "--tools", tools)
	put := func(args ...string) []string {
		return append([]string{"policy", "put", "--data", s.data, "--tools", tools}, args...)
	}
	a, b := putFile(t, filepath.Join(dir, "a.yaml"), "stop", "deny", "deny"), putFile(t, filepath.Join(dir, "b.yaml"), "other", "deny", "deny")
	ok(t, put(a, b)...)

	nc, err := nats.Connect(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), journal.PolicyBucketName("default"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string) {
		t.Helper()
		changes, err := kv.WatchAll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = changes.Stop() }()
		now, last, loads := map[string][]byte{}, uint64(0), 0
		for e := range changes.Updates() {
			if e == nil { // changes follow
				ok(t, put(a, b)...)
				stream, err := js.Stream(t.Context(), "KV_"+kv.Bucket())
				if err != nil {
					t.Fatal(err)
				}
				last = stream.CachedInfo().State.LastSeq
				continue
			}
			if now[e.Key()] = e.Value(); e.Operation() != jetstream.KeyValuePut {
				delete(now, e.Key())
			}
			var files []permission.File
			for name, data := range now {
				files = append(files, permission.File{Name: name, Data: data})
			}
			if _, err := permission.Load(files, permission.Options{AllowUnknownTools: true}); err == nil && last > 0 {
				loads++
			}
			if e.Revision() == last {
				break
			}
		}
		if loads != 1 {
			t.Errorf("%s: engines can load %d states of the bucket, want only the last", what, loads)
		}
	}
	putFile(t, a, "first", "deny", "deny") // the rule stop moves from a.yaml to b.yaml
	putFile(t, b, "stop", "deny", "deny")
	check("two files")
	cutOff := func() {
		t.Helper()
		if _, err := kv.PutString(t.Context(), "unfinished-put.yaml", "cut off\nid\na.yaml\nb.yaml\n"); err != nil {
			t.Fatal(err)
		}
	}
	cutOff()
	check("after a command that was cut off")
	cutOff()
	fails(t, cli.ExitConflict, "put of a.yaml, b.yaml is not finished", put(putFile(t, filepath.Join(dir, "c.yaml"), "other", "deny", "deny"))...)
	if _, err := kv.Get(t.Context(), "unfinished-put.yaml"); err != nil {
		t.Errorf("another file ended the command that was cut off: %v", err)
	}
	ok(t, put("--delete", "unfinished-put.yaml")...)
	if _, err := kv.Get(t.Context(), "unfinished-put.yaml"); err == nil {
		t.Error("the mark cannot be deleted")
	}
	fails(t, cli.ExitUsage, "rename", put(putFile(t, filepath.Join(dir, "unfinished-put.yaml"), "x", "deny", "deny"))...)
}

// TestLayersOffline: a command that later answers an approval request without a server finds the
// files of the last run in their layers.
func TestLayersOffline(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	rules, tools := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tools.yaml")
	write(t, rules, testRules)
	write(t, tools, testTools)
	s := serveOn(t, filepath.Join(dir, "data"), "--policy", "managed="+rules, "--tools", tools)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	s.stop()
	if out := ok(t, "approve", "c1", "--yes", "--offline", "--data", s.data); !strings.Contains(out, "c1 is queued") {
		t.Errorf("approve printed %q", out)
	}
}
