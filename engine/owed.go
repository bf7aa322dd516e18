package engine

import "github.com/askance-dev/askance/message"

// Sizes of the event records that an open call still needs, for Owed.
const (
	recordBytes = 4 << 10 // without the input: approval request, grant, votes, a short result
	inputTimes  = 5       // halves: an event record has the input twice, as JSON text
)

// Owed estimates how many bytes of the journal the open calls still need until
// they are finished. Give it to the journal, which keeps them free.
func (e *Engine) Owed() int64 {
	sum := int64(0)
	for _, c := range e.view.OpenCalls() {
		sum += int64(recordsLeft(c)) * int64(recordBytes+len(c.Input)*inputTimes/2)
	}
	return sum
}

// recordsLeft is how many event records an open call needs that takes no detour.
func recordsLeft(c *message.Call) int {
	switch c.Phase() {
	case message.PhaseWaiting:
		return 4 // asked; approved and offered; started; its result
	case message.PhaseAsking, message.PhaseRetrying:
		return 3
	case message.PhaseRunning:
		return 1
	default:
		return 2
	}
}
