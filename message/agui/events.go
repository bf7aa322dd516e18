package agui

import "github.com/askance-dev/askance/message"

// RunStarted is RUN_STARTED: it opens a run.
type RunStarted struct {
	ThreadID        string    `json:"threadId"`
	RunID           string    `json:"runId"`
	ProtocolVersion *string   `json:"protocolVersion"` // see [Version]
	ParentRunID     *string   `json:"parentRunId"`     // the run that spawned this one
	Input           *RunInput `json:"input"`           // an echo of the input; its messages are added to the client's
	Base
}

// RunFinished is RUN_FINISHED: it closes a run that did not fail. Everything that the run
// opened must be closed before.
type RunFinished struct {
	ThreadID string          `json:"threadId"`
	RunID    string          `json:"runId"`
	Result   message.RawJSON `json:"result" wire:"rescue"`  // for a success; nil if absent
	Outcome  *Outcome        `json:"outcome" wire:"rescue"` // nil is success
	Usage    []TokenUsage    `json:"usage"`                 // nil if absent
	Base
}

// RunError is RUN_ERROR: it ends a run that failed, at any time. Nothing needs to be closed.
type RunError struct {
	Message string       `json:"message"`
	Code    *string      `json:"code"`  // any string
	Usage   []TokenUsage `json:"usage"` // nil if absent
	Base
}

// StepStarted is STEP_STARTED: it opens a named step.
type StepStarted struct {
	StepName string `json:"stepName"`
	Tagged
}

// StepFinished is STEP_FINISHED: it closes a step of any owner.
type StepFinished struct {
	StepName string `json:"stepName"`
	Tagged
}

// TextMessageStart is TEXT_MESSAGE_START: it opens a text message, or continues the message
// with that id.
type TextMessageStart struct {
	MessageID string  `json:"messageId"`
	Role      *Role   `json:"role" wire:"in=developer system assistant user"` // nil is assistant
	Name      *string `json:"name"`
	Tagged
}

// TextMessageContent is TEXT_MESSAGE_CONTENT: it appends to an open message.
type TextMessageContent struct {
	MessageID string `json:"messageId"`
	Delta     string `json:"delta"` // may be empty
	Tagged
}

// TextMessageEnd is TEXT_MESSAGE_END: it closes a message.
type TextMessageEnd struct {
	MessageID string `json:"messageId"`
	Tagged
}

// TextMessageChunk is TEXT_MESSAGE_CHUNK: it combines start, content and end. The first
// chunk of a message needs its id.
type TextMessageChunk struct {
	MessageID *string `json:"messageId"`
	Role      *Role   `json:"role" wire:"in=developer system assistant user"`
	Delta     *string `json:"delta"`
	Name      *string `json:"name"`
	Tagged
}

// ToolCallStart is TOOL_CALL_START: it opens a tool call in the assistant message
// ParentMessageID.
type ToolCallStart struct {
	ToolCallID      string  `json:"toolCallId"`
	ToolCallName    string  `json:"toolCallName"`
	ParentMessageID *string `json:"parentMessageId" wire:"rescue"`
	Tagged
}

// ToolCallArgs is TOOL_CALL_ARGS: it appends to the arguments of an open call.
type ToolCallArgs struct {
	ToolCallID string `json:"toolCallId"`
	Delta      string `json:"delta"` // text; together not necessarily valid JSON
	Tagged
}

// ToolCallEnd is TOOL_CALL_END: it closes a call, whose arguments are complete.
type ToolCallEnd struct {
	ToolCallID string `json:"toolCallId"`
	Tagged
}

// ToolCallResult is TOOL_CALL_RESULT: it adds a tool message. Only the tool message of a
// history has an error member.
type ToolCallResult struct {
	MessageID  string  `json:"messageId"` // of the new message
	ToolCallID string  `json:"toolCallId"`
	Content    Content `json:"content"`
	Role       *Role   `json:"role" wire:"in=tool"`
	Tagged
}

// ToolCallChunk is TOOL_CALL_CHUNK: it combines start, args and end. The first chunk of a
// call needs its id and name.
type ToolCallChunk struct {
	ToolCallID      *string `json:"toolCallId"`
	ToolCallName    *string `json:"toolCallName"`
	ParentMessageID *string `json:"parentMessageId" wire:"rescue"`
	Delta           *string `json:"delta"`
	Tagged
}

// StateSnapshot is STATE_SNAPSHOT: it replaces the state.
type StateSnapshot struct {
	Snapshot message.RawJSON `json:"snapshot" wire:"required,any"` // any JSON, including null
	Tagged
}

// StateDelta is STATE_DELTA: it changes the state. A client that cannot apply it keeps its
// state.
type StateDelta struct {
	Delta []PatchOp `json:"delta" wire:"required"`
	Tagged
}

// MessagesSnapshot is MESSAGES_SNAPSHOT: it restates the conversation.
type MessagesSnapshot struct {
	Messages []Message `json:"messages" wire:"required"`
	Base
}

// ActivitySnapshot is ACTIVITY_SNAPSHOT: it shows progress outside the conversation.
type ActivitySnapshot struct {
	MessageID    string          `json:"messageId"`
	ActivityType string          `json:"activityType"`
	Content      message.RawJSON `json:"content" wire:"required,object"` // an object
	Replace      *bool           `json:"replace"`                        // nil is true
	Tagged
}

// ActivityDelta is ACTIVITY_DELTA: it changes an activity.
type ActivityDelta struct {
	MessageID    string    `json:"messageId"`
	ActivityType string    `json:"activityType"`
	Patch        []PatchOp `json:"patch" wire:"required"`
	Tagged
}

// Raw is RAW: it passes on an event of another system.
type Raw struct {
	Event  message.RawJSON `json:"event" wire:"required,any"` // any JSON, including null
	Source *string         `json:"source"`
	Tagged
}

// Custom is CUSTOM: an event of the application.
type Custom struct {
	Name  string          `json:"name"`
	Value message.RawJSON `json:"value" wire:"required,any"` // any JSON, including null
	Tagged
}

// ReasoningStart is REASONING_START: it opens a span of reasoning.
type ReasoningStart struct {
	MessageID string `json:"messageId"`
	Tagged
}

// ReasoningEnd is REASONING_END: it closes a span.
type ReasoningEnd struct {
	MessageID string `json:"messageId"`
	Tagged
}

// ReasoningMessageStart is REASONING_MESSAGE_START: it opens a reasoning message. Its role is
// always written.
type ReasoningMessageStart struct {
	MessageID string   `json:"messageId"`
	_         struct{} `wire:"name=role,const=reasoning"`
	Tagged
}

// ReasoningMessageContent is REASONING_MESSAGE_CONTENT: it appends to an open reasoning message.
type ReasoningMessageContent struct {
	MessageID string `json:"messageId"`
	Delta     string `json:"delta"`
	Tagged
}

// ReasoningMessageEnd is REASONING_MESSAGE_END: it closes a reasoning message.
type ReasoningMessageEnd struct {
	MessageID string `json:"messageId"`
	Tagged
}

// ReasoningMessageChunk is REASONING_MESSAGE_CHUNK: it combines start, content and end.
type ReasoningMessageChunk struct {
	MessageID *string `json:"messageId"`
	Delta     *string `json:"delta"`
	Tagged
}

// ReasoningEncryptedValue is REASONING_ENCRYPTED_VALUE: it contains a provider's encrypted
// reasoning for a message or a call.
type ReasoningEncryptedValue struct {
	Subtype        EncryptedSubtype `json:"subtype"`
	EntityID       string           `json:"entityId"`
	EncryptedValue string           `json:"encryptedValue"`
	Tagged
}

// SubagentStarted is SUBAGENT_STARTED: it opens the invocation of a subagent.
type SubagentStarted struct {
	SubagentRunID       string  `json:"subagentRunId"`
	Name                string  `json:"name"`
	Description         *string `json:"description"`
	ParentSubagentRunID *string `json:"parentSubagentRunId"`
	ParentToolCallID    *string `json:"parentToolCallId"`
	ParentMessageID     *string `json:"parentMessageId"`
	Base
}

// SubagentFinished is SUBAGENT_FINISHED: it closes an invocation, for this run.
type SubagentFinished struct {
	SubagentRunID string           `json:"subagentRunId"`
	Result        message.RawJSON  `json:"result" wire:"rescue"` // nil if absent
	Outcome       *SubagentOutcome `json:"outcome"`              // nil is success
	Base
}

// SubagentError is SUBAGENT_ERROR: it closes an invocation as failed. The run may continue.
type SubagentError struct {
	SubagentRunID string  `json:"subagentRunId"`
	Message       string  `json:"message"`
	Code          *string `json:"code"`
	Base
}

// PatchOpType is the type of an operation.
type PatchOpType string

// The operations of JSON Patch.
const (
	PatchAdd     PatchOpType = "add"
	PatchRemove  PatchOpType = "remove"
	PatchReplace PatchOpType = "replace"
	PatchMove    PatchOpType = "move"
	PatchCopy    PatchOpType = "copy"
	PatchTest    PatchOpType = "test"
)

// PatchOp is one operation of a JSON Patch (RFC 6902), in which members that the operation
// does not define are ignored. Only its form is checked.
type PatchOp struct {
	Op    PatchOpType     `json:"op" wire:"variant"`
	Path  string          `json:"path" wire:"rule=pointer"`
	Value message.RawJSON `json:"value" wire:"required,any,when=add replace test"` // any JSON, including null
	From  string          `json:"from" wire:"rule=pointer,when=move copy"`
	_     struct{}        `wire:"open"`
}
