package message

// EventType is the type of an event, in AgentScope's spelling.
type EventType string

// The 28 event types of AgentScope 2.0.
const (
	EventReplyStart               EventType = "REPLY_START"
	EventReplyEnd                 EventType = "REPLY_END"
	EventModelCallStart           EventType = "MODEL_CALL_START"
	EventModelCallEnd             EventType = "MODEL_CALL_END"
	EventTextBlockStart           EventType = "TEXT_BLOCK_START"
	EventTextBlockDelta           EventType = "TEXT_BLOCK_DELTA"
	EventTextBlockEnd             EventType = "TEXT_BLOCK_END"
	EventThinkingBlockStart       EventType = "THINKING_BLOCK_START"
	EventThinkingBlockDelta       EventType = "THINKING_BLOCK_DELTA"
	EventThinkingBlockEnd         EventType = "THINKING_BLOCK_END"
	EventDataBlockStart           EventType = "DATA_BLOCK_START"
	EventDataBlockDelta           EventType = "DATA_BLOCK_DELTA"
	EventDataBlockEnd             EventType = "DATA_BLOCK_END"
	EventHintBlock                EventType = "HINT_BLOCK"
	EventToolCallStart            EventType = "TOOL_CALL_START"
	EventToolCallDelta            EventType = "TOOL_CALL_DELTA"
	EventToolCallEnd              EventType = "TOOL_CALL_END"
	EventToolResultStart          EventType = "TOOL_RESULT_START"
	EventToolResultTextDelta      EventType = "TOOL_RESULT_TEXT_DELTA"
	EventToolResultDataDelta      EventType = "TOOL_RESULT_DATA_DELTA"
	EventToolResultEnd            EventType = "TOOL_RESULT_END"
	EventExceedMaxIters           EventType = "EXCEED_MAX_ITERS"
	EventRequireUserConfirm       EventType = "REQUIRE_USER_CONFIRM"
	EventUserConfirmResult        EventType = "USER_CONFIRM_RESULT"
	EventRequireExternalExecution EventType = "REQUIRE_EXTERNAL_EXECUTION"
	EventExternalExecutionResult  EventType = "EXTERNAL_EXECUTION_RESULT"
	EventUserInterrupt            EventType = "USER_INTERRUPT"
	EventCustom                   EventType = "CUSTOM"
)

// Event is one step in building a message. The set is closed: a pointer to one of the 28
// structs named as on the wire (TEXT_BLOCK_DELTA is *TextBlockDelta; HINT_BLOCK is
// *HintBlockEvent, because *HintBlock is the block), and *UnknownEvent for every type that
// this version does not know.
//
// An event is plain data: write it as a struct literal with the header from [NewHeader], and
// apply it to a message with [Append].
//
//sumtype:decl
type Event interface {
	// Type returns the type of the event.
	Type() EventType
	// ReplyID is the reply that the event belongs to, which is the id of the message that it
	// builds; "" for CUSTOM.
	ReplyID() ReplyID
	// MarshalJSON returns the event as AgentScope writes it, with every field, including
	// nulls.
	MarshalJSON() ([]byte, error)

	headed
}

// headed is what every event has from its [EventHeader]. It closes the set.
type headed interface {
	// Header returns the members that all events share. Writing to an unknown event's header
	// does not change its bytes.
	Header() *EventHeader

	isEvent()
}

// EventHeader contains the members that all events share.
type EventHeader struct {
	ID        string         `json:"id" wire:"id"`
	CreatedAt string         `json:"created_at" wire:"now"` // see [Timestamp]
	Metadata  map[string]any `json:"metadata"`
	// Reply is reply_id. CUSTOM does not have it on the wire and ignores it.
	Reply ReplyID `json:"reply_id" wire:"required,aftertype"`
}

// Header returns h itself.
func (h *EventHeader) Header() *EventHeader { return h }

// ReplyID returns Reply.
func (h *EventHeader) ReplyID() ReplyID { return h.Reply }

func (*EventHeader) isEvent() {}

// UnknownEvent is an event of a type that this version does not know. Raw is the whole event
// exactly as it was received, and it is written back unchanged. The header contains those of
// its members that have the usual names and types.
type UnknownEvent struct {
	EventHeader
	Kind EventType
	Raw  RawJSON
}

// Type returns the type named by the event.
func (e *UnknownEvent) Type() EventType { return e.Kind }
