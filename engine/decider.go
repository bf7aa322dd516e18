package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// decider decides pending calls: it asks the policy and the standing approvals, and
// takes the call as far as it goes.
type decider struct {
	*core
	attempts *attempts
}

// decideCall decides a pending call within the machine. What it would ask waits,
// with decide.ErrUndecided, for earlier calls behind whose approval request it may come to
// hide.
func (d *decider) decideCall(ctx context.Context, m *toolcall.Machine, earlier []*toolcall.Call) error {
	c := m.Call()
	if text := d.judge.Unfit(c); text != "" {
		d.noteRedaction(ctx, c)
		return m.Step(toolcall.Refused{Base: stamp(), Text: text})
	}
	v := d.standing.Consult(ctx, c)
	if by, standing := d.standing.ResponseFor(ctx, c, v.Decision, d.standing.Spend); standing != "" {
		v.Decision, v.StandingApprovals = by, []toolcall.StandingID{standing}
	}
	others := d.presentCalls(earlier, v)
	s := d.snapshot(c) // after the look at the others: an answer that ended an approval request left its rules
	if v.Asks() && len(s.Rules) != v.Known {
		return d.decideCall(ctx, m, earlier)
	}
	s.Earlier = others
	ev, err := d.judge.Event(ctx, s, v)
	if errors.Is(err, decide.ErrNoNews) {
		return errNoChange
	}
	if err != nil {
		return err
	}
	if _, hidden := ev.(toolcall.Hidden); hidden {
		c.Redact = v.Decision.Redact
	}
	if err := m.Step(ev); err != nil {
		return err
	}
	if m.Call().State != message.ToolCallAllowed {
		return nil
	}
	return d.attempts.beginAllowed(m)
}

// presentCalls are calls as they stand, where the verdict needs them.
func (d *decider) presentCalls(calls []*toolcall.Call, v decide.Verdict) []*toolcall.Call {
	if !v.Asks() {
		return nil
	}
	out := make([]*toolcall.Call, len(calls))
	for i, c := range calls {
		if out[i] = d.view.Call(c.Key); out[i] == nil {
			out[i] = c
		}
	}
	return out
}
