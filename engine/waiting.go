package engine

import (
	"context"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// This file is what time does to an open approval request. All of it follows from the
// approval request's own plan, which was fixed when it opened, and from what is on
// record; a timer only causes a look.

// stepAt is how many instants of the approval request's plan have come: by the clock,
// or by the record if the clock was set back.
func stepAt(c *message.Call, now time.Time) int {
	if c.Request == nil {
		return 0
	}
	n := 0
	for _, at := range c.Request.Requirement.Plan() {
		if now.Before(at) {
			break
		}
		n++
	}
	return max(n, c.Step)
}

// escalateTo puts on record that the plan of an open approval request has come to a
// step, if that is news.
func escalateTo(m *toolcall.Machine, step int, now toolcall.Base) error {
	if c := m.Call(); c.State != message.ToolCallAsking || step <= c.Step {
		return nil
	}
	return m.Step(toolcall.Escalated{Base: now, Step: step})
}

// passTime takes the step that is due for an open approval request: it expires, or
// further people are asked.
func (e *Engine) passTime(ctx context.Context, key message.Key) error {
	_, err := e.update(ctx, "expire", key, e.self(), func(_ context.Context, m *toolcall.Machine) error {
		c, now := m.Call(), stamp()
		switch step := stepAt(c, now.At); {
		case c.State != message.ToolCallAsking:
			return errNoChange
		case expired(c, now.At):
			return m.Step(toolcall.Expired{Base: now})
		case step > c.Step:
			return escalateTo(m, step, now)
		}
		return errNoChange
	})
	return err
}

// nextLook is when time does something to an open approval request again; zero: never.
func (e *Engine) nextLook(c *message.Call, now time.Time) time.Time {
	r := c.Request.Requirement
	next := r.Ends()
	if plan := r.Plan(); c.Step < len(plan) {
		next = earlier(next, plan[c.Step])
	}
	if every := e.cfg.remind; every > 0 {
		next = earlier(next, reminder(c, now, every))
	}
	return next
}

// reminder is when people are reminded of an approval request next, after now: at every
// full interval since something was said about it.
func reminder(c *message.Call, now time.Time, every time.Duration) time.Time {
	return c.UpdatedAt.Add(max(now.Sub(c.UpdatedAt), 0).Truncate(every) + every)
}

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// waits looks at an open approval request whose time has come: what is due by its plan
// is written, and if nothing is, people are reminded. A reminder is the hint
// again; every replica gives it.
func (e *Engine) waits(ctx context.Context, c *message.Call) error {
	err := e.passTime(ctx, c.Key)
	if now := e.view.Call(c.Key); err != nil || now == nil || now.Seq != c.Seq {
		return err // it moved on; its newer event record set its own timers
	}
	if e.cfg.remind > 0 {
		e.cfg.signals.Hint(c)
	}
	if next := e.nextLook(c, time.Now()); !next.IsZero() {
		e.timers.Set(next, c.Key, c.Seq)
	}
	return nil
}
