package approve

import (
	"context"
	"time"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// StepAt is how many instants of the approval request's plan have come: by the clock,
// or by the record if the clock was set back.
func StepAt(c *toolcall.Call, now time.Time) int {
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

// PassTime takes the step that is due for an open approval request: it expires, or
// further people are asked.
func (s *Responses) PassTime(ctx context.Context, key toolcall.Key) error {
	_, err := s.Update(ctx, "expire", key, s.Self, func(_ context.Context, m *toolcall.Machine) error {
		c, now := m.Call(), base()
		switch step := StepAt(c, now.At); {
		case c.State != message.ToolCallAsking:
			return store.ErrNoChange
		case HasExpired(c, now.At):
			return m.Step(toolcall.Expired{Base: now})
		case step > c.Step:
			return escalateTo(m, step, now)
		}
		return store.ErrNoChange
	})
	return err
}

// NextLook is when time does something to an open approval request again; zero: never.
// People are reminded of it at every interval remind; 0: never.
func NextLook(c *toolcall.Call, now time.Time, remind time.Duration) time.Time {
	r := c.Request.Requirement
	next := r.Ends()
	if plan := r.Plan(); c.Step < len(plan) {
		next = earlierOf(next, plan[c.Step])
	}
	if remind > 0 {
		next = earlierOf(next, reminder(c, now, remind))
	}
	return next
}

// reminder is when people are reminded of an approval request next, after now: at every
// full interval since something was said about it.
func reminder(c *toolcall.Call, now time.Time, every time.Duration) time.Time {
	return c.UpdatedAt.Add(max(now.Sub(c.UpdatedAt), 0).Truncate(every) + every)
}

// earlierOf is the earlier of two times; zero is none.
func earlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// HasExpired reports whether the time of an open approval request is over.
func HasExpired(c *toolcall.Call, now time.Time) bool {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return false
	}
	d := c.Request.Requirement.Ends()
	return !d.IsZero() && !now.Before(d)
}
