package inbox

import (
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

// state is where a call stands, in words and with a tone: ask, work, good, bad
// or plain.
type state struct{ Word, Tone string }

func stateOf(c *message.Call) state {
	switch c.State {
	case message.ToolCallAsking:
		return state{"Asking", "ask"}
	case message.ToolCallPending:
		return state{"Waiting", "plain"}
	case message.ToolCallAllowed, message.ToolCallSubmitted:
		switch {
		case c.Hold != message.HoldNone:
			return state{"Held", "bad"}
		case c.Started():
			return state{"Running", "work"}
		}
		return state{"Allowed", "work"}
	case message.ToolCallFinished:
		word, good := asked.Ended(c)
		if !good {
			return state{word, "bad"}
		}
		return state{word, "good"}
	}
	return state{string(c.State), "plain"}
}

// holdText says why a call is held.
func holdText(c *message.Call) string {
	switch c.Hold {
	case message.HoldUnknown:
		return "Its owner died after the start, and nobody knows whether the effect happened."
	case message.HoldDeadLetter:
		return "Every permitted attempt was lost."
	case message.HoldNoWorker:
		return "No worker took it in time."
	case message.HoldClock:
		return c.HoldReason
	case message.HoldNone:
	}
	return ""
}
