package message

import (
	"bytes"
	"reflect"

	"github.com/askance-dev/askance/internal/strictjson"
)

// newEvent is the discriminator table; nil for types that are not known.
func newEvent(t EventType) Event {
	switch t {
	case EventReplyStart:
		return new(ReplyStart)
	case EventReplyEnd:
		return new(ReplyEnd)
	case EventModelCallStart:
		return new(ModelCallStart)
	case EventModelCallEnd:
		return new(ModelCallEnd)
	case EventTextBlockStart:
		return new(TextBlockStart)
	case EventTextBlockDelta:
		return new(TextBlockDelta)
	case EventTextBlockEnd:
		return new(TextBlockEnd)
	case EventThinkingBlockStart:
		return new(ThinkingBlockStart)
	case EventThinkingBlockDelta:
		return new(ThinkingBlockDelta)
	case EventThinkingBlockEnd:
		return new(ThinkingBlockEnd)
	case EventDataBlockStart:
		return new(DataBlockStart)
	case EventDataBlockDelta:
		return new(DataBlockDelta)
	case EventDataBlockEnd:
		return new(DataBlockEnd)
	case EventHintBlock:
		return new(HintBlockEvent)
	case EventToolCallStart:
		return new(ToolCallStart)
	case EventToolCallDelta:
		return new(ToolCallDelta)
	case EventToolCallEnd:
		return new(ToolCallEnd)
	case EventToolResultStart:
		return new(ToolResultStart)
	case EventToolResultTextDelta:
		return new(ToolResultTextDelta)
	case EventToolResultDataDelta:
		return new(ToolResultDataDelta)
	case EventToolResultEnd:
		return new(ToolResultEnd)
	case EventExceedMaxIters:
		return new(ExceedMaxIters)
	case EventRequireUserConfirm:
		return new(RequireUserConfirm)
	case EventUserConfirmResult:
		return new(UserConfirmResult)
	case EventRequireExternalExecution:
		return new(RequireExternalExecution)
	case EventExternalExecutionResult:
		return new(ExternalExecutionResult)
	case EventUserInterrupt:
		return new(UserInterrupt)
	case EventCustom:
		return new(Custom)
	}
	return nil
}

// Known reports whether t is one of the 28 types of AgentScope 2.0.
func (t EventType) Known() bool { return newEvent(t) != nil }

// decodeEvent decodes an event by its type member.
func (c Codec) decodeEvent(raw []byte) (Event, error) {
	members, t, err := readType(raw)
	if err != nil {
		return nil, err
	}
	e := newEvent(EventType(t))
	if e == nil {
		if c.RefuseUnknown {
			return nil, strictjson.Wrong(strictjson.ErrType, "unknown event type %.60q", t)
		}
		return unknownEvent(EventType(t), members, raw), nil
	}
	return e, c.reader().Members(members, reflect.ValueOf(e).Elem())
}

// unknownEvent reads the header as far as it looks like one.
func unknownEvent(t EventType, members []strictjson.Member, raw []byte) *UnknownEvent {
	e := &UnknownEvent{Kind: t, Raw: bytes.Clone(raw)}
	e.ID = strictjson.TextMember(members, "id")
	e.CreatedAt = strictjson.TextMember(members, "created_at")
	e.Reply = ReplyID(strictjson.TextMember(members, "reply_id"))
	for _, m := range members {
		if m.Name == "metadata" {
			e.Metadata, _ = strictjson.Object(m.Value, strictjson.MaxBytes(len(m.Value)), strictjson.KeepBigIntegers())
		}
	}
	return e
}
