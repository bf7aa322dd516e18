package agui

import "slices"

// Chunks replaces the chunk events of a stream, which combine start, content and end, with separate events, as the client does before its sequence checks. Other events
// pass, and close what chunks of their owner left open. The zero value is ready to use; each
// stream needs its own.
type Chunks struct {
	runs  map[owner]*chunkRun
	order []owner // in the order in which their items began
}

// chunkRun is the item that the chunks of one owner write.
type chunkRun struct {
	kind   EventType // of the chunks
	id     string
	opener chunk
}

// chunk is what the three chunk events have in common.
type chunk struct {
	Tagged
	kind               EventType
	id                 *string
	role               *Role
	name, tool, parent *string
	delta              *string
}

func chunkOf(e Event) (chunk, bool) {
	switch e := e.(type) {
	case *TextMessageChunk:
		return chunk{Tagged: e.Tagged, kind: TypeOf(e), id: e.MessageID, role: e.Role, name: e.Name, delta: e.Delta}, true
	case *ToolCallChunk:
		return chunk{Tagged: e.Tagged, kind: TypeOf(e), id: e.ToolCallID, tool: e.ToolCallName, parent: e.ParentMessageID, delta: e.Delta}, true
	case *ReasoningMessageChunk:
		return chunk{Tagged: e.Tagged, kind: TypeOf(e), id: e.MessageID, delta: e.Delta}, true
	default:
		return chunk{}, false
	}
}

// Expand returns the separate events for e. The error is an *[OrderError].
func (c *Chunks) Expand(e Event) ([]Event, error) {
	if ch, ok := chunkOf(e); ok {
		return c.chunk(e, ch)
	}
	switch e := e.(type) {
	case *Raw, *ActivitySnapshot, *ActivityDelta, *ReasoningEncryptedValue, *SubagentStarted:
		return []Event{e}, nil
	case *RunStarted, *RunFinished, *RunError, *MessagesSnapshot:
		var out []Event
		for len(c.order) > 0 {
			out = append(out, c.end(c.order[0])...)
		}
		return append(out, e), nil
	case *SubagentFinished:
		return append(c.end(owner{true, e.SubagentRunID}), e), nil
	case *SubagentError:
		return append(c.end(owner{true, e.SubagentRunID}), e), nil
	default:
		return append(c.end(ownerOf(tagOf(e))), e), nil
	}
}

func (c *Chunks) chunk(e Event, ch chunk) ([]Event, error) {
	at, err := c.findOwner(e, ch)
	if err != nil {
		return nil, err
	}
	var out []Event
	open := c.runs[at]
	if open != nil && open.kind == ch.kind && (ch.id == nil || *ch.id == open.id) {
		if err := open.agrees(e, ch); err != nil {
			return nil, err
		}
	} else {
		out = c.end(at)
		if ch.id == nil || ch.kind == TypeToolCallChunk && ch.tool == nil {
			return nil, orderError(RuleChunk, e, "the first chunk lacks its id or name")
		}
		open = &chunkRun{kind: ch.kind, id: *ch.id, opener: ch}
		c.open(at, open)
		out = append(out, open.start())
	}
	if ch.delta != nil || ch.RawEvent != nil || len(out) == 0 && ch.Metadata != nil {
		out = append(out, open.content(ch))
	}
	return out, nil
}

// findOwner finds the owner of the item to which a chunk belongs.
func (c *Chunks) findOwner(e Event, ch chunk) (owner, error) {
	tag := ownerOf(ch.SubagentRunID)
	if ch.id != nil {
		for at, l := range c.runs {
			if l.kind != ch.kind || l.id != *ch.id {
				continue
			}
			if tag.tagged && tag != at {
				return at, orderError(RuleChunk, e, "%s continues an item of %s", tag, at)
			}
			return at, nil
		}
		return tag, nil
	}
	if tag.tagged || c.runs[owner{}] != nil && c.runs[owner{}].kind == ch.kind {
		return tag, nil
	}
	n := 0
	for at, l := range c.runs {
		if l.kind == ch.kind {
			n, tag = n+1, at
		}
	}
	if n > 1 {
		return tag, orderError(RuleChunk, e, "it names no item, and %d are open", n)
	}
	return tag, nil
}

func (c *Chunks) open(at owner, l *chunkRun) {
	if c.runs == nil {
		c.runs = map[owner]*chunkRun{}
	}
	c.runs[at] = l
	c.order = append(c.order, at)
}

// end closes the open item of an owner.
func (c *Chunks) end(at owner) []Event {
	l := c.runs[at]
	if l == nil {
		return nil
	}
	delete(c.runs, at)
	c.order = slices.DeleteFunc(c.order, func(o owner) bool { return o == at })
	t := Tagged{SubagentRunID: l.opener.SubagentRunID}
	switch l.kind {
	case TypeToolCallChunk:
		return []Event{&ToolCallEnd{Tagged: t, ToolCallID: l.id}}
	case TypeReasoningMessageChunk:
		return []Event{&ReasoningMessageEnd{Tagged: t, MessageID: l.id}}
	default:
		return []Event{&TextMessageEnd{Tagged: t, MessageID: l.id}}
	}
}

// agrees checks that a later chunk does not contradict the first.
func (l *chunkRun) agrees(e Event, ch chunk) error {
	role := valueOr(l.opener.role, RoleAssistant)
	if ch.role != nil && *ch.role != role {
		return orderError(RuleChunk, e, "role %q does not match role %q of the first chunk", *ch.role, role)
	}
	for _, f := range []struct {
		name       string
		now, first *string
	}{{"name", ch.name, l.opener.name}, {"toolCallName", ch.tool, l.opener.tool}, {"parentMessageId", ch.parent, l.opener.parent}} {
		if f.now != nil && (f.first == nil || *f.now != *f.first) {
			return orderError(RuleChunk, e, "%s differs from the first chunk", f.name)
		}
	}
	return nil
}

// valueOr returns the value of an optional member, or what its absence means.
func valueOr[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}

func (l *chunkRun) start() Event {
	t := Tagged{Base: Base{Timestamp: l.opener.Timestamp, Metadata: l.opener.Metadata}, SubagentRunID: l.opener.SubagentRunID}
	switch o := l.opener; l.kind {
	case TypeToolCallChunk:
		return &ToolCallStart{Tagged: t, ToolCallID: l.id, ToolCallName: *o.tool, ParentMessageID: o.parent}
	case TypeReasoningMessageChunk:
		return &ReasoningMessageStart{Tagged: t, MessageID: l.id}
	default:
		role := valueOr(o.role, RoleAssistant)
		return &TextMessageStart{Tagged: t, MessageID: l.id, Role: &role, Name: o.name}
	}
}

func (l *chunkRun) content(ch chunk) Event {
	t := ch.Tagged
	if t.SubagentRunID == nil {
		t.SubagentRunID = l.opener.SubagentRunID
	}
	delta := valueOr(ch.delta, "")
	switch l.kind {
	case TypeToolCallChunk:
		return &ToolCallArgs{Tagged: t, ToolCallID: l.id, Delta: delta}
	case TypeReasoningMessageChunk:
		return &ReasoningMessageContent{Tagged: t, MessageID: l.id, Delta: delta}
	default:
		return &TextMessageContent{Tagged: t, MessageID: l.id, Delta: delta}
	}
}
