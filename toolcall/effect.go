package toolcall

import "github.com/askance-dev/askance/message"

// Effect is something the engine has to do once the fact is durable. An
// engine performs the effects of a fact that it wrote; the other replicas set
// timers by the state, so that a crash between the two loses nothing.
type Effect string

// The effects.
const (
	// EffectAsk: a question is open; show it, and watch its deadline.
	EffectAsk Effect = "ask"
	// EffectClosed: a question that was open is not any more.
	EffectClosed Effect = "closed"
	// EffectStart: the call is allowed, runs locally and has no owner yet.
	EffectStart Effect = "start"
	// EffectRun: this attempt was just started locally; its owner runs it now.
	// After a crash the attempt is lost, not run again.
	EffectRun Effect = "run"
	// EffectDispatch: the call is submitted and waits for a start.
	EffectDispatch Effect = "dispatch"
	// EffectWatch: the attempt has an owner whose lease must be watched.
	EffectWatch Effect = "watch"
	// EffectRetry: a further attempt is due at RetryAt.
	EffectRetry Effect = "retry"
	// EffectCancel: an owner must be told to stop.
	EffectCancel Effect = "cancel"
	// EffectFinished: the call moves no more; calls that waited for it may go on.
	EffectFinished Effect = "finished"
)

// effects compares the call before and after one fact.
func effects(before, after *message.Call) []Effect {
	var out []Effect
	if before != nil && before.State == asking && (after.State != asking || after.Digest != before.Digest) {
		out = append(out, EffectClosed)
	}
	if after.State == finished {
		if before != nil && before.Open() && before.Started() && after.Cause != string(Result) {
			out = append(out, EffectCancel)
		}
		return append(out, EffectFinished)
	}
	if after.Cause == string(Start) && after.Placement == message.PlaceLocal {
		out = append(out, EffectRun)
	}
	return append(out, effectsOf(after)...)
}

// effectsOf gives what the state of an open call requires.
func effectsOf(c *message.Call) []Effect {
	switch {
	case c.State == asking:
		return []Effect{EffectAsk}
	case c.State != allowed && c.State != submitted, c.Hold != message.HoldNone:
		return nil
	case !c.RetryAt.IsZero():
		return []Effect{EffectRetry}
	case c.Started():
		return []Effect{EffectWatch}
	case c.State == submitted:
		return []Effect{EffectDispatch}
	case c.Placement == message.PlaceLocal:
		return []Effect{EffectStart}
	}
	return nil
}
