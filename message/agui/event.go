package agui

import (
	"errors"
	"reflect"

	"github.com/askance-dev/askance/message"
)

// EventType is the type of an event, in AG-UI's spelling.
type EventType string

// The 31 event types of AG-UI 1.0.
const (
	TypeRunStarted              EventType = "RUN_STARTED"
	TypeRunFinished             EventType = "RUN_FINISHED"
	TypeRunError                EventType = "RUN_ERROR"
	TypeStepStarted             EventType = "STEP_STARTED"
	TypeStepFinished            EventType = "STEP_FINISHED"
	TypeTextMessageStart        EventType = "TEXT_MESSAGE_START"
	TypeTextMessageContent      EventType = "TEXT_MESSAGE_CONTENT"
	TypeTextMessageEnd          EventType = "TEXT_MESSAGE_END"
	TypeTextMessageChunk        EventType = "TEXT_MESSAGE_CHUNK"
	TypeToolCallStart           EventType = "TOOL_CALL_START"
	TypeToolCallArgs            EventType = "TOOL_CALL_ARGS"
	TypeToolCallEnd             EventType = "TOOL_CALL_END"
	TypeToolCallResult          EventType = "TOOL_CALL_RESULT"
	TypeToolCallChunk           EventType = "TOOL_CALL_CHUNK"
	TypeStateSnapshot           EventType = "STATE_SNAPSHOT"
	TypeStateDelta              EventType = "STATE_DELTA"
	TypeMessagesSnapshot        EventType = "MESSAGES_SNAPSHOT"
	TypeActivitySnapshot        EventType = "ACTIVITY_SNAPSHOT"
	TypeActivityDelta           EventType = "ACTIVITY_DELTA"
	TypeRaw                     EventType = "RAW"
	TypeCustom                  EventType = "CUSTOM"
	TypeReasoningStart          EventType = "REASONING_START"
	TypeReasoningEnd            EventType = "REASONING_END"
	TypeReasoningMessageStart   EventType = "REASONING_MESSAGE_START"
	TypeReasoningMessageContent EventType = "REASONING_MESSAGE_CONTENT"
	TypeReasoningMessageEnd     EventType = "REASONING_MESSAGE_END"
	TypeReasoningMessageChunk   EventType = "REASONING_MESSAGE_CHUNK"
	TypeReasoningEncryptedValue EventType = "REASONING_ENCRYPTED_VALUE"
	TypeSubagentStarted         EventType = "SUBAGENT_STARTED"
	TypeSubagentFinished        EventType = "SUBAGENT_FINISHED"
	TypeSubagentError           EventType = "SUBAGENT_ERROR"
)

// Event is one event of a stream. The set is closed: a pointer to one of the 31 structs
// named after the protocol (TEXT_MESSAGE_START is *TextMessageStart). [TypeOf] returns its
// type, [AppendJSON] and [AppendFrame] write it.
//
// Optional members are pointers, or slices and raw JSON where a comment says so: nil means
// absent, anything else is written, including "". AG-UI has no null for an absent member,
// and none is ever written.
//
//sumtype:decl
type Event interface {
	// Common returns the members that all events share.
	Common() *Base
	Object
}

// TypeOf returns the type of an event.
func TypeOf(e Event) EventType { return eventTypes[reflect.TypeOf(e)] }

// Base contains what all events may have.
type Base struct {
	Timestamp *int64          `json:"timestamp"`              // milliseconds since 1970; within ±(2^53-1)
	RawEvent  message.RawJSON `json:"rawEvent" wire:"rescue"` // the event from which this one was made; nil if absent
	Metadata  message.RawJSON `json:"metadata" wire:"object"` // nil if absent; the key "ag-ui" is reserved for the protocol
}

// Common returns b itself.
func (b *Base) Common() *Base { return b }

func (*Base) isObject() {}

// MarshalJSON fails: only [AppendJSON] writes an event with its type.
func (*Base) MarshalJSON() ([]byte, error) {
	return nil, errors.New("encode AG-UI event: encoding/json cannot write it; use agui.AppendJSON")
}

// Tagged is Base for the events that may belong to a subagent.
type Tagged struct {
	Base
	SubagentRunID *string `json:"subagentRunId"` // the invocation that this belongs to; nil for the agent itself, or if not stated
}

// Events makes an empty event of each type of AG-UI 1.0.
var Events = map[EventType]func() Event{
	TypeRunStarted:              func() Event { return new(RunStarted) },
	TypeRunFinished:             func() Event { return new(RunFinished) },
	TypeRunError:                func() Event { return new(RunError) },
	TypeStepStarted:             func() Event { return new(StepStarted) },
	TypeStepFinished:            func() Event { return new(StepFinished) },
	TypeTextMessageStart:        func() Event { return new(TextMessageStart) },
	TypeTextMessageContent:      func() Event { return new(TextMessageContent) },
	TypeTextMessageEnd:          func() Event { return new(TextMessageEnd) },
	TypeTextMessageChunk:        func() Event { return new(TextMessageChunk) },
	TypeToolCallStart:           func() Event { return new(ToolCallStart) },
	TypeToolCallArgs:            func() Event { return new(ToolCallArgs) },
	TypeToolCallEnd:             func() Event { return new(ToolCallEnd) },
	TypeToolCallResult:          func() Event { return new(ToolCallResult) },
	TypeToolCallChunk:           func() Event { return new(ToolCallChunk) },
	TypeStateSnapshot:           func() Event { return new(StateSnapshot) },
	TypeStateDelta:              func() Event { return new(StateDelta) },
	TypeMessagesSnapshot:        func() Event { return new(MessagesSnapshot) },
	TypeActivitySnapshot:        func() Event { return new(ActivitySnapshot) },
	TypeActivityDelta:           func() Event { return new(ActivityDelta) },
	TypeRaw:                     func() Event { return new(Raw) },
	TypeCustom:                  func() Event { return new(Custom) },
	TypeReasoningStart:          func() Event { return new(ReasoningStart) },
	TypeReasoningEnd:            func() Event { return new(ReasoningEnd) },
	TypeReasoningMessageStart:   func() Event { return new(ReasoningMessageStart) },
	TypeReasoningMessageContent: func() Event { return new(ReasoningMessageContent) },
	TypeReasoningMessageEnd:     func() Event { return new(ReasoningMessageEnd) },
	TypeReasoningMessageChunk:   func() Event { return new(ReasoningMessageChunk) },
	TypeReasoningEncryptedValue: func() Event { return new(ReasoningEncryptedValue) },
	TypeSubagentStarted:         func() Event { return new(SubagentStarted) },
	TypeSubagentFinished:        func() Event { return new(SubagentFinished) },
	TypeSubagentError:           func() Event { return new(SubagentError) },
}

// eventTypes is the reverse of [Events].
var eventTypes = func() map[reflect.Type]EventType {
	types := map[reflect.Type]EventType{}
	for t, build := range Events {
		types[reflect.TypeOf(build())] = t
	}
	return types
}()
