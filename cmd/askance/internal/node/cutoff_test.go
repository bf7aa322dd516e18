package node_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// A call whose later records build on a lost record cannot be read. Accepting the loss closes the
// call: it does not continue and does not run again.
func TestAcceptLossOfABase(t *testing.T) {
	t.Parallel()
	for _, signed := range []bool{true, false} {
		cfg := config(t)
		ran := new(atomic.Int64)
		n := mustCounted(t, cfg, ran)
		proposeAgain(t, n, "unserved", "a")
		proposeAgain(t, n, "remote", "begun", "middle", "kept")
		key := func(id string) toolcall.Key {
			return toolcall.Key{Space: cfg.Space, Session: "s", Reply: message.ReplyID("r-" + id), Call: message.CallID(id)}
		}
		worker := n.Engine().Worker(toolcall.Principal{Role: toolcall.RoleWorker, Name: "wk"}, toolcall.Queue{Tool: "remote"})
		for _, id := range []string{"begun", "middle"} {
			if _, err := worker.Start(t.Context(), toolcall.StartRequest{V: 1, Key: key(id), Attempt: 1, Claim: "claim"}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := worker.Result(t.Context(), toolcall.ResultRequest{V: 1, Key: key("middle"), Attempt: 1, Claim: "claim", Result: message.ToolResultBlock{ID: "middle", Name: "remote", State: message.ToolResultSuccess}}); err != nil {
			t.Fatal(err)
		}
		if signed {
			if _, err := n.Ledger().Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		js, err := jetstream.New(n.Conn())
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), bus.StreamName(cfg.Space))
		if err != nil {
			t.Fatal(err)
		}
		for id, lost := range map[string]int{"a": 0, "begun": 0, "middle": 1} {
			history, err := n.Journal().History(t.Context(), key(id))
			if err != nil || len(history) != lost+2 {
				t.Fatalf("%s has %d records, %v; want one that builds on the lost one", id, len(history), err)
			}
			if err := stream.DeleteMsg(t.Context(), history[lost].Seq); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := startCounted(t, cfg, ran); !errors.Is(err, message.ErrDamaged) {
			t.Fatalf("a damaged journal: %v", err)
		}
		done, err := node.Damaged{Dir: cfg.Dir, Space: cfg.Space}.AcceptLoss(t.Context(), node.Acceptance{By: "ann", Reason: "test", Confirm: func(*journal.Exam) error { return nil }})
		if err != nil {
			t.Fatalf("accept the loss: %v", err)
		}
		if !slices.Equal(done.Interrupted, []string{key("kept").String()}) || len(done.Closed) != 3 {
			t.Errorf("interrupted %v, closed %v; want kept, and the three with lost bases", done.Interrupted, done.Closed)
		}
		before := ran.Load()
		n = mustCounted(t, cfg, ran)
		for _, out := range append(proposeAgain(t, n, "unserved", "a"), proposeAgain(t, n, "remote", "begun", "middle", "kept")...) {
			if strings.Contains(out, ": submitted ") || strings.Contains(out, ": asking ") {
				t.Errorf("a call continues: %s", out)
			}
		}
		op := n.Engine().As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "op"})
		if rep, err := op.List(t.Context(), toolcall.ListRequest{V: 1}); err != nil || len(rep.Calls) != 0 {
			t.Errorf("open calls: %+v, %v", rep.Calls, err)
		}
		for _, id := range []string{"a", "begun", "middle", "kept"} {
			if rep, err := op.Show(t.Context(), toolcall.ShowRequest{V: 1, Key: key(id)}); err != nil || rep.Call.Open() {
				t.Errorf("show %s = %+v, %v; want a closed call", id, rep.Call, err)
			}
		}
		if ran.Load() != before {
			t.Errorf("%d calls ran a second time", ran.Load()-before)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		verify(t, cfg)
	}
}
