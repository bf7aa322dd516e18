package aguitest

import (
	"reflect"
	"slices"

	"github.com/askance-dev/askance/message/agui"
)

// Chunks replaces the chunk events of a stream, which combine start, content and end, with
// separate events, as the client does before its sequence checks. Other events pass, and close
// what chunks of their owner left open. The zero value is ready to use; each stream needs its own.
type Chunks struct {
	runs  map[owner]*chunkRun
	order []owner // in the order in which their items began
}

// chunkRun is the item that the chunks of one owner write.
type chunkRun struct {
	kind   agui.EventType // of the chunks
	id     string
	opener chunk
}

// chunk is what the three chunk events have in common.
type chunk struct {
	agui.Tagged
	kind               agui.EventType
	id                 *string
	role               *agui.Role
	name, tool, parent *string
	delta              *string
}

func chunkOf(e agui.Event) (chunk, bool) {
	switch e := e.(type) {
	case *agui.TextMessageChunk:
		return chunk{Tagged: e.Tagged, kind: agui.TypeOf(e), id: e.MessageID, role: e.Role, name: e.Name, delta: e.Delta}, true
	case *agui.ToolCallChunk:
		return chunk{Tagged: e.Tagged, kind: agui.TypeOf(e), id: e.ToolCallID, tool: e.ToolCallName, parent: e.ParentMessageID, delta: e.Delta}, true
	case *agui.ReasoningMessageChunk:
		return chunk{Tagged: e.Tagged, kind: agui.TypeOf(e), id: e.MessageID, delta: e.Delta}, true
	default:
		return chunk{}, false
	}
}

// Expand returns the separate events for e. The error is an *[OrderError].
func (c *Chunks) Expand(e agui.Event) ([]agui.Event, error) {
	if ch, ok := chunkOf(e); ok {
		return c.chunk(e, ch)
	}
	switch e := e.(type) {
	case *agui.Raw, *agui.ActivitySnapshot, *agui.ActivityDelta, *agui.ReasoningEncryptedValue, *agui.SubagentStarted:
		return []agui.Event{e}, nil
	case *agui.RunStarted, *agui.RunFinished, *agui.RunError, *agui.MessagesSnapshot:
		var out []agui.Event
		for len(c.order) > 0 {
			out = append(out, c.end(c.order[0])...)
		}
		return append(out, e), nil
	case *agui.SubagentFinished:
		return append(c.end(owner{true, e.SubagentRunID}), e), nil
	case *agui.SubagentError:
		return append(c.end(owner{true, e.SubagentRunID}), e), nil
	default:
		return append(c.end(ownerOf(tagOf(e))), e), nil
	}
}

func (c *Chunks) chunk(e agui.Event, ch chunk) ([]agui.Event, error) {
	at, err := c.findOwner(e, ch)
	if err != nil {
		return nil, err
	}
	var out []agui.Event
	open := c.runs[at]
	if open != nil && open.kind == ch.kind && (ch.id == nil || *ch.id == open.id) {
		if err := open.agrees(e, ch); err != nil {
			return nil, err
		}
	} else {
		out = c.end(at)
		if ch.id == nil || ch.kind == "TOOL_CALL_CHUNK" && ch.tool == nil {
			return nil, chunkError(e, "the first chunk lacks its id or name")
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
func (c *Chunks) findOwner(e agui.Event, ch chunk) (owner, error) {
	tag := ownerOf(ch.SubagentRunID)
	if ch.id != nil {
		for at, l := range c.runs {
			if l.kind != ch.kind || l.id != *ch.id {
				continue
			}
			if tag.tagged && tag != at {
				return at, chunkError(e, "%v continues an item of %v", tag, at)
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
		return tag, chunkError(e, "it names no item, and %d are open", n)
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
func (c *Chunks) end(at owner) []agui.Event {
	l := c.runs[at]
	if l == nil {
		return nil
	}
	delete(c.runs, at)
	c.order = slices.DeleteFunc(c.order, func(o owner) bool { return o == at })
	t := agui.Tagged{SubagentRunID: l.opener.SubagentRunID}
	switch l.kind {
	case "TOOL_CALL_CHUNK":
		return []agui.Event{&agui.ToolCallEnd{Tagged: t, ToolCallID: l.id}}
	case "REASONING_MESSAGE_CHUNK":
		return []agui.Event{&agui.ReasoningMessageEnd{Tagged: t, MessageID: l.id}}
	default:
		return []agui.Event{&agui.TextMessageEnd{Tagged: t, MessageID: l.id}}
	}
}

// agrees checks that a later chunk does not contradict the first.
func (c *chunkRun) agrees(e agui.Event, ch chunk) error {
	role := valueOr(c.opener.role, agui.RoleAssistant)
	if ch.role != nil && *ch.role != role {
		return chunkError(e, "role %q does not match role %q of the first chunk", *ch.role, role)
	}
	for _, f := range []struct {
		name       string
		now, first *string
	}{{"name", ch.name, c.opener.name}, {"toolCallName", ch.tool, c.opener.tool}, {"parentMessageId", ch.parent, c.opener.parent}} {
		if f.now != nil && (f.first == nil || *f.now != *f.first) {
			return chunkError(e, "%s differs from the first chunk", f.name)
		}
	}
	return nil
}

func (c *chunkRun) start() agui.Event {
	t := agui.Tagged{Base: agui.Base{Timestamp: c.opener.Timestamp, Metadata: c.opener.Metadata}, SubagentRunID: c.opener.SubagentRunID}
	switch o := c.opener; c.kind {
	case "TOOL_CALL_CHUNK":
		return &agui.ToolCallStart{Tagged: t, ToolCallID: c.id, ToolCallName: *o.tool, ParentMessageID: o.parent}
	case "REASONING_MESSAGE_CHUNK":
		return &agui.ReasoningMessageStart{Tagged: t, MessageID: c.id}
	default:
		role := valueOr(o.role, agui.RoleAssistant)
		return &agui.TextMessageStart{Tagged: t, MessageID: c.id, Role: &role, Name: o.name}
	}
}

func (c *chunkRun) content(ch chunk) agui.Event {
	t := ch.Tagged
	if t.SubagentRunID == nil {
		t.SubagentRunID = c.opener.SubagentRunID
	}
	delta := valueOr(ch.delta, "")
	switch c.kind {
	case "TOOL_CALL_CHUNK":
		return &agui.ToolCallArgs{Tagged: t, ToolCallID: c.id, Delta: delta}
	case "REASONING_MESSAGE_CHUNK":
		return &agui.ReasoningMessageContent{Tagged: t, MessageID: c.id, Delta: delta}
	default:
		return &agui.TextMessageContent{Tagged: t, MessageID: c.id, Delta: delta}
	}
}

// valueOr returns the value of an optional member, or what its absence means.
func valueOr[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}

// tagOf returns the subagentRunId of an event, if it is tagged.
func tagOf(e agui.Event) *string {
	if f := reflect.ValueOf(e).Elem().FieldByName("Tagged"); f.IsValid() {
		return f.Interface().(agui.Tagged).SubagentRunID
	}
	return nil
}

func chunkError(e agui.Event, format string, args ...any) error {
	return orderError(RuleChunk, e, format, args...)
}

// ClientVerifier is a [Verifier] that also takes chunk events, as the client does.
type ClientVerifier struct {
	Verifier

	chunks Chunks
	err    error
}

// Check checks the next event. The first error stays.
func (v *ClientVerifier) Check(e agui.Event) error {
	if v.err != nil {
		return v.err
	}
	var events []agui.Event
	if events, v.err = v.chunks.Expand(e); v.err != nil {
		return v.err
	}
	for _, e := range events {
		if v.err = v.Verifier.Check(e); v.err != nil {
			return v.err
		}
	}
	return nil
}

// Close checks that the stream may end here.
func (v *ClientVerifier) Close() error {
	if v.err != nil {
		return v.err
	}
	return v.Verifier.Close()
}
