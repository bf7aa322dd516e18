package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
)

// TestSignedApproval: if the rule requires it, a call runs only after its approver signed it. A
// worker that insists on signatures runs nothing else.
func TestSignedApproval(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("rules.yaml"), "version: 1\nname: test\nrules:\n  - {name: money, tool_name: pay, when: args.cents > 100, behavior: ask, signed: true}\n  - {name: small, tool_name: pay, when: args.cents <= 100, behavior: allow}\n")
	write(t, at("tools.yaml"), testTools)
	public := strings.TrimSpace(ok(t, "keys", "approver", at("ann.key")))
	fails(t, cli.ExitConflict, "already exists", "keys", "approver", at("ann.key"))
	ok(t, "keys", "approver", at("other.key"))
	write(t, at("people.yaml"), "version: 1\napprovers: {ann: {keys: ['"+public+"']}}\n")
	s := serveOn(t, at("data"), "--policy", at("rules.yaml"), "--tools", at("tools.yaml"), "--directory", at("people.yaml"))

	fails(t, cli.ExitUsage, "pass both", "worker", "--tool", "pay", "--data", s.data, "--require-approver-signature", "--", "cat")
	fails(t, cli.ExitNotFound, "none.yaml", "worker", "--tool", "pay", "--data", s.data, "--approver-keys", at("none.yaml"), "--require-approver-signature", "--", "cat")
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		var out strings.Builder
		cli.Main(ctx, cli.IO{In: strings.NewReader(""), Out: &out, Err: &out}, []string{"worker", "--tool", "pay", "--data", s.data, "--as", "wk", "--approver-keys", at("people.yaml"), "--require-approver-signature", "--", "cat"})
	})
	defer func() { stop(); wg.Wait() }()

	s.propose("r1", "c1", "pay", `{"cents":500}`)
	approve := []string{"approve", "c1", "--yes", "--data", s.data, "--as", "ann"}
	fails(t, cli.ExitForbidden, "own signature", approve...)
	fails(t, cli.ExitForbidden, "does not belong to ann", append(approve, "--sign-key", at("other.key"))...)
	fails(t, cli.ExitUsage, "must be positive", append(approve, "--sign-key", at("ann.key"), "--sign-for", "0s")...)
	fails(t, cli.ExitUsage, "not an approver key", append(approve, "--sign-key", at("rules.yaml"))...)
	ok(t, append(approve, "--sign-key", at("ann.key"))...)
	if c := s.finished("c1"); c.Result.State != message.ToolResultSuccess {
		t.Errorf("the signed call ended with %s: %s", c.Result.State, c.Result.Output.String())
	}
	// A call that a rule allowed has no signature, so the worker returns its task.
	s.propose("r1", "c2", "pay", `{"cents":5}`)
	for look := time.NewTicker(20 * time.Millisecond); ; <-look.C {
		list := ok(t, "list", "--json", "--data", s.data, "--as", "ann")
		if strings.Contains(list, "have not all signed") {
			break
		}
	}
	if info, err := os.Stat(at("ann.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v, %v", info.Mode(), err)
	}
}
