package cli_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
)

// TestDirectory: a group's question is answered by whoever is in the group when
// they answer, and the vote says who named the group.
func TestDirectory(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	rules, tools, people := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "people.yaml")
	write(t, rules, "version: 1\nname: test\nrules:\n  - {name: money, tool_name: pay, behavior: ask, approvers: {groups: [finance]}}\n")
	write(t, tools, testTools)
	write(t, people, "version: 1\ngroups: {finance: [bob]}\n")
	data := filepath.Join(dir, "data")
	fails(t, cli.ExitNotFound, "none.yaml", "serve", "--data", data, "--listen", "127.0.0.1:0", "--directory", filepath.Join(dir, "none.yaml"))
	write(t, people, "version: 1\ngruops: {finance: [bob]}\n")
	fails(t, cli.ExitUsage, "people.yaml", "serve", "--data", data, "--listen", "127.0.0.1:0", "--directory", people)
	write(t, people, "version: 1\ngroups: {finance: [bob]}\n")
	s := serveOn(t, data, "--policy", rules, "--tools", tools, "--directory", people)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	fails(t, cli.ExitForbidden, "not among those who may answer", "approve", "c1", "--yes", "--data", s.data, "--as", "ann")
	write(t, people, "version: 1\ngroups: {finance: [ann]}\n")
	for { // within a second
		if r := run(t, "approve", "c1", "--yes", "--data", s.data, "--as", "ann"); r.code == cli.ExitOK {
			break
		} else if r.code != cli.ExitForbidden {
			t.Fatalf("exit %d\n%s", r.code, r.err)
		}
	}
	c := decode[message.ShowReply](t, ok(t, "show", "c1", "--json", "--data", s.data)).Call
	if v := c.Votes[0]; v.By.Name != "ann" || v.By.Auth != "nats-subject" || v.GroupsFrom != "file" || !slices.Equal(v.Groups, []string{"finance"}) {
		t.Errorf("the vote is %+v", v)
	}
}
