package agui

import (
	"errors"
	"reflect"
	"regexp"
	"strings"

	"github.com/askance-dev/askance/message"
)

// EventType is the type of an event, in AG-UI's spelling.
type EventType string

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

// Events has an empty event of each type of AG-UI 1.0.
var Events = []Event{
	&RunStarted{}, &RunFinished{}, &RunError{}, &StepStarted{}, &StepFinished{}, &TextMessageStart{},
	&TextMessageContent{}, &TextMessageEnd{}, &TextMessageChunk{}, &ToolCallStart{}, &ToolCallArgs{},
	&ToolCallEnd{}, &ToolCallResult{}, &ToolCallChunk{}, &StateSnapshot{}, &StateDelta{},
	&MessagesSnapshot{}, &ActivitySnapshot{}, &ActivityDelta{}, &Raw{}, &Custom{}, &ReasoningStart{},
	&ReasoningEnd{}, &ReasoningMessageStart{}, &ReasoningMessageContent{}, &ReasoningMessageEnd{},
	&ReasoningMessageChunk{}, &ReasoningEncryptedValue{}, &SubagentStarted{}, &SubagentFinished{},
	&SubagentError{},
}

// eventTypes are the names of the structs in AG-UI's spelling: RunStarted is RUN_STARTED.
var eventTypes = func() map[reflect.Type]EventType {
	word, types := regexp.MustCompile(`(.)([A-Z])`), map[reflect.Type]EventType{}
	for _, e := range Events {
		t := reflect.TypeOf(e)
		types[t] = EventType(strings.ToUpper(word.ReplaceAllString(t.Elem().Name(), "${1}_$2")))
	}
	return types
}()
