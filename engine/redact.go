package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/askance-dev/askance/message"
)

// What rules redact is seen by the runtime that proposed the call and by
// whoever runs it. Everybody else gets the redacted call, in replies, events
// and errors alike.

// Redactor says beforehand whether rules hide anything: then arguments that a
// runtime streams are not shown until their call is decided. Every Policy does.
type Redactor interface {
	// Redacts reports whether a rule in force may hide a part of arguments.
	Redacts() bool
}

// seesAll reports whether the principal sees what rules redact. A runtime sees
// no calls but its own.
func (p *Port) seesAll() bool {
	return p.by.Role == message.RoleRuntime || p.by.Role == message.RoleEngine
}

// redacted gives a call to the principal: as much as they may see, and a copy,
// so that nobody writes into the engine's view.
func (p *Port) redacted(c *message.Call) *message.Call {
	c = p.e.clocks.Mark(c)
	if p.seesAll() {
		return c.Clone()
	}
	return c.Redacted().Clone()
}

// shown is redacted for several.
func (p *Port) shown(calls []*message.Call) []*message.Call {
	out := make([]*message.Call, 0, len(calls))
	for _, c := range calls {
		if c != nil {
			out = append(out, p.redacted(c))
		}
	}
	return out
}

func (p *Port) one(c *message.Call, err error) (*message.Call, error) {
	if c == nil || err != nil {
		return nil, err
	}
	return p.redacted(c), nil
}

// shownError is an error with as much of its call as the principal may see.
func (p *Port) shownError(err error) error {
	e, is := errors.AsType[*message.Error](err)
	if !is || e.Call == nil {
		return err
	}
	out := *e
	out.Call = p.redacted(e.Call)
	return &out
}

// shownText is a line that a worker says about a call as those see it who may
// not see what rules redact: literal repetitions of it are blotted out.
func shownText(c *message.Call, text string) string {
	said := c.Clone()
	said.Cause, said.Result = "", &message.ToolResultBlock{Output: message.Content{Text: text}}
	return said.Redacted().Result.Output.Text
}

// redact notes what rules hide of a call that is kept undecided.
func (e *Engine) redact(ctx context.Context, c *message.Call) {
	c.Redact = e.policy.Decide(ctx, e.request(c, c.Input, nil)).Redact
}

// seenBy puts the hidden values back into edited arguments, whose author saw
// marks in their places.
func seenBy(c *message.Call, a message.Response) (message.Response, error) {
	if a.Input == nil || c.State != message.ToolCallAsking || c.Request == nil || a.Digest != c.Digest {
		return a, nil
	}
	input, err := c.Request.Revealed(*a.Input)
	a.Input = &input
	return a, err
}

// streamedFor gives a streamed event to the principal. The arguments of a call
// come in pieces that cannot be redacted one by one: they are left empty, and
// before their end the redacted arguments are given in one piece.
func (e *Engine) streamedFor(ctx context.Context, p *Port, rec message.JournalEntry) []message.RawJSON {
	whole := []message.RawJSON{rec.Event}
	if p.seesAll() || !bytes.Contains(rec.Event, []byte("TOOL_CALL_")) {
		return whole
	}
	ev, err := message.DecodeEvent(rec.Event)
	if err != nil {
		return nil
	}
	switch ev := ev.(type) {
	case *message.ToolCallDelta:
		if e.hidesStreamed(ctx, rec.Key, ev.ToolCallID) == nil {
			return whole
		}
		ev.Delta = ""
		return encode(ev)
	case *message.ToolCallEnd:
		c := e.hidesStreamed(ctx, rec.Key, ev.ToolCallID)
		if c == nil || c.State == "" {
			return whole
		}
		h := ev.EventHeader
		h.ID += "-input"
		return append(encode(&message.ToolCallDelta{EventHeader: h, ToolCallID: ev.ToolCallID, Delta: c.Redacted().Input}), rec.Event)
	default:
		return whole
	}
}

func encode(ev message.Event) []message.RawJSON {
	raw, err := json.Marshal(ev)
	if err != nil {
		return nil
	}
	return []message.RawJSON{raw}
}

// hidesStreamed gives the call whose arguments must not be shown as they were
// streamed; nil: they may be. Of a call that is not on record nobody knows what
// will be hidden: where rules hide anything, an empty call stands for it, and so
// for one that cannot be read.
func (e *Engine) hidesStreamed(ctx context.Context, key message.Key, id message.CallID) *message.Call {
	key.Call = id
	c, err := e.store.Call(ctx, key)
	switch {
	case c == nil && (e.policy.Redacts() || !errors.Is(err, message.ErrNotFound)):
		return &message.Call{Key: key}
	case c == nil || !c.Hides():
		return nil
	}
	return c
}
