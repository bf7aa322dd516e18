package message

import (
	"bytes"
	"reflect"

	"github.com/askance-dev/askance/internal/strictjson"
)

// eventStructs are the structs of the known types.
var eventStructs = func() map[EventType]reflect.Type {
	structs := map[EventType]reflect.Type{}
	for _, e := range []Event{
		new(ReplyStart), new(ReplyEnd), new(ModelCallStart), new(ModelCallEnd), new(ExceedMaxIters), new(UserInterrupt), new(Custom),
		new(TextBlockStart), new(TextBlockDelta), new(TextBlockEnd), new(ThinkingBlockStart), new(ThinkingBlockDelta), new(ThinkingBlockEnd),
		new(DataBlockStart), new(DataBlockDelta), new(DataBlockEnd), new(HintBlockEvent),
		new(ToolCallStart), new(ToolCallDelta), new(ToolCallEnd),
		new(ToolResultStart), new(ToolResultTextDelta), new(ToolResultDataDelta), new(ToolResultEnd),
		new(RequireUserConfirm), new(UserConfirmResult), new(RequireExternalExecution), new(ExternalExecutionResult),
	} {
		structs[e.Type()] = reflect.TypeOf(e).Elem()
	}
	return structs
}()

// newEvent returns an empty event, or nil for unknown types.
func newEvent(t EventType) Event {
	s, known := eventStructs[t]
	if !known {
		return nil
	}
	e, _ := reflect.TypeAssert[Event](reflect.New(s))
	return e
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
	metadata := strictjson.Find(members, "metadata")
	e.Metadata, _ = strictjson.Object(metadata, strictjson.MaxBytes(len(metadata)), strictjson.KeepBigIntegers())
	return e
}
