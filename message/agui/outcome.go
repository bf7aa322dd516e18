package agui

import (
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// OutcomeType is the discriminator of an outcome.
type OutcomeType string

// How a run that did not fail can end. There is no other: a consumer takes an
// unknown one away and reads success.
const (
	OutcomeSuccess   OutcomeType = "success"
	OutcomeInterrupt OutcomeType = "interrupt"
	OutcomeCancelled OutcomeType = "cancelled" // stopped on purpose; new in 1.0
)

var outcomeTypes = []OutcomeType{OutcomeSuccess, OutcomeInterrupt, OutcomeCancelled}

// Outcome is why a run ended.
type Outcome struct {
	Type OutcomeType
	// PendingToolCallIDs of a success name the client's tools that the client is
	// to run now; new in 1.0. nil: absent, the client finds out alone.
	PendingToolCallIDs []string
	// Interrupts of an interrupt, at least one.
	Interrupts []Interrupt
}

// Interrupt is an approval request that the run waits for.
type Interrupt struct {
	ID             string // unique in the thread
	Reason         string // an open word; see the Reason constants
	Message        *string
	ToolCallID     *string
	ResponseSchema message.RawJSON // an object; nil: absent
	ExpiresAt      *string         // RFC 3339
	Metadata       message.RawJSON // an object; nil: absent
	SubagentRunID  *string
}

// The reasons that this package gives and knows.
const (
	ReasonToolCall = "tool_call"                  // may this tool run
	ReasonExternal = "askance:external_execution" // a worker is still busy; resolve it to go on
)

// TokenUsage is what the calls of one model cost. Input and output are totals,
// the others parts of them; nil is not known, which is not 0.
type TokenUsage struct {
	Provider              *string
	Model                 *string
	InputTokens           *int64
	OutputTokens          *int64
	TotalTokens           *int64
	ReasoningTokens       *int64
	CachedInputTokens     *int64
	CacheWriteInputTokens *int64
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
	Type         SubagentOutcomeType
	InterruptIDs []string // of a suspended one; nil: absent
}

// EncryptedSubtype says what a sealed value belongs to.
type EncryptedSubtype string

// The subtypes; the hyphen is the wire's.
const (
	EncryptedMessage  EncryptedSubtype = "message"
	EncryptedToolCall EncryptedSubtype = "tool-call"
)

var (
	encryptedSubtypes = []EncryptedSubtype{EncryptedToolCall, EncryptedMessage}
	subagentOutcomes  = []SubagentOutcomeType{SubagentSuccess, SubagentSuspended}
)

func (o *Outcome) fields(s *shape) {
	variant(s, "type", &o.Type, outcomeTypes)
	switch o.Type {
	case OutcomeSuccess:
		s.textsOpt("pendingToolCallIds", &o.PendingToolCallIDs)
	case OutcomeInterrupt:
		list(s, "interrupts", &o.Interrupts, (*Interrupt).fields)
		if s.err == nil && len(o.Interrupts) == 0 {
			s.fail("interrupts", -1, strictjson.Wrong(strictjson.ErrType, "an interrupt needs at least one approval request"))
		}
	case OutcomeCancelled:
	}
	s.refuseUnused("pendingToolCallIds", o.Type != OutcomeSuccess && o.PendingToolCallIDs != nil, "this outcome")
	s.refuseUnused("interrupts", o.Type != OutcomeInterrupt && o.Interrupts != nil, "this outcome")
}

func (i *Interrupt) fields(s *shape) {
	s.text("id", &i.ID)
	s.text("reason", &i.Reason)
	s.textOpt("message", &i.Message)
	s.textOpt("toolCallId", &i.ToolCallID)
	s.objectOpt("responseSchema", &i.ResponseSchema)
	s.textOpt("expiresAt", &i.ExpiresAt)
	s.objectOpt("metadata", &i.Metadata)
	s.textOpt("subagentRunId", &i.SubagentRunID)
}

func (u *TokenUsage) fields(s *shape) {
	s.textOpt("provider", &u.Provider)
	s.textOpt("model", &u.Model)
	s.integerOpt("inputTokens", &u.InputTokens, 0)
	s.integerOpt("outputTokens", &u.OutputTokens, 0)
	s.integerOpt("totalTokens", &u.TotalTokens, 0)
	s.integerOpt("reasoningTokens", &u.ReasoningTokens, 0)
	s.integerOpt("cachedInputTokens", &u.CachedInputTokens, 0)
	s.integerOpt("cacheWriteInputTokens", &u.CacheWriteInputTokens, 0)
}

func (o *SubagentOutcome) fields(s *shape) {
	variant(s, "type", &o.Type, subagentOutcomes)
	if o.Type == SubagentSuspended {
		s.textsOpt("interruptIds", &o.InterruptIDs)
	}
	s.refuseUnused("interruptIds", o.Type != SubagentSuspended && o.InterruptIDs != nil, "this outcome")
}
