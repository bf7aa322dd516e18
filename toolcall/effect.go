package toolcall

// Effect is something that the engine which wrote an event record has to do once the event record
// is durable. What is still due after a crash follows from the call's phase.
type Effect string

// The effects.
const (
	// EffectAsk: an approval request is open; show it, and watch its deadline.
	EffectAsk Effect = "ask"
	// EffectClosed: an approval request that was open is not any more.
	EffectClosed Effect = "closed"
	// EffectRun: this attempt was just started locally; its owner runs it now.
	// After a crash the attempt is lost and not run again.
	EffectRun Effect = "run"
	// EffectCancel: an owner must be told to stop.
	EffectCancel Effect = "cancel"
	// EffectFinished: the call moves no more; calls that waited for it may go on.
	EffectFinished Effect = "finished"
)

// effectsOf compares the call before and after one record.
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
