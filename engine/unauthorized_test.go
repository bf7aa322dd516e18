package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Nothing that an unauthorized identity sends changes state: whatever they send
// in whatever order, the journal is afterwards what it was, byte for byte.
func TestUnauthorizedChangesNothing(t *testing.T) {
	w := newIntruded(t)
	before := w.bytes(t)
	if len(before) < 15 {
		t.Fatalf("the journal has %d records to change", len(before))
	}
	rapid.Check(t, func(rt *rapid.T) {
		w.T = rt
		for range rapid.IntRange(1, 30).Draw(rt, "requests") {
			w.request()
		}
		if after := w.bytes(rt); !slices.Equal(after, before) {
			rt.Fatalf("the journal had %d records and has %d: %s", len(before), len(after), strings.Join(after[min(len(before), len(after)-1):], "\n"))
		}
	})
	w.authorized(t)
}

// intruded is a space with calls in every state, the engines of it and of
// another space, and those who have no right to what they ask for.
type intruded struct {
	*rapid.T
	journal   *engine.Memory
	eng, away *engine.Engine
	calls     []*message.Call
	leases    []message.LeaseID
}

func newIntruded(t *testing.T) *intruded {
	w := &intruded{journal: engine.NewMemory()}
	tool := func(name string, p message.Placement) engine.Tool {
		return engine.Tool{Tool: permission.Tool{Name: name}, Placement: p, ConcurrencySafe: true, Lease: 1000 * time.Hour, OfferTimeout: 1000 * time.Hour}
	}
	tools := []engine.Tool{tool("pay", message.PlaceRemote), tool("run", message.PlaceRemote), tool("out", message.PlaceExternal), tool("note", message.PlaceExternal)}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "four", Tools: []string{"pay"}, Behavior: message.BehaviorAsk, Quorum: 2, Remember: &permission.Remember{TTL: 100 * time.Hour}, Redact: []string{"args.pin"},
			Approvers: permission.Approvers{Groups: []string{"finance"}, ExcludeRequester: true}},
		{Name: "one", Tools: []string{"out"}, Behavior: message.BehaviorAsk, When: "args.n > 1", Remember: &permission.Remember{TTL: 100 * time.Hour}, Approvers: permission.Approvers{Users: []string{"ann"}}},
		{Name: "free", Tools: []string{"run", "out"}, Behavior: message.BehaviorAllow},
	}}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	people := engine.StaticDirectory{"ann": {"finance"}, "bob": {"finance"}, "bot": {"finance"}, "mallory": {"sales"}}
	start := func(space message.SpaceID, j engine.Journal) *engine.Engine {
		e, err := engine.New(space, j, policy, tools, engine.WithDirectory(people))
		if err == nil {
			err = e.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	w.eng, w.away = start("sp", w.journal), start("away", engine.NewMemory())
	w.furnish(t)
	return w
}

// furnish brings calls into every state and lets rules be remembered.
func (w *intruded) furnish(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	propose := func(id message.CallID, tool, input string) *message.Call {
		r, err := w.as(message.RoleRuntime, "bot").Propose(t.Context(), message.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: id, Name: tool, Input: input}}})
		must(err)
		w.calls = append(w.calls, r.Calls[0])
		return r.Calls[0]
	}
	answer := func(c *message.Call, change func(*message.Answer)) *message.Call {
		a := message.Answer{Key: c.Key, Kind: message.AnswerApprove, Digest: c.Digest}
		change(&a)
		after, err := w.as(message.RoleApprover, "ann").Answer(t.Context(), a)
		must(err)
		return after
	}
	propose("asking", "pay", `{"pin":1234,"n":1}`)
	answer(propose("voted", "pay", `{"pin":4321,"n":2}`), func(*message.Answer) {})
	agreed := answer(propose("agreed", "pay", `{"n":8}`), func(*message.Answer) {})
	_, err := w.as(message.RoleApprover, "bob").Answer(t.Context(), message.Answer{Key: agreed.Key, Kind: message.AnswerApprove, Digest: agreed.Digest})
	must(err)
	input := `{"n":3}`
	edited := answer(propose("edited", "pay", `{"n":2}`), func(a *message.Answer) { a.Input = &input })
	w.calls = append(w.calls, edited)
	kept := answer(propose("kept", "out", `{"n":2}`), func(a *message.Answer) { a.Remember = &message.LeaseTerms{Uses: 5} })
	plain := answer(propose("plain", "note", `{}`), func(a *message.Answer) {
		a.Rules = []message.PermissionRule{{ToolName: "note", Behavior: message.BehaviorAllow}}
	})
	l, _ := plain.PlainLease()
	w.leases = []message.LeaseID{kept.Leases[0].ID, l.ID, "lse_unknown"}
	propose("leased", "out", `{"n":5}`)
	propose("waiting", "out", `{"n":1}`)
	started := propose("started", "run", `{}`)
	_, err = w.as(message.RoleWorker, "w1").Start(t.Context(), message.StartRequest{Key: started.Key, Attempt: 1, Claim: "secret"})
	must(err)
	done := propose("done", "run", `{"n":9}`)
	_, err = w.as(message.RoleWorker, "w1").Start(t.Context(), message.StartRequest{Key: done.Key, Attempt: 1, Claim: "secret"})
	must(err)
	_, err = w.as(message.RoleWorker, "w1").Result(t.Context(), message.ResultRequest{Key: done.Key, Attempt: 1, Claim: "secret", Result: message.ToolResultBlock{State: message.ToolResultSuccess}})
	must(err)
	// What a remembered rule allows begins by itself, after it was proposed.
	parked, err := w.as(message.RoleRuntime, "bot").Wait(t.Context(), message.WaitRequest{Session: "s", Reply: "r", Calls: []message.CallID{"leased", "plain", "kept"}, Until: message.UntilParked})
	must(err)
	if !parked.Done {
		t.Fatal("a call does not begin")
	}
}

func (w *intruded) as(role message.Role, name string) *engine.Port {
	return w.eng.As(message.Principal{Role: role, Name: name, Auth: "test"})
}

// bytes are the records of the journal as JSON.
func (w *intruded) bytes(t interface{ Fatal(...any) }) []string {
	all := &everything{}
	ctx, cancel := context.WithCancelCause(context.Background())
	all.end = func() { cancel(errSeen) }
	if err := w.journal.Watch(ctx, 0, all); !errors.Is(err, errSeen) {
		t.Fatal("watch", err)
	}
	out := make([]string, len(all.records))
	for i, r := range all.records {
		b, err := strictjson.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = string(b)
	}
	return out
}

var errSeen = errors.New("all was seen")

type everything struct {
	records []message.Record
	end     func()
}

func (s *everything) Record(r message.Record) { s.records = append(s.records, r) }
func (s *everything) CaughtUp()               { s.end() }

// authorized shows that the space was not dead: whoever may, can.
func (w *intruded) authorized(t *testing.T) {
	c := w.calls[0]
	if _, err := w.as(message.RoleApprover, "bob").Answer(t.Context(), message.Answer{Key: c.Key, Kind: message.AnswerReject, Digest: c.Digest}); err != nil {
		t.Error(err)
	}
	if _, err := w.as(message.RoleOperator, "olga").RevokeLease(t.Context(), message.RevokeLeaseRequest{ID: w.leases[0]}); err != nil {
		t.Error(err)
	}
}
