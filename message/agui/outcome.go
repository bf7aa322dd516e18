package agui

import "github.com/askance-dev/askance/message"

// OutcomeType is the type of an outcome.
type OutcomeType string

// How a run that did not fail can end. There is no other way: a consumer drops an unknown
// outcome and assumes success.
const (
	OutcomeSuccess   OutcomeType = "success"
	OutcomeInterrupt OutcomeType = "interrupt"
	OutcomeCancelled OutcomeType = "cancelled" // stopped intentionally; new in 1.0
)

// Outcome is why a run ended.
type Outcome struct {
	Type OutcomeType `json:"type" wire:"variant"`
	// PendingToolCallIDs of a success are the client's tools that the client has to run now;
	// new in 1.0. If nil it is absent, and the client finds out itself.
	PendingToolCallIDs []string `json:"pendingToolCallIds" wire:"when=success"`
	// Interrupts of an interrupt, at least one.
	Interrupts []Interrupt `json:"interrupts" wire:"required,when=interrupt"`
}

// Interrupt is an approval request that the run waits for.
type Interrupt struct {
	ID             string          `json:"id"`     // unique in the thread
	Reason         string          `json:"reason"` // any string; see the Reason constants
	Message        *string         `json:"message"`
	ToolCallID     *string         `json:"toolCallId"`
	ResponseSchema message.RawJSON `json:"responseSchema" wire:"object"` // nil if absent
	ExpiresAt      *string         `json:"expiresAt"`                    // RFC 3339
	Metadata       message.RawJSON `json:"metadata" wire:"object"`       // nil if absent
	SubagentRunID  *string         `json:"subagentRunId"`
}

// The reasons that this package uses and recognizes.
const (
	ReasonToolCall = "tool_call"                  // asks whether a tool may run
	ReasonExternal = "askance:external_execution" // a worker is still busy; resolve it to continue
)

// TokenUsage is what the calls of one model cost. Input and output are totals, and the
// others parts of them; nil means unknown, which is not 0.
type TokenUsage struct {
	Provider              *string `json:"provider"`
	Model                 *string `json:"model"`
	InputTokens           *int64  `json:"inputTokens" wire:"least=0"`
	OutputTokens          *int64  `json:"outputTokens" wire:"least=0"`
	TotalTokens           *int64  `json:"totalTokens" wire:"least=0"`
	ReasoningTokens       *int64  `json:"reasoningTokens" wire:"least=0"`
	CachedInputTokens     *int64  `json:"cachedInputTokens" wire:"least=0"`
	CacheWriteInputTokens *int64  `json:"cacheWriteInputTokens" wire:"least=0"`
}

// SubagentOutcomeType is the type of a subagent's outcome.
type SubagentOutcomeType string

// How a subagent's part of a run ends.
const (
	SubagentSuccess   SubagentOutcomeType = "success"
	SubagentSuspended SubagentOutcomeType = "suspended"
)

// SubagentOutcome is why a subagent's part of a run ended.
type SubagentOutcome struct {
	Type         SubagentOutcomeType `json:"type" wire:"variant"`
	InterruptIDs []string            `json:"interruptIds" wire:"when=suspended"` // nil if absent
}

// EncryptedSubtype says what an encrypted value belongs to.
type EncryptedSubtype string

// The subtypes; the hyphen is AG-UI's.
const (
	EncryptedMessage  EncryptedSubtype = "message"
	EncryptedToolCall EncryptedSubtype = "tool-call"
)

// RunInput is RunAgentInput: the request to run an agent. All strings are opaque.
type RunInput struct {
	ThreadID        string          `json:"threadId"` // the conversation
	RunID           string          `json:"runId"`    // this run; never used twice on a thread
	ProtocolVersion *string         `json:"protocolVersion"`
	ParentRunID     *string         `json:"parentRunId"`
	State           message.RawJSON `json:"state" wire:"null"`        // nil if absent, which means {}
	Messages        []Message       `json:"messages" wire:"required"` // the whole history
	// Tools are executed only by the client. Tools and Context are always written, because
	// peers before 1.0 require them.
	Tools          []Tool          `json:"tools" wire:"empty"`
	Context        []ContextItem   `json:"context" wire:"empty"`
	ForwardedProps message.RawJSON `json:"forwardedProps" wire:"rescue"` // anything but null; nil if absent
	Resume         []ResumeEntry   `json:"resume"`                       // nil if absent
}

// Tool is a tool that the client executes.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  message.RawJSON `json:"parameters" wire:"rescue"` // JSON Schema, anything but null; nil if absent
	Metadata    message.RawJSON `json:"metadata" wire:"object"`   // nil if absent
}

// ContextItem is something about the person's surroundings, for the model.
type ContextItem struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// ResumeStatus says whether an interrupt was answered.
type ResumeStatus string

// The two statuses. A refusal is an answer; cancelled means that there is none.
const (
	ResumeResolved  ResumeStatus = "resolved"
	ResumeCancelled ResumeStatus = "cancelled"
)

// ResumeEntry is the outcome of one interrupt.
type ResumeEntry struct {
	InterruptID string          `json:"interruptId"`
	Status      ResumeStatus    `json:"status"`
	Payload     message.RawJSON `json:"payload" wire:"rescue"`  // anything but null; nil if absent
	Metadata    message.RawJSON `json:"metadata" wire:"object"` // nil if absent
}

func (*RunInput) isObject() {}

func (in *RunInput) MarshalJSON() ([]byte, error) { return AppendJSON(nil, in) }
