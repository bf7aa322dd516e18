package agui

import "github.com/askance-dev/askance/message"

// OutcomeType is the discriminator of an outcome.
type OutcomeType string

// How a run that did not fail can end. There is no other: a consumer takes an
// unknown one away and reads success.
const (
	OutcomeSuccess   OutcomeType = "success"
	OutcomeInterrupt OutcomeType = "interrupt"
	OutcomeCancelled OutcomeType = "cancelled" // stopped on purpose; new in 1.0
)

// Outcome is why a run ended.
type Outcome struct {
	Type OutcomeType `json:"type" wire:"variant"`
	// PendingToolCallIDs of a success name the client's tools that the client is
	// to run now; new in 1.0. nil: absent, the client finds out alone.
	PendingToolCallIDs []string `json:"pendingToolCallIds" wire:"when=success"`
	// Interrupts of an interrupt, at least one.
	Interrupts []Interrupt `json:"interrupts" wire:"required,when=interrupt"`
}

// Interrupt is an approval request that the run waits for.
type Interrupt struct {
	ID             string          `json:"id"`     // unique in the thread
	Reason         string          `json:"reason"` // an open word; see the Reason constants
	Message        *string         `json:"message"`
	ToolCallID     *string         `json:"toolCallId"`
	ResponseSchema message.RawJSON `json:"responseSchema" wire:"object"` // nil: absent
	ExpiresAt      *string         `json:"expiresAt"`                    // RFC 3339
	Metadata       message.RawJSON `json:"metadata" wire:"object"`       // nil: absent
	SubagentRunID  *string         `json:"subagentRunId"`
}

// The reasons that this package gives and knows.
const (
	ReasonToolCall = "tool_call"                  // may this tool run
	ReasonExternal = "askance:external_execution" // a worker is still busy; resolve it to go on
)

// TokenUsage is what the calls of one model cost. Input and output are totals,
// the others parts of them; nil is not known, which is not 0.
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

// SubagentOutcomeType is the discriminator of a subagent's outcome.
type SubagentOutcomeType string

// How a subagent's part of a run ends.
const (
	SubagentSuccess   SubagentOutcomeType = "success"
	SubagentSuspended SubagentOutcomeType = "suspended"
)

// SubagentOutcome is why a subagent's part of a run ended.
type SubagentOutcome struct {
	Type         SubagentOutcomeType `json:"type" wire:"variant"`
	InterruptIDs []string            `json:"interruptIds" wire:"when=suspended"` // nil: absent
}

// EncryptedSubtype says what a sealed value belongs to.
type EncryptedSubtype string

// The subtypes; the hyphen is the wire's.
const (
	EncryptedMessage  EncryptedSubtype = "message"
	EncryptedToolCall EncryptedSubtype = "tool-call"
)
