package message

import (
	"bytes"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

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

// TextBlockStart is TEXT_BLOCK_START: an empty text block is appended.
type TextBlockStart struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// TextBlockDelta is TEXT_BLOCK_DELTA: text for the first text block with that id.
type TextBlockDelta struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
	Delta   string `json:"delta" wire:"required"`
}

// TextBlockEnd is TEXT_BLOCK_END: the text block is complete. Later deltas still count.
type TextBlockEnd struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// ThinkingBlockStart is THINKING_BLOCK_START: an empty thinking block is appended.
type ThinkingBlockStart struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// ThinkingBlockDelta is THINKING_BLOCK_DELTA: text for the first thinking block with that id.
type ThinkingBlockDelta struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
	Delta   string `json:"delta" wire:"required"`
}

// ThinkingBlockEnd is THINKING_BLOCK_END: the thinking block is complete.
type ThinkingBlockEnd struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// DataBlockStart is DATA_BLOCK_START: a data block with an empty base64 source is appended.
type DataBlockStart struct {
	EventHeader
	BlockID   string `json:"block_id" wire:"required"`
	MediaType string `json:"media_type" wire:"required"`
}

// DataBlockDelta is DATA_BLOCK_DELTA: bytes for the first data block with that id. Data is
// base64 text with its own padding. MediaType is ignored.
type DataBlockDelta struct {
	EventHeader
	BlockID   string `json:"block_id" wire:"required"`
	Data      string `json:"data" wire:"required"`
	MediaType string `json:"media_type" wire:"required"`
}

// DataBlockEnd is DATA_BLOCK_END: the data block is complete.
type DataBlockEnd struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// HintBlockEvent is HINT_BLOCK: a whole hint block is appended.
type HintBlockEvent struct {
	EventHeader
	BlockID string  `json:"block_id" wire:"required"`
	Source  *string `json:"source"`
	Hint    Content `json:"hint" wire:"required"`
}

func (*TextBlockStart) Type() EventType     { return EventTextBlockStart }
func (*TextBlockDelta) Type() EventType     { return EventTextBlockDelta }
func (*TextBlockEnd) Type() EventType       { return EventTextBlockEnd }
func (*ThinkingBlockStart) Type() EventType { return EventThinkingBlockStart }
func (*ThinkingBlockDelta) Type() EventType { return EventThinkingBlockDelta }
func (*ThinkingBlockEnd) Type() EventType   { return EventThinkingBlockEnd }
func (*DataBlockStart) Type() EventType     { return EventDataBlockStart }
func (*DataBlockDelta) Type() EventType     { return EventDataBlockDelta }
func (*DataBlockEnd) Type() EventType       { return EventDataBlockEnd }
func (*HintBlockEvent) Type() EventType     { return EventHintBlock }

// ReplyStart is REPLY_START: a reply begins. It does not change the message.
type ReplyStart struct {
	EventHeader
	Session SessionID `json:"session_id" wire:"required"`
	Name    string    `json:"name" wire:"required"`
	Role    MsgRole   `json:"role" wire:"default=assistant"`
}

// ReplyEnd is REPLY_END: the reply is over. It sets the message's end, reason and error, and
// clears the error of an earlier end.
type ReplyEnd struct {
	EventHeader
	Session        SessionID      `json:"session_id" wire:"required"`
	FinishedReason FinishedReason `json:"finished_reason" wire:"default=completed"`
	Error          *ErrorInfo     `json:"error"`
}

// ModelCallStart is MODEL_CALL_START: a model is called. It does not change the message.
type ModelCallStart struct {
	EventHeader
	ModelName string `json:"model_name" wire:"required"`
}

// ModelCallEnd is MODEL_CALL_END: a model has answered. Its counters are added to the
// message's usage, even if it was interrupted.
type ModelCallEnd struct {
	EventHeader
	InputTokens              int64               `json:"input_tokens" wire:"required"`
	OutputTokens             int64               `json:"output_tokens" wire:"required"`
	CacheInputTokens         int64               `json:"cache_input_tokens"`
	CacheCreationInputTokens int64               `json:"cache_creation_input_tokens"`
	FinishedReason           ModelFinishedReason `json:"finished_reason" wire:"default=completed"`
}

// ExceedMaxIters is EXCEED_MAX_ITERS: the agent gave up. It does not change the message; the
// reason is in the REPLY_END that follows. Deprecated upstream, but still sent.
type ExceedMaxIters struct {
	EventHeader
	Name string `json:"name" wire:"required"`
}

// UserInterrupt is USER_INTERRUPT: a person ends a waiting reply. It does not change the
// message; the events that close the calls do.
type UserInterrupt struct {
	EventHeader
}

// Custom is CUSTOM: an application's notification. It belongs to no reply and cannot be
// appended to a message.
type Custom struct {
	EventHeader `wire:"without=reply_id"`
	Name        string         `json:"name" wire:"required"`
	Value       map[string]any `json:"value"`
}

// ownNames is the prefix of the names of CUSTOM events that are reserved for askance.
const ownNames = "askance."

// Own reports whether the event is one of askance's own records, such as what a person said
// to an agent. Clients are not shown it, and agents and runtimes must not write it, because
// they could make up what people said or were asked.
func (c *Custom) Own() bool { return strings.HasPrefix(c.Name, ownNames) }

// IsOwnEvent reports whether an event's JSON is one of askance's own CUSTOM events
// ([Custom.Own]). It is false for JSON that is not an event.
func IsOwnEvent(raw RawJSON) bool {
	if !bytes.Contains(raw, []byte(ownNames)) && !bytes.Contains(raw, []byte(`\u`)) {
		return false // true of almost every event, which is then decoded only once
	}
	ev, err := DecodeEvent(raw)
	c, ok := ev.(*Custom)
	return err == nil && ok && c.Own()
}

func (*ReplyStart) Type() EventType     { return EventReplyStart }
func (*ReplyEnd) Type() EventType       { return EventReplyEnd }
func (*ModelCallStart) Type() EventType { return EventModelCallStart }
func (*ModelCallEnd) Type() EventType   { return EventModelCallEnd }
func (*ExceedMaxIters) Type() EventType { return EventExceedMaxIters }
func (*UserInterrupt) Type() EventType  { return EventUserInterrupt }
func (*Custom) Type() EventType         { return EventCustom }

// ToolCallStart is TOOL_CALL_START: a pending call with empty input is appended.
type ToolCallStart struct {
	EventHeader
	ToolCallID   CallID `json:"tool_call_id" wire:"required"`
	ToolCallName string `json:"tool_call_name" wire:"required"`
}

// ToolCallDelta is TOOL_CALL_DELTA: a piece of the call's raw input.
type ToolCallDelta struct {
	EventHeader
	ToolCallID CallID `json:"tool_call_id" wire:"required"`
	Delta      string `json:"delta" wire:"required"`
}

// ToolCallEnd is TOOL_CALL_END: the model has written the call. The call itself continues.
type ToolCallEnd struct {
	EventHeader
	ToolCallID CallID `json:"tool_call_id" wire:"required"`
}

// ToolResultStart is TOOL_RESULT_START: a running result with an empty list is appended.
type ToolResultStart struct {
	EventHeader
	ToolCallID   CallID `json:"tool_call_id" wire:"required"`
	ToolCallName string `json:"tool_call_name" wire:"required"`
}

// ToolResultTextDelta is TOOL_RESULT_TEXT_DELTA: text from the tool.
type ToolResultTextDelta struct {
	EventHeader
	ToolCallID CallID `json:"tool_call_id" wire:"required"`
	Delta      string `json:"delta" wire:"required"`
}

// ToolResultDataDelta is TOOL_RESULT_DATA_DELTA: a whole data block from the tool. Exactly one
// of Data and URL is set.
type ToolResultDataDelta struct {
	EventHeader
	ToolCallID CallID  `json:"tool_call_id" wire:"required"`
	BlockID    string  `json:"block_id" wire:"id"`
	MediaType  string  `json:"media_type" wire:"required"`
	Data       *string `json:"data"` // base64
	URL        *string `json:"url"`
}

// ToolResultEnd is TOOL_RESULT_END: the tool has finished. The result gets the state, end and
// metadata of the event, and the call is finished; without a result block nothing
// happens.
type ToolResultEnd struct {
	EventHeader
	ToolCallID CallID          `json:"tool_call_id" wire:"required"`
	State      ToolResultState `json:"state" wire:"required"`
}

// RequireUserConfirm is REQUIRE_USER_CONFIRM: a person is asked about these calls.
type RequireUserConfirm struct {
	EventHeader
	ToolCalls []ToolCallBlock `json:"tool_calls" wire:"required"`
}

// UserConfirmResult is USER_CONFIRM_RESULT: the person's responses. They only move calls that
// are asking: name, input and rules of a response are not applied to the message.
type UserConfirmResult struct {
	EventHeader
	ConfirmResults []ConfirmResult `json:"confirm_results" wire:"required"`
}

// RequireExternalExecution is REQUIRE_EXTERNAL_EXECUTION: these calls have to run outside the agent.
type RequireExternalExecution struct {
	EventHeader
	ToolCalls []ToolCallBlock `json:"tool_calls" wire:"required"`
}

// ExternalExecutionResult is EXTERNAL_EXECUTION_RESULT: results from outside. A result for a
// call that already has one is ignored.
type ExternalExecutionResult struct {
	EventHeader
	ExecutionResults []ToolResultBlock `json:"execution_results" wire:"required"`
}

// verify checks that exactly one of data and url is set.
func (t *ToolResultDataDelta) verify() error {
	if (t.Data == nil) == (t.URL == nil) {
		return strictjson.Wrong(strictjson.ErrType, "exactly one of data and url must be set")
	}
	return nil
}

// ConfirmResult is a person's response to one approval request.
type ConfirmResult struct {
	Confirmed bool             `json:"confirmed" wire:"required"`
	ToolCall  ToolCallBlock    `json:"tool_call" wire:"required"` // as the person saw or edited it
	Rules     []PermissionRule `json:"rules" wire:"null"`         // to remember; nil is null
}

func (*ToolCallStart) Type() EventType            { return EventToolCallStart }
func (*ToolCallDelta) Type() EventType            { return EventToolCallDelta }
func (*ToolCallEnd) Type() EventType              { return EventToolCallEnd }
func (*ToolResultStart) Type() EventType          { return EventToolResultStart }
func (*ToolResultTextDelta) Type() EventType      { return EventToolResultTextDelta }
func (*ToolResultDataDelta) Type() EventType      { return EventToolResultDataDelta }
func (*ToolResultEnd) Type() EventType            { return EventToolResultEnd }
func (*RequireUserConfirm) Type() EventType       { return EventRequireUserConfirm }
func (*UserConfirmResult) Type() EventType        { return EventUserConfirmResult }
func (*RequireExternalExecution) Type() EventType { return EventRequireExternalExecution }
func (*ExternalExecutionResult) Type() EventType  { return EventExternalExecutionResult }

// RequestEventID returns the id for a REQUIRE_USER_CONFIRM that askance makes: any id followed
// by the digest of the approval request. AgentScope's confirmations contain no digest; a
// response to the event names this one.
func RequestEventID(id, digest string) string {
	hex, ok := strings.CutPrefix(digest, "sha256:")
	if !ok {
		return id
	}
	return id + "-" + hex
}

// RequestDigest returns the digest of the approval request that the event asks, or "" if the
// event is not askance's.
func (r *RequireUserConfirm) RequestDigest() string {
	i := strings.LastIndexByte(r.ID, '-')
	hex := r.ID[i+1:]
	if i < 0 || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return ""
	}
	return "sha256:" + hex
}
