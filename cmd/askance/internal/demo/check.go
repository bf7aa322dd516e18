package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Check is something that must be true after a play.
type Check struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Why  string `json:"why,omitzero"` // if it is not
}

// check compares the effects with the journal.
func (d *Demo) check(ctx context.Context, c engine.Client, r *Result) ([]Check, error) {
	out := []Check{checkMessage(r)}
	order, err := checkOrder(ctx, c, r.Calls)
	if err != nil {
		return nil, err
	}
	ledger, err := d.checkLedger(r.Calls)
	if err != nil {
		return nil, err
	}
	logs, err := d.checkLogs(r.Calls)
	if err != nil {
		return nil, err
	}
	return append(out, order, ledger, logs), nil
}

func checkMessage(r *Result) Check {
	check := Check{What: fmt.Sprintf("the message rebuilt from %d events has the result of every call", r.Events), OK: true}
	for _, c := range r.Calls {
		block := r.Message.ToolResult(c.Call)
		if c.Result == nil || block == nil || block.State != c.Result.State || block.Output.String() != c.Result.Output.String() {
			check.OK, check.Why = false, fmt.Sprintf("%s differs", c.Call)
		}
	}
	return check
}

// checkOrder checks that nothing started before it was allowed.
func checkOrder(ctx context.Context, c engine.Client, calls []*toolcall.Call) (Check, error) {
	check := Check{What: "nothing started before it was allowed, and nothing that was denied", OK: true}
	for _, call := range calls {
		r, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: call.Key})
		if err != nil {
			return check, err
		}
		allowed := false
		for _, entry := range r.History {
			for _, s := range entry.Path {
				allowed = allowed || s.To == message.ToolCallAllowed
				if s.Cause == "start" && !allowed {
					check.OK, check.Why = false, fmt.Sprintf("%s started at record %d", call.Call, entry.Seq)
				}
			}
		}
	}
	return check, nil
}

func (d *Demo) checkLedger(calls []*toolcall.Call) (Check, error) {
	check := Check{What: "the ledger has every refund that ran once, and no other", OK: true}
	booked, err := ReadLedger(d.path(workspace) + "/" + Ledger)
	if err != nil {
		return check, err
	}
	for _, c := range calls {
		if c.Tool != "refund" {
			continue
		}
		want := 0
		if c.Started() && c.Result.State == message.ToolResultSuccess {
			want = 1
		}
		key := c.IdempotencyKey()
		have := len(slices.DeleteFunc(slices.Clone(booked), func(b Booking) bool { return b.Key != key }))
		if have != want {
			check.OK, check.Why = false, fmt.Sprintf("%s is booked %d times, want %d", c.Call, have, want)
		}
	}
	return check, nil
}

// checkLogs checks that what a denied command would have deleted still exists.
func (d *Demo) checkLogs(calls []*toolcall.Call) (Check, error) {
	check := Check{What: "the denied command did not run: the logs are still there", OK: true}
	for _, c := range calls {
		if c.Tool == "shell" && c.Decision != nil && c.Decision.Behavior == message.BehaviorDeny && c.Started() {
			check.OK, check.Why = false, fmt.Sprintf("%s has started", c.Call)
		}
	}
	_, err := os.Stat(d.path(workspace) + "/logs")
	if errors.Is(err, fs.ErrNotExist) {
		check.OK, check.Why = false, "the folder is gone"
		err = nil
	}
	return check, err
}
