package agui_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agui"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// owner is the engine for the owner of the threads.
func (s *stage) owner() engine.Client {
	return s.A.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: gatewaytest.Everything, Auth: gatewaytest.AuthToken})
}

// unattended begins a turn whose frontend is away, and returns the call that its tool has to run. Each
// of more adds a call.
func (s *stage) unattended(t *testing.T, more ...string) (*client, *toolcall.Call) {
	t.Helper()
	m, err := message.UserMsg(gatewaytest.Everything, message.Content{Text: strings.Join(append([]string{`call lookup {"q":1}`}, more...), "\n")}, message.WithID("u"))
	if err != nil {
		t.Fatal(err)
	}
	by := toolcall.Principal{Role: toolcall.RoleRuntime, Name: gatewaytest.Everything, Auth: gatewaytest.AuthToken}
	reply, err := s.runner.Start(t.Context(), by, "t", "bot", agent.Input{Messages: []*message.Msg{m}, Tools: []agent.Tool{{Name: gatewaytest.Lookup}}})
	if err != nil {
		t.Fatal(err)
	}
	key := toolcall.Key{Space: s.A.ID, Session: "t", Reply: reply, Call: "call-1-1"}
	calls := []message.CallID{key.Call}
	for i := range more {
		calls = append(calls, message.CallID(fmt.Sprintf("call-1-%d", i+2)))
	}
	for {
		w, err := s.owner().Wait(t.Context(), toolcall.WaitRequest{Session: "t", Reply: reply, Calls: calls, Until: toolcall.UntilRunnable})
		if err == nil && w.Done {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	c := s.client(gatewaytest.Everything, "t")
	c.tools = []wire.Tool{{Name: gatewaytest.Lookup}}
	return c, s.seen(key)
}

// pendingIDs are the calls that a run told its client to run.
func (r *response) pendingIDs() []string {
	if e, ok := r.events[len(r.events)-1].(*wire.RunFinished); ok && e.Outcome != nil {
		return e.Outcome.PendingToolCallIDs
	}
	return nil
}

// TestHandedOverCallHasBegun: a call that its client was told to run can no longer be revoked, because
// the record would say that it did not run. Each page of the owner gets it until it has a result.
func TestHandedOverCallHasBegun(t *testing.T) {
	s := newStage(t)
	c, call := s.unattended(t)
	for range 2 {
		c.history = wire.NewHistory(nil)
		if got := c.post("/agui/connect", c.input()).is(t, "success").pendingIDs(); len(got) != 1 {
			t.Errorf("the client has to run %v", got)
		}
		if now := s.seen(call.Key); now.Phase() != toolcall.PhaseRunning || now.Attempt.Worker != gatewaytest.Everything {
			t.Errorf("the call is %s by %q", now.Phase(), now.Attempt.Worker)
		}
	}
	if _, err := s.A.Client(gatewaytest.Olga).Revoke(t.Context(), toolcall.RevokeRequest{Key: call.Key}); err == nil {
		t.Error("a call that its client runs was revoked")
	}
	c.history.Apply(&wire.ToolCallResult{MessageID: "found", ToolCallID: "call-1-1", Content: wire.Content{Text: "it"}, Role: new(wire.RoleTool)})
	c.talk().is(t, "success")
	if got := s.seen(call.Key).Result; got == nil || got.Output.String() != "it" {
		t.Errorf("the result is %+v", got)
	}
}

// TestDeniedBeforeHandOver: a deny rule that came into force while the frontend was away stops the call.
func TestDeniedBeforeHandOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(behavior string) {
		if err := os.WriteFile(path, []byte("version: 1\nname: r\nrules:\n  - {name: r, tool: lookup, behavior: "+behavior+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("allow")
	live, err := permission.NewLive(permission.Paths(path), permission.LiveOptions{Options: permission.Options{AllowUnknownTools: true, Enforced: engine.Duties()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newStageIn(t, []gatewaytest.Option{gatewaytest.LivePolicy(live)})
	c, call := s.unattended(t)
	write("deny")
	if err := live.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := c.post("/agui/connect", c.input()).is(t, "success")
	if now := s.seen(call.Key); len(a.pendingIDs()) != 0 || now.Result == nil || now.Result.State != message.ToolResultDenied {
		t.Errorf("the client has to run %v, and the call is %+v", a.pendingIDs(), now)
	}
}

// TestBegunElsewhere: another program of the owner runs the call. The client is not told to run it too.
func TestBegunElsewhere(t *testing.T) {
	s := newStage(t, func(c *agui.Config) { c.Patience = 10 * time.Millisecond })
	c, call := s.unattended(t)
	if _, err := s.owner().Begin(t.Context(), toolcall.BeginRequest{Key: call.Key, Claim: "another"}); err != nil {
		t.Fatal(err)
	}
	a := c.post("/agui/connect", c.input()).is(t, "interrupt")
	if len(a.pendingIDs()) != 0 || len(c.open) != 1 || c.open[0].Reason != wire.ReasonExternal {
		t.Errorf("ended with\n%s", show(a))
	}
}

// TestUserGoesOnWhileAnotherProgramRuns: the user goes on with the result of one call. The other call runs
// in another program of the owner, whose result counts.
func TestUserGoesOnWhileAnotherProgramRuns(t *testing.T) {
	s := newStage(t, func(c *agui.Config) { c.Patience = 10 * time.Millisecond })
	c, call := s.unattended(t, `also lookup {"q":2}`)
	other := call.Key
	other.Call = "call-1-2"
	if _, err := s.owner().Begin(t.Context(), toolcall.BeginRequest{Key: other, Claim: "another"}); err != nil {
		t.Fatal(err)
	}
	if got := c.post("/agui/connect", c.input()).is(t, "success").pendingIDs(); len(got) != 1 {
		t.Fatalf("the client has to run %v", got)
	}
	c.bring("found")
	c.said("say enough").talk().is(t, "interrupt")
	result := message.ToolResultBlock{ID: other.Call, Output: message.Content{Text: "late"}, State: message.ToolResultSuccess}
	if _, err := s.owner().Report(t.Context(), toolcall.ReportRequest{Key: other, Result: result}); err != nil {
		t.Errorf("the result of the other program was refused: %v", err)
	}
	c.talk(c.all(`{}`)...).is(t, "success")
	if words := c.words(); !strings.Contains(words, "lookup: success: found") || !strings.Contains(words, "lookup: success: late") || !strings.Contains(words, "enough") {
		t.Errorf("the client has\n%s", words)
	}
}

// TestWorkersCallIsNotTheClients: a client that names a worker's tool as its own is not told to run its
// calls.
func TestWorkersCallIsNotTheClients(t *testing.T) {
	s := newStage(t, func(c *agui.Config) { c.Patience = 10 * time.Millisecond })
	c := s.client(gatewaytest.Everything, "t").said("call job {}")
	c.talk().is(t, "interrupt")
	c.tools = []wire.Tool{{Name: gatewaytest.Job}}
	a := c.talk(c.all(`{}`)...).is(t, "interrupt")
	if len(a.pendingIDs()) != 0 || len(c.open) != 1 || c.open[0].Reason != wire.ReasonExternal {
		t.Errorf("ended with\n%s", show(a))
	}
}

// TestRefusedResult: the engine refuses a result for its content. The call ends with an error that says
// so, because the client would send the result again in each run of the thread.
func TestRefusedResult(t *testing.T) {
	s := newStage(t)
	c, call := s.unattended(t)
	c.post("/agui/connect", c.input()).is(t, "success")
	c.bring(strings.Repeat("x", toolcall.MaxOutputBytes+1))
	c.talk().is(t, "success")
	if got := s.seen(call.Key).Result; got == nil || got.State != message.ToolResultError || !strings.HasSuffix(got.Output.String(), "cannot be stored: the result has 524334 bytes, the limit is 524288.") {
		t.Errorf("the result is %+v", got)
	}
	if words := c.words(); strings.Contains(words, "xxx") || !strings.Contains(words, "tool: The frontend ran this call") {
		t.Errorf("the client has\n%.2000s", words)
	}
}
