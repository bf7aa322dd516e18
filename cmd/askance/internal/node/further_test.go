package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// startTwo starts the spaces default and team in one process.
func startTwo(t *testing.T) (first, second *node.Node, cfg node.Config) {
	t.Helper()
	cfg = config(t)
	first = start(t, cfg)
	further := cfg
	further.Space, further.First = "team", first
	return first, start(t, further), further
}

// Two spaces share only a server. Each has its own keys, calls and files, even after a restart
// that starts only the second.
func TestFurtherSpace(t *testing.T) {
	first, second, cfg := startTwo(t)
	if first.KeyID() == second.KeyID() || first.LoginKey() == second.LoginKey() {
		t.Error("the spaces have the same keys")
	}
	propose(t, second, "c1", "upper", `{"a":"b"}`)
	op := toolcall.Principal{Role: toolcall.RoleOperator, Name: "op"}
	key := toolcall.Key{Space: "team", Session: "s", Reply: "r", Call: "c1"}
	if _, err := second.Engine().As(op).Show(t.Context(), toolcall.ShowRequest{V: 1, Key: key}); err != nil {
		t.Errorf("showing the call in its space: %v", err)
	}
	if rep, err := first.Engine().As(op).Show(t.Context(), toolcall.ShowRequest{V: 1, Key: key}); err == nil {
		t.Errorf("the other space shows %+v", rep.Call)
	}
	for _, dir := range []node.Dir{cfg.Dir, cfg.Dir.Files("team")} {
		if _, err := os.Stat(dir.Keys()); err != nil {
			t.Error(err)
		}
	}
	third := cfg
	third.Space, third.Keys = "third", cfg.Dir.Keys()
	if _, err := node.Start(t.Context(), third); !errors.Is(err, message.ErrInvalid) || !strings.Contains(err.Error(), "spaces default and third have the same keys") {
		t.Errorf("a space with the keys of another: %v", err)
	}
	if err := errors.Join(second.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := node.OpenReader(t.Context(), cfg.Dir, "", "team", "ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Show(t.Context(), toolcall.ShowRequest{V: 1, Key: key}); err != nil {
		t.Errorf("a reader of the folder: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.First = nil
	if got := start(t, cfg).KeyID(); got != second.KeyID() {
		t.Errorf("as the only space, it has the key %s, want %s", got, second.KeyID())
	}
}

// A space that was served as the only one keeps its keys and gets no others as a further space.
func TestFurtherAfterAlone(t *testing.T) {
	cfg := config(t)
	cfg.Space = "team"
	if err := start(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	if err := node.Check(t.Context(), cfg); !errors.Is(err, message.ErrInvalid) || !strings.Contains(err.Error(), "--space team") {
		t.Errorf("check = %v", err)
	}
	if _, err := os.Stat(filepath.Join(string(cfg.Dir), "spaces")); err == nil {
		t.Error("the check created a folder")
	}
}

// A space that cannot continue ends the process, and the error contains its name.
func TestFurtherSpaceFails(t *testing.T) {
	first, second, _ := startTwo(t)
	propose(t, second, "c1", "remote", `{}`)
	if _, err := second.Ledger().Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(second.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), bus.StreamName("team")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-first.Failed():
		if !strings.Contains(err.Error(), "space team: ") {
			t.Errorf("failed: %v", err)
		}
	case <-t.Context().Done():
		t.Fatal("the node does not report that a space failed")
	}
}
