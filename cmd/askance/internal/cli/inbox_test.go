package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/termtest"
)

// Only operators can resolve calls, so the inbox offers it only to them.
func TestInboxOffersResolveToOperators(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), "version: 1\nname: all\nrules:\n  - {name: all, tool_name: [ship], behavior: allow}\n")
	write(t, filepath.Join(dir, "tools.yaml"), "version: 1\ntools:\n  - {name: ship, placement: remote, queue_timeout: 1s}\n")
	s := serveOn(t, filepath.Join(dir, "data"), "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"))
	s.propose("r1", "c1", "ship", "{}") // no worker takes it, so it is blocked
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, ok(t, "token", "create", "ann", "--role", "approver", "--data", s.data))
	roles := filepath.Join(t.TempDir(), "roles")
	write(t, roles, ok(t, "token", "create", "olga", "--role", "approver", "--role", "operator", "--data", s.data))
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"--server", s.http, "--token-file", token}, false},
		{[]string{"--server", s.http, "--token-file", roles}, true},
		{[]string{"--data", s.data}, true},
	} {
		x := termtest.Open(t, 120, 30, exec.CommandContext(t.Context(), os.Args[0], append([]string{"inbox"}, c.args...)...))
		x.See("open")
		screen := x.Press("3", "enter open", "1 of 1", "i explain  v group  tab next tab")
		if strings.Contains(screen, "r resolve") != c.want {
			t.Errorf("%v: resolve is offered: %v, want %v\n%s", c.args, !c.want, c.want, screen)
		}
		x.Press("\x03")
		x.Ends(cli.ExitInterrupted)
	}
}
