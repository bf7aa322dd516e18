package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// heldProposals delays the proposals of runtimes whose names begin with flood.
type heldProposals struct {
	api.Caller
	began *atomic.Int64
	gate  <-chan struct{}
}

func (h heldProposals) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if op == api.Propose.Operation {
		if r, _ := request.(toolcall.ProposeRequest); strings.HasPrefix(string(r.Session), "flood") {
			h.began.Add(1)
			<-h.gate
		}
	}
	return h.Caller.Call(ctx, op, request)
}

// flood sends n proposals of a runtime at once. Each answer is noted by the id of its call.
func flood(t *testing.T, nc *nats.Conn, name string, n int, answered func(call string, m *nats.Msg)) {
	t.Helper()
	if _, err := nc.Subscribe("_INBOX_"+name+".flood.*", func(m *nats.Msg) {
		answered(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], m)
	}); err != nil {
		t.Fatal(err)
	}
	input := strings.Repeat("x", 16<<10)
	for i := range n {
		id := fmt.Sprintf("%s-%d", name, i)
		body := fmt.Sprintf(`{"v":1,"op":"propose","body":{"session_id":"%s","reply_id":"r","tool_calls":[{"type":"tool_call","id":"%s","name":"echo","input":"{\"x\":\"%s\"}"}]}}`, name, id, input)
		if err := nc.PublishRequest("askance.v1.test.propose."+name, "_INBOX_"+name+".flood."+id, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// With ten times as many proposals as an engine accepts, the rest are refused as overloaded and
// leave nothing behind, memory is bounded, and responses, results and another space do not wait.
func TestOverload(t *testing.T) {
	const room, times = 256, 10
	w := newWorld(t)
	began, gate := new(atomic.Int64), make(chan struct{})
	w.engine(bus.ServiceOptions{MaxActs: 4, MaxProposals: room}, func(c api.Caller) api.Caller {
		return heldProposals{Caller: c, began: began, gate: gate}
	})
	elsewhere := testSpace()
	elsewhere.name = "elsewhere"
	w.engineOf(elsewhere, bus.ServiceOptions{MaxActs: 4, MaxProposals: room})
	bot, ann := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann")
	asked := propose(t, bot, toolCall("asked", pay, `{}`), toolCall("job", job, `{}`))

	var mu sync.Mutex // guards accepted, refused and strange
	accepted, refused, strange := map[string]bool{}, 0, ""
	all, most := make(chan struct{}), make(chan struct{})
	answered := func(call string, m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case bytes.Contains(m.Data, []byte(`"code":"overloaded"`)):
			if refused++; refused == room*(times-2) {
				close(most)
			}
		case bytes.Contains(m.Data, []byte(`"error"`)):
			strange = string(m.Data)
		default:
			accepted[call] = true
		}
		if len(accepted)+refused == room*times {
			close(all)
		}
	}
	before := liveHeap()
	for _, name := range []string{"flood1", "flood2"} {
		flood(t, w.Conn(name), name, room*times/2, answered)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if c, err := ann.SubmitResponse(ctx, toolcall.Response{Key: bustest.CallKey("asked"), Digest: asked[0].Digest, Kind: toolcall.ResponseReject}); err != nil || c.Open() {
		t.Errorf("a response meanwhile: %v", err)
	}
	worker := w.worker(job, "wendy")
	own := toolcall.StartRequest{Key: bustest.CallKey("job"), Attempt: 1, Claim: "claim"}
	if _, err := worker.Start(ctx, own); err != nil {
		t.Errorf("a start meanwhile: %v", err)
	}
	result := message.ToolResultBlock{ID: "job", Name: job, State: message.ToolResultSuccess}
	if r, err := worker.Result(ctx, toolcall.ResultRequest{Key: own.Key, Attempt: 1, Claim: own.Claim, Result: result}); err != nil || !r.Stored {
		t.Errorf("a result meanwhile: %+v, %v", r, err)
	}
	other, err := bus.NewClient(w.Conn("other"), elsewhere.name, toolcall.Principal{Role: toolcall.RoleRuntime, Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Propose(ctx, toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{toolCall("c", echo, `{}`)}}); err != nil {
		t.Errorf("a proposal in another space: %v", err)
	}
	bustest.WaitUntil(t, "four proposals run at once", func() error {
		if n := began.Load(); n != 4 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	grown := liveHeap() - before
	for end := time.Now().Add(soon); grown > room*16<<10*3 && time.Now().Before(end); { // refused proposals may still be on their way
		grown = liveHeap() - before
	}
	if grown > room*16<<10*3 {
		t.Errorf("the heap has grown by %d KiB, and the waiting proposals have %d KiB", grown>>10, room*16)
	}
	select { // when the gate is open, what is still on its way finds room
	case <-most:
	case <-time.After(soon):
	}
	close(gate)
	select {
	case <-all:
	case <-time.After(2 * soon):
		mu.Lock()
		t.Fatalf("%d accepted and %d refused of %d: %s", len(accepted), refused, room*times, strange)
	}
	if len(accepted) == 0 || refused < room*(times-2) {
		t.Errorf("%d accepted and %d refused, room for %d", len(accepted), refused, room)
	}
	wantFinished(t, w, accepted)
}

// wantFinished checks that exactly the accepted calls of the flood are recorded, and that they
// finish.
func wantFinished(t *testing.T, w *world, accepted map[string]bool) {
	t.Helper()
	found := 0
	for _, name := range []string{"flood1", "flood2"} {
		bot := w.client(toolcall.RoleRuntime, name)
		if _, err := bot.Wait(t.Context(), toolcall.WaitRequest{Session: message.SessionID(name), Reply: "r", TimeoutMS: soon.Milliseconds()}); err != nil {
			t.Fatal(err)
		}
		for after := uint64(0); ; {
			page, err := bot.List(t.Context(), toolcall.ListRequest{Session: message.SessionID(name), All: true, After: after, Limit: 50})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range page.Calls {
				found++
				if !accepted[string(c.Call)] || c.Open() {
					t.Errorf("%s is %s; accepted: %v", c.Call, c.State, accepted[string(c.Call)])
				}
			}
			if after = page.Next; after == 0 {
				break
			}
		}
	}
	if found != len(accepted) {
		t.Errorf("%d calls are recorded, want the %d that were accepted", found, len(accepted))
	}
}
