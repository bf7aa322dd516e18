package message

import (
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

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
func (e *ToolResultDataDelta) verify() error {
	if (e.Data == nil) == (e.URL == nil) {
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
func (x *RequireUserConfirm) RequestDigest() string {
	i := strings.LastIndexByte(x.ID, '-')
	hex := x.ID[i+1:]
	if i < 0 || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return ""
	}
	return "sha256:" + hex
}
