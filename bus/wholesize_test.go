package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// A call is accepted only if it can be shown and run: its record has the input once, but what
// approvers and workers receive has it twice.
func TestCallTooLargeToBeShownIsRefused(t *testing.T) {
	w := newWorld(t, bustest.With(func(o *embed.Options) { o.MaxPayload = 1 << 20 }))
	w.engineOf(storedSpace(), bus.ServiceOptions{})
	bot, ann := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann")
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience) // without a deadline, a client waits fifteen seconds for each reply
	defer cancel()
	for _, tc := range []struct {
		id   string
		size int
		fits bool
	}{{"large", 192 << 10, true}, {"too-large", 256 << 10, false}} {
		input := `{"s":"` + strings.Repeat(`\"`, (tc.size-20)/2) + `"}`
		before, err := bustest.Stream(t, w.Bus).Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rep, err := bot.Propose(ctx, toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{toolCall(tc.id, askedJob, input)}})
		if !tc.fits {
			if err == nil || !errors.Is(err, message.ErrTooLarge) {
				t.Errorf("%s: Propose = %+v, %v; want that it is too large", tc.id, rep, err)
			}
			after, err := bustest.Stream(t, w.Bus).Info(t.Context())
			if err != nil || after.State.Bytes-before.State.Bytes > uint64(tc.size)/2 {
				t.Errorf("%s: the journal grew from %d to %d bytes, %v", tc.id, before.State.Bytes, after.State.Bytes, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		show, err := ann.Show(ctx, toolcall.ShowRequest{Key: rep.Calls[0].Key})
		if err != nil {
			t.Fatalf("%s: Show: %v", tc.id, err)
		}
		if _, err := ann.SubmitResponse(ctx, toolcall.Response{Key: show.Call.Key, Digest: show.Call.Digest, Kind: toolcall.ResponseApprove}); err != nil {
			t.Fatalf("%s: approve: %v", tc.id, err)
		}
		if task := next(t, w.worker(askedJob, "wk")); task.Record.Call.Input != input {
			t.Errorf("%s: the worker got another input", tc.id)
		}
	}
}
