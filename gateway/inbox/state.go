package inbox

import (
	"strings"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

// state is where a call stands, in words and with a tone: ask, work, good, bad
// or plain.
type state struct{ Word, Tone string }

func stateOf(c *message.Call) state {
	tone := "plain"
	switch c.Phase() {
	case message.PhaseAsking:
		tone = "ask"
	case message.PhaseBlocked:
		tone = "bad"
	case message.PhaseReady, message.PhaseQueued, message.PhaseRunning, message.PhaseRetrying:
		tone = "work"
	case message.PhaseFinished:
		word, good := asked.Ended(c)
		if !good {
			return state{word, "bad"}
		}
		return state{word, "good"}
	case message.PhaseWaiting:
	}
	word := string(c.Phase())
	return state{strings.ToUpper(word[:1]) + word[1:], tone}
}

// blockedText says why a call is blocked.
func blockedText(c *message.Call) string {
	switch c.Blocked {
	case message.BlockedUnknown:
		return "The worker died after the start, so the outcome is unknown."
	case message.BlockedDeadLetter:
		return "Every permitted attempt was lost."
	case message.BlockedNoWorker:
		return "No worker took it in time."
	case message.BlockedClock:
		return c.BlockedReason
	case message.NotBlocked:
	}
	return ""
}
