package agui

import "github.com/askance-dev/askance/message"

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

// MarshalJSON implements json.Marshaler.
func (in *RunInput) MarshalJSON() ([]byte, error) { return AppendJSON(nil, in) }
