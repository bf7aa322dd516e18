package agent

import (
	"context"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Stop interrupts what goes on in a session: its open turn or, where a runtime
// works without a runner, the reply of its first open call. It gives the reply, "" if
// nothing goes on.
func Stop(ctx context.Context, c engine.Client, session message.SessionID) (message.ReplyID, error) {
	t, err := ReadThread(ctx, c, session)
	if err != nil {
		return "", err
	}
	reply := t.Open
	if reply == "" {
		open, err := c.List(ctx, toolcall.ListRequest{Session: session, Limit: 1})
		if err != nil {
			return "", err
		}
		if len(open.Calls) == 0 {
			return "", nil
		}
		reply = open.Calls[0].Reply
	}
	_, err = c.Interrupt(ctx, toolcall.InterruptRequest{Session: session, Reply: reply})
	return reply, err
}
