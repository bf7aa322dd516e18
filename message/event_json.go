package message

import (
	"bytes"
	"reflect"

	"github.com/askance-dev/askance/internal/strictjson"
)

// newEvents makes an empty event of each type.
var newEvents = map[EventType]func() Event{
	EventReplyStart:               func() Event { return new(ReplyStart) },
	EventReplyEnd:                 func() Event { return new(ReplyEnd) },
	EventModelCallStart:           func() Event { return new(ModelCallStart) },
	EventModelCallEnd:             func() Event { return new(ModelCallEnd) },
	EventTextBlockStart:           func() Event { return new(TextBlockStart) },
	EventTextBlockDelta:           func() Event { return new(TextBlockDelta) },
	EventTextBlockEnd:             func() Event { return new(TextBlockEnd) },
	EventThinkingBlockStart:       func() Event { return new(ThinkingBlockStart) },
	EventThinkingBlockDelta:       func() Event { return new(ThinkingBlockDelta) },
	EventThinkingBlockEnd:         func() Event { return new(ThinkingBlockEnd) },
	EventDataBlockStart:           func() Event { return new(DataBlockStart) },
	EventDataBlockDelta:           func() Event { return new(DataBlockDelta) },
	EventDataBlockEnd:             func() Event { return new(DataBlockEnd) },
	EventHintBlock:                func() Event { return new(HintBlockEvent) },
	EventToolCallStart:            func() Event { return new(ToolCallStart) },
	EventToolCallDelta:            func() Event { return new(ToolCallDelta) },
	EventToolCallEnd:              func() Event { return new(ToolCallEnd) },
	EventToolResultStart:          func() Event { return new(ToolResultStart) },
	EventToolResultTextDelta:      func() Event { return new(ToolResultTextDelta) },
	EventToolResultDataDelta:      func() Event { return new(ToolResultDataDelta) },
	EventToolResultEnd:            func() Event { return new(ToolResultEnd) },
	EventExceedMaxIters:           func() Event { return new(ExceedMaxIters) },
	EventRequireUserConfirm:       func() Event { return new(RequireUserConfirm) },
	EventUserConfirmResult:        func() Event { return new(UserConfirmResult) },
	EventRequireExternalExecution: func() Event { return new(RequireExternalExecution) },
	EventExternalExecutionResult:  func() Event { return new(ExternalExecutionResult) },
	EventUserInterrupt:            func() Event { return new(UserInterrupt) },
	EventCustom:                   func() Event { return new(Custom) },
}

// newEvent returns an empty event, or nil for unknown types.
func newEvent(t EventType) Event {
	if build := newEvents[t]; build != nil {
		return build()
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

// unknownEvent reads the members of the header that have the expected types.
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
