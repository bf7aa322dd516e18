package decide

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The ends of a decision that are no event.
var (
	// ErrUndecided: the call cannot be decided yet, and stays pending.
	ErrUndecided = errors.New("not to be decided yet")
	// ErrNoNews: the call is pending behind the approval request that it is hidden behind.
	ErrNoNews = errors.New("nothing has changed")
)

// Event decides about a pending call that is fit, by a verdict about it. A call
// that would be asked about stays behind the open approval request of an earlier one that
// covers it, or waits for earlier ones that may ask such an approval request.
func (j *Judge) Event(ctx context.Context, s Snapshot, v Verdict) (toolcall.Event, error) {
	if v.Asks() {
		if behind := j.hiddenBehind(ctx, s); behind != "" {
			if s.Call.Behind == behind {
				return nil, ErrNoNews
			}
			return toolcall.Hidden{Base: toolcall.Base{At: s.Now}, Behind: behind}, nil
		}
		if j.mayOvertake(s) {
			return nil, ErrUndecided
		}
	}
	ev, err := j.MakeEvent(s.Call, v.Decision, s.Now)
	if err != nil {
		return nil, err
	}
	NoteStandingApprovals(&ev.Decision, v.StandingApprovals)
	ev.Explanation = OnRecord(v.Why)
	return ev, nil
}

// hiddenBehind finds an earlier call of the same batch whose open approval request,
// answered with its suggested rules, would allow this call as well. Asking twice
// at once would be noise.
func (j *Judge) hiddenBehind(ctx context.Context, s Snapshot) message.CallID {
	for _, o := range s.Earlier {
		if o.State != message.ToolCallAsking || len(o.Suggested) == 0 || !j.isTogether(o, s.Call) {
			continue
		}
		rules := append(append([]message.PermissionRule(nil), s.Rules...), o.Suggested...)
		if j.Decide(ctx, s.With(rules)).Behavior == message.BehaviorAllow {
			return o.Call
		}
	}
	return ""
}

// mayOvertake reports whether an earlier call of the group is still to be decided:
// it may ask, and this one be covered by its approval request.
func (j *Judge) mayOvertake(s Snapshot) bool {
	for _, o := range s.Earlier {
		if o.State == message.ToolCallPending && j.isTogether(o, s.Call) && !IsHidden(o, s.Earlier) {
			return true
		}
	}
	return false
}

// isTogether reports whether two calls of one reply belong to one
// concurrency-safe group.
func (j *Judge) isTogether(a, b *toolcall.Call) bool {
	return a.Batch.Number == b.Batch.Number && a.Batch.Group == b.Batch.Group && j.IsSafe(a.Tool) && j.IsSafe(b.Tool)
}

// IsHidden reports whether a call is hidden behind the open approval request of one of
// the others.
func IsHidden(c *toolcall.Call, others []*toolcall.Call) bool {
	for _, o := range others {
		if o.Call == c.Behind {
			return c.Behind != "" && o.State == message.ToolCallAsking
		}
	}
	return false
}

// NoteStandingApprovals notes the standing approvals that a decision relies on.
func NoteStandingApprovals(d *toolcall.Decision, on []toolcall.StandingID) {
	if d.Behavior != message.BehaviorAllow || len(on) == 0 {
		return
	}
	if d.Standing = on[0]; len(on) > 1 {
		d.Besides = on[1:]
	}
}
