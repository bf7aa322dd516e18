package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// memorySnapshots keeps the last snapshot of a journal in memory.
type memorySnapshots struct {
	*engine.Memory
	seq  uint64
	last []byte
	err  error // of Load
}

func (s *memorySnapshots) Load(context.Context) ([]byte, error) { return s.last, s.err }

func (s *memorySnapshots) Check(context.Context, uint64) error { return nil }

func (s *memorySnapshots) Save(_ context.Context, seq uint64, b []byte) error {
	s.seq, s.last = seq, slices.Clone(b)
	return nil
}

// sharedSnapshots holds the snapshot that the engines of a world share.
type sharedSnapshots struct {
	mu sync.Mutex // guards the fields below
	memorySnapshots
}

func (s *sharedSnapshots) Load(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memorySnapshots.Load(ctx)
}

func (s *sharedSnapshots) Save(ctx context.Context, seq uint64, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memorySnapshots.Save(ctx, seq, b)
}

// snapshotHistory is a random history, written through one engine.
type snapshotHistory struct {
	t      *rapid.T
	engine *engine.Engine
	calls  []*toolcall.Call
	n      int
	cut    *memorySnapshots
	start  func(*memorySnapshots) *engine.Engine
}

// remembered is small, so that the engine forgets some calls of a history.
const remembered = 3

func historyPolicy(t *testing.T) (*permission.Bundle, []engine.Tool) {
	t.Helper()
	tools := []engine.Tool{
		{Tool: permission.Tool{Name: "pay"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true},
		{Tool: permission.Tool{Name: "read"}, Placement: toolcall.PlaceExternal},
	}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "ask", Tools: []string{"pay"}, Behavior: message.BehaviorAsk, Remember: &permission.Remember{TTL: time.Hour, Uses: 4}},
		{Name: "free", Tools: []string{"read"}, Behavior: message.BehaviorAllow},
	}}, permission.Options{Tools: []permission.Tool{tools[0].Tool, tools[1].Tool}, Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	return policy, tools
}

func (h *snapshotHistory) as(role toolcall.Role, name string) *engine.Port {
	return h.engine.As(toolcall.Principal{Role: role, Name: name})
}

func (h *snapshotHistory) reply() (message.SessionID, message.ReplyID) {
	return message.SessionID(fmt.Sprint("s", rapid.IntRange(0, 2).Draw(h.t, "session"))), message.ReplyID(fmt.Sprint("r", rapid.IntRange(0, 2).Draw(h.t, "reply")))
}

// observe starts an engine that only reads, so that what it knows depends only on the records.
// An engine that serves requests knows more about what it was asked.
func (h *snapshotHistory) observe(t *rapid.T, s *memorySnapshots) *engine.Engine {
	e := h.start(s)
	if err := e.Observe(context.Background()); err != nil {
		t.Fatal(err)
	}
	return e
}

func (h *snapshotHistory) steps() map[string]func(*rapid.T) {
	ctx := context.Background()
	some := func(t *rapid.T, state message.ToolCallState) *toolcall.Call {
		h.t = t
		var open []*toolcall.Call
		for _, c := range h.calls {
			if shown, err := h.as(toolcall.RoleOperator, "olga").Show(ctx, toolcall.ShowRequest{Key: c.Key}); err == nil && shown.Call.State == state {
				open = append(open, shown.Call)
			}
		}
		if len(open) == 0 {
			return nil
		}
		return open[rapid.IntRange(0, len(open)-1).Draw(t, "call")]
	}
	return map[string]func(*rapid.T){
		"propose": func(t *rapid.T) {
			h.t = t
			session, reply := h.reply()
			var blocks []message.ToolCallBlock
			for range rapid.IntRange(1, 2).Draw(t, "calls") {
				h.n++
				blocks = append(blocks, message.ToolCallBlock{ID: message.CallID(fmt.Sprint("c", h.n)), Name: rapid.SampledFrom([]string{"pay", "pay", "read", "declared"}).Draw(t, "tool"), Input: `{"cents":1}`})
			}
			out, err := h.as(toolcall.RoleRuntime, "bot").Propose(ctx, toolcall.ProposeRequest{Session: session, Reply: reply, Calls: blocks, Tools: []toolcall.ToolDefinition{{Name: "declared"}}})
			if err == nil {
				h.calls = append(h.calls, out.Calls...)
			}
		},
		"respond": func(t *rapid.T) {
			c := some(t, message.ToolCallAsking)
			if c == nil {
				return
			}
			resp := toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: rapid.SampledFrom([]toolcall.ResponseKind{toolcall.ResponseApprove, toolcall.ResponseApprove, toolcall.ResponseReject, toolcall.ResponseSkip, toolcall.ResponseRespond}).Draw(t, "kind")}
			if resp.Kind == toolcall.ResponseApprove {
				switch rapid.IntRange(0, 2).Draw(t, "remember") {
				case 0:
					resp.Remember = &toolcall.StandingTerms{Scope: toolcall.ScopeSpace, Uses: 2}
				case 1:
					resp.Rules = c.Suggested
				}
			}
			_, _ = h.as(toolcall.RoleApprover, "ann").SubmitResponse(ctx, resp) // a refusal is part of the history, too
		},
		"end": func(t *rapid.T) {
			if c := some(t, message.ToolCallSubmitted); c != nil {
				_, _ = h.as(toolcall.RoleRuntime, "bot").Report(ctx, toolcall.ReportRequest{Key: c.Key, Result: message.ToolResultBlock{ID: c.Call, Name: c.Tool, State: message.ToolResultSuccess}})
			}
		},
		"interrupt": func(t *rapid.T) {
			h.t = t
			session, reply := h.reply()
			_, _ = h.as(toolcall.RoleRuntime, "bot").Interrupt(ctx, toolcall.InterruptRequest{Session: session, Reply: reply})
		},
		"emit": func(t *rapid.T) {
			h.t = t
			session, reply := h.reply()
			ev := message.RawJSON(fmt.Sprintf(`{"type":"REPLY_START","reply_id":%q,"session_id":%q,"name":"a"}`, reply, session))
			if rapid.Bool().Draw(t, "ends") {
				ev = message.RawJSON(fmt.Sprintf(`{"type":"REPLY_END","reply_id":%q,"session_id":%q}`, reply, session))
			}
			_, _ = h.as(toolcall.RoleRuntime, "bot").Emit(ctx, toolcall.EmitRequest{Session: session, Reply: reply, Events: []message.RawJSON{ev}})
		},
		"revoke": func(t *rapid.T) {
			all, err := h.as(toolcall.RoleOperator, "olga").StandingApprovals(ctx, toolcall.StandingApprovalsRequest{All: true})
			if err == nil && len(all.StandingApprovals) > 0 {
				_, _ = h.as(toolcall.RoleOperator, "olga").RevokeStandingApproval(ctx, toolcall.RevokeStandingApprovalRequest{ID: all.StandingApprovals[rapid.IntRange(0, len(all.StandingApprovals)-1).Draw(t, "which")].ID})
			}
		},
		"snapshot": func(t *rapid.T) {
			e := h.observe(t, h.cut) // from the previous snapshot
			defer func() { _ = e.Close() }()
			if err := e.SaveSnapshot(ctx); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// An engine that begins from a snapshot taken at any moment knows exactly what an engine
// knows that reads the whole journal.
func TestSnapshotIsWhatAWholeReadGives(t *testing.T) {
	policy, tools := historyPolicy(t)
	rapid.Check(t, func(rt *rapid.T) {
		journal := engine.NewMemory()
		h := &snapshotHistory{t: rt, cut: &memorySnapshots{Memory: journal}}
		h.start = func(s *memorySnapshots) *engine.Engine {
			e, err := engine.New("sp", journal, policy, tools, engine.WithKeep(remembered), engine.WithSnapshots(s))
			if err != nil {
				rt.Fatal(err)
			}
			return e
		}
		h.engine = h.start(&memorySnapshots{Memory: journal})
		if err := h.engine.Start(rt.Context()); err != nil {
			rt.Fatal(err)
		}
		rt.Repeat(h.steps())
		_ = h.engine.Close()
		snap := *h.cut
		whole, short := h.observe(rt, &memorySnapshots{Memory: journal}), h.observe(rt, &snap)
		defer func() { _, _ = whole.Close(), short.Close() }()
		end := whole.Sequence()
		if snap.last != nil && short.SnapshotAt() != snap.seq {
			rt.Fatalf("the engine began from %d, not from the snapshot at %d of %d", short.SnapshotAt(), snap.seq, end)
		}
		if diff := cmp.Diff(strings.Split(whole.Knowledge(), "\n"), strings.Split(short.Knowledge(), "\n")); diff != "" {
			rt.Fatalf("from the snapshot at %d of %d (- whole, + snapshot):\n%s", snap.seq, end, diff)
		}
	})
}

// A snapshot that does not fit the journal is not used, and the log says so.
func TestBadSnapshotIsNotUsed(t *testing.T) {
	policy, tools := historyPolicy(t)
	good := &memorySnapshots{Memory: engine.NewMemory()}
	start := func(j *engine.Memory, s engine.Snapshots, log *slog.Logger) *engine.Engine {
		e, err := engine.New("sp", j, policy, tools, engine.WithKeep(remembered), engine.WithSnapshots(s), engine.WithLogger(log))
		if err == nil {
			e.KeepShortSnapshots()
			err = e.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := start(good.Memory, good, slog.New(slog.DiscardHandler))
	for i := range 5 {
		_, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), toolcall.ProposeRequest{
			Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: message.CallID(fmt.Sprint("c", i)), Name: "pay", Input: `{}`}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = e.Close()
	if good.last == nil || good.seq != 6 {
		t.Fatalf("the stopped engine left a snapshot at %d, want 6", good.seq)
	}
	head, _, _ := bytes.Cut(good.last, []byte("\n"))
	for name, change := range map[string]func(*memorySnapshots){
		"refused":         func(s *memorySnapshots) { s.err = errors.New("it is of another journal") },
		"no JSON":         func(s *memorySnapshots) { s.last = []byte("{") },
		"another version": func(s *memorySnapshots) { s.last = bytes.Replace(s.last, []byte(`"v":6`), []byte(`"v":5`), 1) },
		"no view":         func(s *memorySnapshots) { s.last = []byte(`{"v":6}`) },
		"cut off events":  func(s *memorySnapshots) { s.last = s.last[:len(s.last)-3] },
		"another journal": func(s *memorySnapshots) { s.Memory = engine.NewMemory() },
		"another record": func(s *memorySnapshots) {
			s.last = bytes.Replace(s.last, []byte(`"calls":[2,`), []byte(`"calls":[1,`), 1)
		},
		"a lost record": func(s *memorySnapshots) {
			s.last = bytes.Replace(s.last, []byte(`"calls":[2,`), []byte(`"calls":[99,`), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			s := *good
			change(&s)
			e := start(good.Memory, &s, slog.New(slog.NewTextHandler(&text, nil)))
			defer func() { _ = e.Close() }()
			info, err := e.As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "olga"}).Info(t.Context())
			if err != nil || info.Open != 5 {
				t.Errorf("%d calls are open, %v; want 5. Snapshot: %s", info.Open, err, head)
			}
			if !strings.Contains(text.String(), "reading the whole journal") {
				t.Errorf("the log does not say that the snapshot is not used: %s", text.String())
			}
		})
	}
}
