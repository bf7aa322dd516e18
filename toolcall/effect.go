package toolcall

// Effect is something that the engine has to do after the event record that it wrote is
// durable. What is still due after a crash follows from the call's phase.
type Effect string

// The effects.
const (
	// EffectAsk: an approval request is open; show it and watch its deadline.
	EffectAsk Effect = "ask"
	// EffectClosed: an approval request that was open has closed.
	EffectClosed Effect = "closed"
	// EffectRun: this attempt was just started locally, and its owner runs it now. After a
	// crash the attempt counts as lost and is not run again.
	EffectRun Effect = "run"
	// EffectCancel: an owner must be told to stop.
	EffectCancel Effect = "cancel"
	// EffectFinished: the call is finished; calls that waited for it may continue.
	EffectFinished Effect = "finished"
)

// effectsOf derives the effects from the call before and after one record.
func effectsOf(before, after *Call) []Effect {
	var out []Effect
	if before != nil && before.State == asking && (after.State != asking || after.Digest != before.Digest) {
		out = append(out, EffectClosed)
	}
	if after.State == finished {
		if before != nil && before.Open() && before.Started() && after.Cause != string(CauseResult) {
			out = append(out, EffectCancel)
		}
		return append(out, EffectFinished)
	}
	if after.Cause == string(CauseStart) && after.Placement == PlaceLocal {
		out = append(out, EffectRun)
	}
	if after.State == asking {
		out = append(out, EffectAsk)
	}
	return out
}
