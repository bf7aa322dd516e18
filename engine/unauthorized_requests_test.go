package engine_test

import (
	"context"
	"fmt"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// intruder is somebody without the right to what they ask for.
type intruder struct {
	name string
	port *engine.Port
	// may are requests that are theirs to make, which are not made.
	may map[string]bool
	// entitled: they may answer, so that only forged answers are sent.
	entitled bool
	// anybody: what no rule limits to certain people is theirs to take back.
	anybody bool
}

func allowing(ops ...string) map[string]bool {
	out := map[string]bool{}
	for _, op := range ops {
		out[op] = true
	}
	return out
}

// intruders are every role in the wrong place.
func (w *intruded) intruders() []intruder {
	as := func(role message.Role, name string) *engine.Port { return w.as(role, name) }
	away := func(role message.Role) *engine.Port {
		return w.away.As(message.Principal{Role: role, Name: "ann", Auth: "test"})
	}
	return []intruder{
		{name: "an approver of another group", port: as(message.RoleApprover, "mallory"), may: allowing("interrupt"), anybody: true},
		{name: "an approver who forges", port: as(message.RoleApprover, "ann"), may: allowing("interrupt", "revoke", "revoke lease"), entitled: true},
		{name: "an approver who has not said anything", port: as(message.RoleApprover, "bob"), may: allowing("interrupt", "revoke"), entitled: true},
		{name: "a worker as an approver", port: as(message.RoleWorker, "ann"), may: allowing("start", "refuse", "result")},
		{name: "a runtime as an approver", port: as(message.RoleRuntime, "ann")},
		{name: "the requester", port: as(message.RoleApprover, "bot"), may: allowing("interrupt"), anybody: true},
		{name: "the runtime of the session", port: as(message.RoleRuntime, "bot"), may: allowing("propose", "emit", "interrupt", "report")},
		{name: "another runtime", port: as(message.RoleRuntime, "eve")},
		{name: "an operator", port: as(message.RoleOperator, "olga"), may: allowing("interrupt", "revoke", "revoke lease", "report")},
		{name: "an auditor", port: as(message.RoleAuditor, "aud")},
		{name: "a worker of another tool", port: w.eng.Worker(message.Principal{Role: message.RoleWorker, Name: "w1", Auth: "test"}, message.Lane{Tool: "other"})},
		{name: "another worker", port: w.eng.Worker(message.Principal{Role: message.RoleWorker, Name: "w2", Auth: "test"}, message.Lane{Tool: "run"})},
		{name: "an engine by name", port: as(message.RoleEngine, w.eng.ID())},
		{name: "nobody", port: as(message.RoleApprover, "")},
		{name: "a role that is none", port: as("admin", "ann")},
		{name: "an approver of another space", port: away(message.RoleApprover)},
		{name: "an operator of another space", port: away(message.RoleOperator)},
		{name: "a worker of another space", port: away(message.RoleWorker)},
	}
}

// request sends one request of an intruder. What would change something must
// be refused.
func (w *intruded) request() {
	all := w.intruders()
	who := all[rapid.IntRange(0, len(all)-1).Draw(w.T, "who")]
	ops := []string{"answer", "answer", "answer", "propose", "emit", "report", "interrupt", "settle", "revoke", "revoke lease", "start", "refuse", "heartbeat", "progress", "result", "read"}
	op := rapid.SampledFrom(ops).Draw(w.T, "op")
	if who.may[op] {
		return
	}
	c := w.calls[rapid.IntRange(0, len(w.calls)-1).Draw(w.T, "call")]
	if op == "revoke" && c.Tool != "pay" && who.anybody {
		return
	}
	if err := w.send(who, op, c); err == nil && op != "read" {
		w.Fatalf("%s was not refused: %s of %s", who.name, op, c.Key)
	}
}

func (w *intruded) send(who intruder, op string, c *message.Call) error {
	ctx, p := context.Background(), who.port
	claim := rapid.SampledFrom([]string{"secre", "secret ", "x", ""}).Draw(w.T, "claim")
	attempt := rapid.IntRange(0, 2).Draw(w.T, "attempt")
	result := message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "forged"}}
	drop := func(_ any, err error) error { return err }
	switch op {
	case "answer":
		return drop(p.Answer(ctx, w.forged(who, c)))
	case "propose":
		b := message.ToolCallBlock{ID: rapid.SampledFrom([]message.CallID{c.Call, "new"}).Draw(w.T, "id"), Name: "out", Input: `{"n":1}`}
		return drop(p.Propose(ctx, message.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{b}}))
	case "emit":
		return drop(p.Emit(ctx, message.EmitRequest{Session: "s", Reply: "r", Events: []message.RawJSON{message.RawJSON(`{"type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"x"}`)}}))
	case "report":
		return drop(p.Report(ctx, message.ReportRequest{Key: c.Key, Result: result}))
	case "interrupt":
		return drop(p.Interrupt(ctx, message.InterruptRequest{Session: "s", Reply: "r"}))
	case "settle":
		return drop(p.Settle(ctx, message.SettleRequest{Key: c.Key, Attempt: attempt, Outcome: message.OutcomeHappened}))
	case "revoke":
		return drop(p.Revoke(ctx, message.RevokeRequest{Key: c.Key}))
	case "revoke lease":
		return drop(p.RevokeLease(ctx, message.RevokeLeaseRequest{ID: rapid.SampledFrom(w.leases).Draw(w.T, "lease")}))
	case "start":
		return drop(p.Start(ctx, message.StartRequest{Key: c.Key, Attempt: attempt, Claim: claim}))
	case "refuse":
		return drop(p.Start(ctx, message.StartRequest{Key: c.Key, Attempt: attempt, Claim: claim, Refuse: "no"}))
	case "heartbeat":
		if r, err := p.Heartbeat(ctx, message.HeartbeatRequest{Key: c.Key, Attempt: attempt, Claim: claim}); err != nil || !r.Stale {
			return err
		}
		return fmt.Errorf("stale")
	case "progress":
		return p.Progress(ctx, message.ProgressRequest{Key: c.Key, Attempt: attempt, Claim: claim, N: 1, Text: "x"})
	case "result":
		return drop(p.Result(ctx, message.ResultRequest{Key: c.Key, Attempt: attempt, Claim: claim, Result: result}))
	}
	return w.read(ctx, p, c)
}

// forged is an answer that its sender may not give: to another digest, or by
// somebody who may not answer at all.
func (w *intruded) forged(who intruder, c *message.Call) message.Answer {
	digests := []string{"sha256:0", ""}
	for _, o := range w.calls {
		if o.Key != c.Key { // an answer to another call, sent again to this one
			digests = append(digests, o.Digest)
		}
	}
	if !who.entitled {
		digests = append(digests, c.Digest)
	}
	a := message.Answer{Key: c.Key, Digest: rapid.SampledFrom(digests).Draw(w.T, "digest")}
	a.Kind = rapid.SampledFrom([]message.AnswerKind{message.AnswerApprove, message.AnswerApprove, message.AnswerReject, message.AnswerForTool, message.AnswerAbstain, message.AnswerHandOver, "other"}).Draw(w.T, "kind")
	switch rapid.IntRange(0, 4).Draw(w.T, "with") {
	case 0:
		input := rapid.SampledFrom([]string{`{"n":7}`, c.Input}).Draw(w.T, "input")
		a.Input = &input
	case 1:
		a.Remember = &message.LeaseTerms{Scope: message.ScopeSpace}
	case 2:
		a.Rules = []message.PermissionRule{{ToolName: c.Tool, Behavior: message.BehaviorAllow}}
	case 3:
		a.ID, a.To = "one", "mallory"
	}
	return a
}

// read sends everything that only reads.
func (w *intruded) read(ctx context.Context, p *engine.Port, c *message.Call) error {
	_, _ = p.List(ctx, message.ListRequest{All: true, Session: "s"})
	_, _ = p.Show(ctx, message.ShowRequest{Key: c.Key})
	_, _ = p.Wait(ctx, message.WaitRequest{Session: "s", Reply: "r", TimeoutMS: 1})
	_, _ = p.Events(ctx, message.EventsRequest{Session: "s"})
	_, _ = p.Leases(ctx, message.LeasesRequest{All: true})
	_, _ = p.ShowLease(ctx, message.ShowLeaseRequest{ID: w.leases[0]})
	_, _ = p.Explain(ctx, message.ExplainRequest{Key: c.Key})
	_, _ = p.Load(ctx, message.LoadRequest{})
	_, _ = p.Info(ctx)
	return nil
}
