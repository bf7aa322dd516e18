package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/audit"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// startCounted starts a node whose local tool counts its runs.
func startCounted(t *testing.T, cfg node.Config, ran *atomic.Int64) (*node.Node, error) {
	t.Helper()
	cfg.Local = new(executor.Registry)
	err := cfg.Local.Register("unserved", func(context.Context, executor.Task) (executor.Output, error) {
		ran.Add(1)
		return executor.Output{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), cfg)
	if err == nil {
		t.Cleanup(func() { _ = n.Close() })
	}
	return n, err
}

func mustCounted(t *testing.T, cfg node.Config, ran *atomic.Int64) *node.Node {
	t.Helper()
	n, err := startCounted(t, cfg, ran)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return n
}

// proposeAgain proposes calls again and returns the outcome of each.
func proposeAgain(t *testing.T, n *node.Node, tool string, ids ...string) []string {
	t.Helper()
	bot := n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	var out []string
	for _, id := range ids {
		rep, err := bot.Propose(t.Context(), toolcall.ProposeRequest{V: 1, Session: "s", Reply: message.ReplyID("r-" + id), Calls: []message.ToolCallBlock{{ID: message.CallID(id), Name: tool, Input: `{}`}}})
		if err != nil {
			out = append(out, id+": "+err.Error())
			continue
		}
		out = append(out, fmt.Sprintf("%s: %s %s", id, rep.Calls[0].State, rep.Calls[0].Cause))
		if rep.Calls[0].State != message.ToolCallFinished && tool != "remote" {
			if _, err := bot.Wait(t.Context(), toolcall.WaitRequest{V: 1, Session: "s", Reply: message.ReplyID("r-" + id)}); err != nil {
				t.Error(err)
			}
		}
	}
	return out
}

// A damaged journal is refused. After an operator accepted the loss the journal is served. No
// call that was signed runs a second time, no open call continues, and an audit finds only the
// accepted loss.
func TestAcceptLoss(t *testing.T) {
	t.Parallel()
	streams := func(d node.Dir) string { return filepath.Join(d.Store(), "jetstream", "$G", "streams") }
	block := func(d node.Dir, stream string) string {
		return filepath.Join(streams(d), stream, "msgs", "1.blk")
	}
	edit := func(path string, f func([]byte) []byte) error {
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, f(b), 0o600)
		}
		return err
	}
	for _, c := range []struct {
		name   string
		damage func(d node.Dir) error
	}{
		{"end cut", func(d node.Dir) error {
			return edit(block(d, "ASKANCE_default"), func(b []byte) []byte { return b[:len(b)/2] })
		}},
		{"byte flipped", func(d node.Dir) error {
			return edit(block(d, "ASKANCE_default"), func(b []byte) []byte { b[len(b)/3] ^= 1; return b })
		}},
		{"block deleted", func(d node.Dir) error { return os.Remove(block(d, "ASKANCE_default")) }},
		{"journal deleted", func(d node.Dir) error { return os.RemoveAll(filepath.Join(streams(d), "ASKANCE_default")) }},
		{"proof deleted", func(d node.Dir) error { return os.RemoveAll(filepath.Join(streams(d), "ASKANCE_PROOF_default")) }},
		{"proof block deleted", func(d node.Dir) error { return os.Remove(block(d, "ASKANCE_PROOF_default")) }},
		{"byte of the last proof flipped", func(d node.Dir) error {
			return edit(block(d, "ASKANCE_PROOF_default"), func(b []byte) []byte { b[len(b)-300] ^= 1; return b })
		}},
		{"journal and proof deleted", func(d node.Dir) error { return os.RemoveAll(streams(d)) }},
		{"store and anchor deleted", func(d node.Dir) error {
			return errors.Join(os.RemoveAll(d.Store()), os.RemoveAll(filepath.Dir(d.Anchor("default"))))
		}},
		{"anchor flipped", func(d node.Dir) error {
			return edit(d.Anchor("default"), func(b []byte) []byte { b[20] ^= 1; return b })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			ran := new(atomic.Int64)
			n := mustCounted(t, cfg, ran)
			proposeAgain(t, n, "unserved", "a", "b")
			if _, err := n.Ledger().Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
			proposeAgain(t, n, "remote", "open")
			proposeAgain(t, n, "unserved", "c", "d")
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(cfg.Dir); err != nil {
				t.Fatal(err)
			}
			if _, err := startCounted(t, cfg, ran); !errors.Is(err, message.ErrDamaged) {
				t.Fatalf("a damaged journal: %v", err)
			}
			d := node.Damaged{Dir: cfg.Dir, Space: cfg.Space}
			x, err := d.Examine(t.Context())
			if err != nil || x.OK || !errors.Is(x.Error(), message.ErrDamaged) {
				t.Fatalf("the examination finds %+v, %v", x, err)
			}
			if names := x.LostNames(); len(slices.Compact(slices.Clone(names))) != len(names) {
				t.Errorf("a lost call is named twice: %v", names)
			}
			declined := errors.New("declined")
			if _, err := d.AcceptLoss(t.Context(), node.Acceptance{By: "ann", Confirm: func(*journal.Exam) error { return declined }}); !errors.Is(err, declined) {
				t.Errorf("a loss that was not confirmed: %v", err)
			}
			if y, err := d.Examine(t.Context()); err != nil || y.Records != x.Records || !slices.Equal(y.Flaws, x.Flaws) {
				t.Errorf("the examination finds %+v before an operator declined, and %+v, %v afterwards", x, y, err)
			}
			if err := os.Remove(cfg.Dir.PublicKeys()); err != nil { // as in a new folder with a restored journal
				t.Fatal(err)
			}
			done, err := d.AcceptLoss(t.Context(), node.Acceptance{By: "ann", Reason: "test", Confirm: func(*journal.Exam) error { return nil }})
			if err != nil {
				t.Fatalf("accept the loss: %v", err)
			}
			if _, err := keyfile.LoadPublic(cfg.Dir.PublicKeys()); err != nil {
				t.Errorf("audits know no keys: %v", err)
			}
			t.Logf("loss %+v, interrupted %v, closed %v", done.Loss, done.Interrupted, done.Closed)
			if _, err := d.AcceptLoss(t.Context(), node.Acceptance{By: "ann", Reason: "again", Confirm: func(*journal.Exam) error { return nil }}); !errors.Is(err, message.ErrState) {
				t.Errorf("a loss was accepted twice: %v", err)
			}
			before := ran.Load()
			n = mustCounted(t, cfg, ran)
			signedLost := c.name != "journal and proof deleted" && c.name != "store and anchor deleted"
			if signedLost {
				out := append(proposeAgain(t, n, "unserved", "a", "b", "c", "d"), proposeAgain(t, n, "remote", "open")...)
				t.Log(out)
				if ran.Load() != before {
					t.Errorf("%d calls ran a second time: %v", ran.Load()-before, out)
				}
			}
			op := n.Engine().As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "op"})
			if rep, err := op.List(t.Context(), toolcall.ListRequest{V: 1}); err != nil || len(rep.Calls) != 0 && signedLost {
				t.Errorf("open calls: %+v, %v", rep.Calls, err)
			}
			bot := n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
			if _, err := bot.Propose(t.Context(), toolcall.ProposeRequest{V: 1, Session: "new", Reply: "r", Calls: []message.ToolCallBlock{{ID: "new", Name: "unserved", Input: `{}`}}}); err != nil {
				t.Errorf("a new call: %v", err)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			verify(t, cfg)
			if err := mustCounted(t, cfg, ran).Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// verify audits the folder, which must have no findings and one accepted loss.
func verify(t *testing.T, cfg node.Config) {
	t.Helper()
	r, err := node.OpenReader(t.Context(), cfg.Dir, "", cfg.Space, "eve")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s, err := audit.Open(t.Context(), r.Ledger(), cfg.Space)
	if err != nil {
		t.Fatal(err)
	}
	keys, retired, err := keyfile.LoadPublicEver(cfg.Dir.PublicKeys())
	if err != nil {
		t.Fatal(err)
	}
	rep, err := s.Verify(proof.Options{Keys: keys, Retired: retired})
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK || len(rep.Losses) != 1 || rep.Losses[0].By != "ann" {
		t.Errorf("the audit finds %d losses and %v", len(rep.Losses), rep.Findings)
	}
}

// A loss that is accepted with an older anchor file does not hide what a newer one knows: an engine
// with that refuses the journal, also when it has grown, until its loss is accepted too.
func TestAcceptLossWithAnOlderAnchor(t *testing.T) {
	t.Parallel()
	older := config(t)
	n := start(t, older)
	sign := func(ids ...string) {
		t.Helper()
		proposeAgain(t, n, "remote", ids...)
		if _, err := n.Ledger().Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	newer := older
	newer.Anchor = filepath.Join(t.TempDir(), "anchor")
	copyTo := func(path string) {
		t.Helper()
		b, err := os.ReadFile(older.Dir.Anchor(older.Space))
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sign("a")
	kept := filepath.Join(t.TempDir(), "kept")
	copyTo(kept)
	sign("b", "c")
	sign("d")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	copyTo(newer.Anchor)
	accept := func(anchor string) {
		t.Helper()
		if _, err := (node.Damaged{Dir: older.Dir, Space: older.Space, Anchor: anchor}).AcceptLoss(t.Context(), node.Acceptance{By: "ann", Reason: "test", Confirm: func(*journal.Exam) error { return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.RemoveAll(older.Dir.Store()), os.Rename(kept, older.Dir.Anchor(older.Space)), os.Mkdir(older.Dir.Store(), 0o700)); err != nil {
		t.Fatal(err)
	}
	accept("")
	for _, ids := range [][]string{nil, {"e"}, {"f", "g", "h", "i", "j", "k"}} {
		n = start(t, older)
		for _, id := range ids {
			sign(id)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := node.Start(t.Context(), newer); !errors.Is(err, message.ErrDamaged) {
			t.Errorf("an engine that knows more starts after %v: %v", ids, err)
		}
	}
	accept(newer.Anchor)
	if err := start(t, newer).Close(); err != nil {
		t.Error(err)
	}
}
