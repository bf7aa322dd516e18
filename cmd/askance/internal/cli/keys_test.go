package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/toolcall"
)

// keyList is what askance keys prints.
type keyList struct {
	Signing string           `json:"signing_key_id"`
	Keys    toolcall.KeyRing `json:"keys"`
}

// TestKeys: a running engine signs with a new key, waiting calls with a retired key's grant are
// offered again, and workers' files contain only valid keys.
func TestKeys(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	grant := func(id string) string {
		t.Helper()
		return decode[toolcall.ShowReply](t, ok(t, "show", id, "--json", "--data", s.data)).Call.Attempt.Grant.KeyID
	}
	public := func() toolcall.KeySet {
		t.Helper()
		set, err := keyfile.LoadPublic(filepath.Join(s.data, "engine.pub"))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	s.propose("r1", "c1", "pay", `{"cents":5}`)
	first := decode[keyList](t, ok(t, "keys", "list", "--json", "--data", s.data)).Signing
	if grant("c1") != first {
		t.Error("the first key did not sign")
	}
	fails(t, cli.ExitConflict, "rotate the keys first", "keys", "retire", first, "--data", s.data)
	fails(t, cli.ExitNotFound, "no signing key", "keys", "retire", "0000000000000000", "--data", s.data)
	fails(t, cli.ExitUsage, "expected one key id", "keys", "retire", "--data", s.data)
	second := decode[keyList](t, ok(t, "keys", "rotate", "--json", "--data", s.data)).Signing
	if out := ok(t, "__complete", "keys", "retire", "--data", s.data, ""); !strings.HasPrefix(out, first+"\n") || strings.Contains(out, second) {
		t.Errorf("completion of a key to retire:\n%s", out)
	}
	for len(public()) < 2 { // happens within a second
	}
	if grant("c1") != first {
		t.Error("a rotation revoked the grant")
	}
	list := decode[keyList](t, ok(t, "keys", "retire", first, "--json", "--data", s.data))
	if len(list.Keys) != 2 || list.Keys[0].Retired.IsZero() || list.Signing != second {
		t.Errorf("the keys are %+v", list)
	}
	for grant("c1") != second { // happens within a second
	}
	if set := public(); len(set) != 1 || set[second] == nil {
		t.Errorf("the keys for workers are %v", set)
	}
	s.propose("r1", "c2", "pay", `{"cents":6}`)
	if grant("c2") != second {
		t.Error("the new key does not sign")
	}
	// Records that the retired key signed stay proved.
	s.stop()
	ok(t, "audit", "verify", "--data", s.data)
}
