package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

// Nothing that an unauthorized identity sends changes state: after any requests in any order
// the journal is unchanged, byte for byte.
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
			rt.Fatalf("the journal had %d records and now has %d: %s", len(before), len(after), strings.Join(after[min(len(before), len(after)-1):], "\n"))
		}
	})
	w.authorized(t)
}

// intruded is a space with calls in every state, its engine and that of another space, and
// identities without the right to what they request.
type intruded struct {
	*rapid.T
	journal           *engine.Memory
	eng, away         *engine.Engine
	calls             []*toolcall.Call
	standingApprovals []toolcall.StandingID
}

func newIntruded(t *testing.T) *intruded {
	w := &intruded{journal: engine.NewMemory()}
	tool := func(name string, p toolcall.Placement) engine.Tool {
		return engine.Tool{Tool: permission.Tool{Name: name}, Placement: p, ConcurrencySafe: true, Lease: 1000 * time.Hour, OfferTimeout: 1000 * time.Hour}
	}
	tools := []engine.Tool{tool("pay", toolcall.PlaceRemote), tool("run", toolcall.PlaceRemote), tool("out", toolcall.PlaceExternal), tool("note", toolcall.PlaceExternal)}
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
	start := func(space toolcall.SpaceID, j engine.Journal) *engine.Engine {
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

// furnish creates calls in every state and remembered rules.
func (w *intruded) furnish(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	propose := func(id message.CallID, tool, input string) *toolcall.Call {
		r, err := w.as(toolcall.RoleRuntime, "bot").Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: id, Name: tool, Input: input}}})
		must(err)
		w.calls = append(w.calls, r.Calls[0])
		return r.Calls[0]
	}
	answer := func(c *toolcall.Call, change func(*toolcall.Response)) *toolcall.Call {
		resp := toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest}
		change(&resp)
		after, err := w.as(toolcall.RoleApprover, "ann").SubmitResponse(t.Context(), resp)
		must(err)
		return after
	}
	propose("asking", "pay", `{"pin":1234,"n":1}`)
	answer(propose("voted", "pay", `{"pin":4321,"n":2}`), func(*toolcall.Response) {})
	agreed := answer(propose("agreed", "pay", `{"n":8}`), func(*toolcall.Response) {})
	_, err := w.as(toolcall.RoleApprover, "bob").SubmitResponse(t.Context(), toolcall.Response{Key: agreed.Key, Kind: toolcall.ResponseApprove, Digest: agreed.Digest})
	must(err)
	input := `{"n":3}`
	edited := answer(propose("edited", "pay", `{"n":2}`), func(resp *toolcall.Response) { resp.Input = &input })
	w.calls = append(w.calls, edited)
	kept := answer(propose("kept", "out", `{"n":2}`), func(resp *toolcall.Response) { resp.Remember = &toolcall.StandingTerms{Uses: 5} })
	plain := answer(propose("plain", "note", `{}`), func(resp *toolcall.Response) {
		resp.Rules = []message.PermissionRule{{ToolName: "note", Behavior: message.BehaviorAllow}}
	})
	s, _ := plain.PlainStandingApproval()
	w.standingApprovals = []toolcall.StandingID{kept.StandingApprovals[0].ID, s.ID, "sta_unknown"}
	propose("leased", "out", `{"n":5}`)
	propose("waiting", "out", `{"n":1}`)
	started := propose("started", "run", `{}`)
	_, err = w.as(toolcall.RoleWorker, "w1").Start(t.Context(), toolcall.StartRequest{Key: started.Key, Attempt: 1, Claim: "secret"})
	must(err)
	done := propose("done", "run", `{"n":9}`)
	_, err = w.as(toolcall.RoleWorker, "w1").Start(t.Context(), toolcall.StartRequest{Key: done.Key, Attempt: 1, Claim: "secret"})
	must(err)
	_, err = w.as(toolcall.RoleWorker, "w1").Result(t.Context(), toolcall.ResultRequest{Key: done.Key, Attempt: 1, Claim: "secret", Result: message.ToolResultBlock{State: message.ToolResultSuccess}})
	must(err)
	// A call that a standing approval allows begins after its proposal without an answer.
	parked, err := w.as(toolcall.RoleRuntime, "bot").Wait(t.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", Calls: []message.CallID{"leased", "plain", "kept"}, Until: toolcall.UntilParked})
	must(err)
	if !parked.Done {
		t.Fatal("a call did not begin")
	}
}

func (w *intruded) as(role toolcall.Role, name string) *engine.Port {
	return w.eng.As(toolcall.Principal{Role: role, Name: name, Auth: "test"})
}

// bytes returns the records of the journal as JSON.
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
	records []toolcall.JournalEntry
	end     func()
}

func (e *everything) Record(r toolcall.JournalEntry) { e.records = append(e.records, r) }
func (e *everything) CaughtUp()                      { e.end() }

// authorized checks that the space still works, with an authorized request.
func (w *intruded) authorized(t *testing.T) {
	c := w.calls[0]
	if _, err := w.as(toolcall.RoleApprover, "bob").SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Kind: toolcall.ResponseReject, Digest: c.Digest}); err != nil {
		t.Error(err)
	}
	if _, err := w.as(toolcall.RoleOperator, "olga").RevokeStandingApproval(t.Context(), toolcall.RevokeStandingApprovalRequest{ID: w.standingApprovals[0]}); err != nil {
		t.Error(err)
	}
}

// intruder is an identity without the right to what it asks for.
type intruder struct {
	name string
	port *engine.Port
	// may lists requests that the intruder is allowed to make and that are therefore not sent.
	may map[string]bool
	// entitled is set if they may answer; then only forged answers are sent.
	entitled bool
	// revokes is set if they may revoke calls that no rule restricts to certain people.
	revokes bool
}

func allowing(ops ...string) map[string]bool {
	out := map[string]bool{}
	for _, op := range ops {
		out[op] = true
	}
	return out
}

// intruders returns every role in the wrong place.
func (w *intruded) intruders() []intruder {
	as := func(role toolcall.Role, name string) *engine.Port { return w.as(role, name) }
	away := func(role toolcall.Role) *engine.Port {
		return w.away.As(toolcall.Principal{Role: role, Name: "ann", Auth: "test"})
	}
	return []intruder{
		{name: "an approver of another group", port: as(toolcall.RoleApprover, "mallory"), may: allowing("interrupt"), revokes: true},
		{name: "an approver who forges", port: as(toolcall.RoleApprover, "ann"), may: allowing("interrupt", "revoke", "revoke lease"), entitled: true},
		{name: "an approver who has not said anything", port: as(toolcall.RoleApprover, "bob"), may: allowing("interrupt", "revoke"), entitled: true},
		{name: "a worker as an approver", port: as(toolcall.RoleWorker, "ann"), may: allowing("start", "refuse", "result")},
		{name: "a runtime as an approver", port: as(toolcall.RoleRuntime, "ann")},
		{name: "the requester", port: as(toolcall.RoleApprover, "bot"), may: allowing("interrupt"), revokes: true},
		{name: "the runtime of the session", port: as(toolcall.RoleRuntime, "bot"), may: allowing("propose", "emit", "interrupt", "report")},
		{name: "another runtime", port: as(toolcall.RoleRuntime, "eve")},
		{name: "an operator", port: as(toolcall.RoleOperator, "olga"), may: allowing("interrupt", "resolve", "revoke", "revoke lease", "report")},
		{name: "an auditor", port: as(toolcall.RoleAuditor, "aud")},
		{name: "a worker of another tool", port: w.eng.Worker(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w1", Auth: "test"}, toolcall.Queue{Tool: "other"})},
		{name: "another worker", port: w.eng.Worker(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w2", Auth: "test"}, toolcall.Queue{Tool: "run"})},
		{name: "an engine by name", port: as(toolcall.RoleEngine, w.eng.ID())},
		{name: "no name", port: as(toolcall.RoleApprover, "")},
		{name: "an unknown role", port: as("admin", "ann")},
		{name: "an approver of another space", port: away(toolcall.RoleApprover)},
		{name: "an operator of another space", port: away(toolcall.RoleOperator)},
		{name: "a worker of another space", port: away(toolcall.RoleWorker)},
	}
}

// request sends one request of an intruder. A request that would change something must be
// refused.
func (w *intruded) request() {
	all := w.intruders()
	who := all[rapid.IntRange(0, len(all)-1).Draw(w.T, "who")]
	ops := []string{"submit_response", "submit_response", "submit_response", "propose", "emit", "report", "interrupt", "resolve", "revoke", "revoke lease", "start", "refuse", "heartbeat", "progress", "result", "read"}
	op := rapid.SampledFrom(ops).Draw(w.T, "op")
	if who.may[op] {
		return
	}
	c := w.calls[rapid.IntRange(0, len(w.calls)-1).Draw(w.T, "call")]
	if op == "revoke" && c.Tool != "pay" && who.revokes {
		return
	}
	if err := w.send(who, op, c); err == nil && op != "read" {
		w.Fatalf("%s was not refused: %s of %s", who.name, op, c.Key)
	}
}

func (w *intruded) send(who intruder, op string, c *toolcall.Call) error {
	ctx, p := context.Background(), who.port
	claim := rapid.SampledFrom([]string{"secre", "secret ", "x", ""}).Draw(w.T, "claim")
	attempt := rapid.IntRange(0, 2).Draw(w.T, "attempt")
	result := message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "forged"}}
	drop := func(_ any, err error) error { return err }
	switch op {
	case "submit_response":
		return drop(p.SubmitResponse(ctx, w.forged(who, c)))
	case "propose":
		b := message.ToolCallBlock{ID: rapid.SampledFrom([]message.CallID{c.Call, "new"}).Draw(w.T, "id"), Name: "out", Input: `{"n":1}`}
		return drop(p.Propose(ctx, toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{b}}))
	case "emit":
		return drop(p.Emit(ctx, toolcall.EmitRequest{Session: "s", Reply: "r", Events: []message.RawJSON{message.RawJSON(`{"type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"x"}`)}}))
	case "report":
		return drop(p.Report(ctx, toolcall.ReportRequest{Key: c.Key, Result: result}))
	case "interrupt":
		return drop(p.Interrupt(ctx, toolcall.InterruptRequest{Session: "s", Reply: "r"}))
	case "resolve":
		return drop(p.Resolve(ctx, toolcall.ResolveRequest{Key: c.Key, Attempt: attempt, Outcome: toolcall.OutcomeHappened}))
	case "revoke":
		return drop(p.Revoke(ctx, toolcall.RevokeRequest{Key: c.Key}))
	case "revoke lease":
		return drop(p.RevokeStandingApproval(ctx, toolcall.RevokeStandingApprovalRequest{ID: rapid.SampledFrom(w.standingApprovals).Draw(w.T, "standing_approval")}))
	case "start":
		return drop(p.Start(ctx, toolcall.StartRequest{Key: c.Key, Attempt: attempt, Claim: claim}))
	case "refuse":
		return drop(p.Start(ctx, toolcall.StartRequest{Key: c.Key, Attempt: attempt, Claim: claim, Refuse: "no"}))
	case "heartbeat":
		if r, err := p.Heartbeat(ctx, toolcall.HeartbeatRequest{Key: c.Key, Attempt: attempt, Claim: claim}); err != nil || !r.Stale {
			return err
		}
		return fmt.Errorf("stale")
	case "progress":
		return p.Progress(ctx, toolcall.ProgressRequest{Key: c.Key, Attempt: attempt, Claim: claim, N: 1, Text: "x"})
	case "result":
		return drop(p.Result(ctx, toolcall.ResultRequest{Key: c.Key, Attempt: attempt, Claim: claim, Result: result}))
	}
	return w.read(ctx, p, c)
}

// forged returns an answer that its sender may not give: to another digest, or by a person
// who may not answer at all.
func (w *intruded) forged(who intruder, c *toolcall.Call) toolcall.Response {
	digests := []string{"sha256:0", ""}
	for _, o := range w.calls {
		if o.Key != c.Key { // an answer to another call, sent again to this one
			digests = append(digests, o.Digest)
		}
	}
	if !who.entitled {
		digests = append(digests, c.Digest)
	}
	resp := toolcall.Response{Key: c.Key, Digest: rapid.SampledFrom(digests).Draw(w.T, "digest")}
	resp.Kind = rapid.SampledFrom([]toolcall.ResponseKind{toolcall.ResponseApprove, toolcall.ResponseApprove, toolcall.ResponseReject, toolcall.ResponseRespond, toolcall.ResponseSkip, toolcall.ResponseDelegate, "other"}).Draw(w.T, "kind")
	switch rapid.IntRange(0, 4).Draw(w.T, "with") {
	case 0:
		input := rapid.SampledFrom([]string{`{"n":7}`, c.Input}).Draw(w.T, "input")
		resp.Input = &input
	case 1:
		resp.Remember = &toolcall.StandingTerms{Scope: toolcall.ScopeSpace}
	case 2:
		resp.Rules = []message.PermissionRule{{ToolName: c.Tool, Behavior: message.BehaviorAllow}}
	case 3:
		resp.ID, resp.To = "one", "mallory"
	}
	return resp
}

// read sends every request that only reads.
func (w *intruded) read(ctx context.Context, p *engine.Port, c *toolcall.Call) error {
	_, _ = p.List(ctx, toolcall.ListRequest{All: true, Session: "s"})
	_, _ = p.Show(ctx, toolcall.ShowRequest{Key: c.Key})
	_, _ = p.Wait(ctx, toolcall.WaitRequest{Session: "s", Reply: "r", TimeoutMS: 1})
	_, _ = p.Events(ctx, toolcall.EventsRequest{Session: "s"})
	_, _ = p.StandingApprovals(ctx, toolcall.StandingApprovalsRequest{All: true})
	_, _ = p.ShowStandingApproval(ctx, toolcall.ShowStandingApprovalRequest{ID: w.standingApprovals[0]})
	_, _ = p.Explain(ctx, toolcall.ExplainRequest{Key: c.Key})
	_, _ = p.Load(ctx, toolcall.LoadRequest{})
	_, _ = p.Info(ctx)
	return nil
}
