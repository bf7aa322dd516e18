package bus_test

import (
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// One approver rejects a call on one engine, another approves it on another engine, and the journal
// has both responses after the request. The call is rejected everywhere and its task cannot start.
func TestForkedResponses(t *testing.T) {
	w := newWorld(t)
	f := bustest.NewForker(w.Conn("forker"))
	w.opened = journal.Options{Publisher: f}
	one, two := w.engineOf(storedSpace(), bus.ServiceOptions{}), w.engineOf(storedSpace(), bus.ServiceOptions{})
	asked := propose(t, w.client(toolcall.RoleRuntime, "bot"), toolCall("c1", askedJob, `{"n":1}`))[0]
	respond := func(at *replica, who string, kind toolcall.ResponseKind) error {
		_, err := at.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: who}).SubmitResponse(t.Context(), toolcall.Response{Key: asked.Key, Digest: asked.Digest, Kind: kind})
		return err
	}
	f.Arm()
	rejected := make(chan error, 1)
	go func() { rejected <- respond(one, "ann", toolcall.ResponseReject) }()
	select {
	case <-f.Holds:
	case err := <-rejected:
		t.Fatalf("reject: %v", err)
	}
	if err := respond(two, "bob", toolcall.ResponseApprove); err == nil {
		t.Error("the call was approved")
	}
	if err := <-rejected; err != nil {
		t.Errorf("reject: %v", err)
	}
	task := next(t, w.worker(askedJob, "wk"))
	c := task.Record.Call
	if c.State != message.ToolCallSubmitted {
		t.Fatalf("the task is %+v, want the void one", c)
	}
	for name, e := range map[string]*replica{"where it was rejected": one, "where it was approved": two, "a new engine": w.engineOf(storedSpace(), bus.ServiceOptions{})} {
		_, err := e.Worker(toolcall.Principal{Role: toolcall.RoleWorker, Name: "wk"}, toolcall.Queue{Tool: askedJob}).Start(t.Context(), toolcall.StartRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: "claim", Nonce: c.Attempt.Grant.Nonce})
		if err == nil {
			t.Errorf("%s: the void task started", name)
		}
		by := e.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
		show, err := by.Show(t.Context(), toolcall.ShowRequest{Key: asked.Key})
		if err != nil || show.Call.State != message.ToolCallFinished || len(show.History) != 2 {
			t.Errorf("%s: Show = %+v, %v", name, show, err)
		}
		list, err := by.List(t.Context(), toolcall.ListRequest{All: true})
		if err != nil || len(list.Calls) != 1 || list.Calls[0].State != message.ToolCallFinished || list.Calls[0].Votes[0].By.Name != "ann" {
			t.Errorf("%s: List = %+v, %v", name, list.Calls, err)
		}
	}
}
