package agui

import "github.com/askance-dev/askance/message"

// RunInput is RunAgentInput: the request to run an agent. All strings are
// opaque.
type RunInput struct {
	ThreadID        string // the conversation
	RunID           string // this run; never used twice on a thread
	ProtocolVersion *string
	ParentRunID     *string
	State           message.RawJSON // nil: absent, which is {}
	Messages        []Message       // the whole history
	// Tools are executed by the client alone. It and Context are always written:
	// peers before 1.0 require them.
	Tools          []Tool
	Context        []ContextItem
	ForwardedProps message.RawJSON // anything but null; nil: absent
	Resume         []ResumeEntry   // nil: absent
}

// Tool is a tool that the client executes.
type Tool struct {
	Name        string
	Description string
	Parameters  message.RawJSON // JSON Schema, anything but null; nil: absent
	Metadata    message.RawJSON // an object; nil: absent
}

// ContextItem is something about the person's surroundings, for the model.
type ContextItem struct {
	Description string
	Value       string
}

// ResumeStatus says whether an interrupt was answered.
type ResumeStatus string

// The two statuses. A refusal is an answer; cancelled is none.
const (
	ResumeResolved  ResumeStatus = "resolved"
	ResumeCancelled ResumeStatus = "cancelled"
)

var resumeStatuses = []ResumeStatus{ResumeResolved, ResumeCancelled}

// ResumeEntry is what became of one interrupt.
type ResumeEntry struct {
	InterruptID string
	Status      ResumeStatus
	Payload     message.RawJSON // anything but null; nil: absent
	Metadata    message.RawJSON // an object; nil: absent
}

func (in *RunInput) fields(s *shape) {
	s.text("threadId", &in.ThreadID)
	s.text("runId", &in.RunID)
	s.textOpt("protocolVersion", &in.ProtocolVersion)
	s.textOpt("parentRunId", &in.ParentRunID)
	in.state(s)
	list(s, "messages", &in.Messages, (*Message).fields)
	listOrEmpty(s, "tools", &in.Tools, (*Tool).fields)
	listOrEmpty(s, "context", &in.Context, (*ContextItem).fields)
	s.rescueNull("forwardedProps")
	s.rawOpt("forwardedProps", &in.ForwardedProps)
	listOpt(s, "resume", &in.Resume, (*ResumeEntry).fields)
}

// state may be null on the wire, which is absent: the schema itself says so.
func (in *RunInput) state(s *shape) {
	if s.reading {
		if m, ok := s.findOptional("state"); ok && string(m.Value) == "null" {
			return
		}
	}
	s.rawOpt("state", &in.State)
}

func (t *Tool) fields(s *shape) {
	s.text("name", &t.Name)
	s.text("description", &t.Description)
	s.rescueNull("parameters")
	s.rawOpt("parameters", &t.Parameters)
	s.objectOpt("metadata", &t.Metadata)
}

func (c *ContextItem) fields(s *shape) {
	s.text("description", &c.Description)
	s.text("value", &c.Value)
}

func (e *ResumeEntry) fields(s *shape) {
	s.text("interruptId", &e.InterruptID)
	word(s, "status", &e.Status, resumeStatuses)
	s.rescueNull("payload")
	s.rawOpt("payload", &e.Payload)
	s.objectOpt("metadata", &e.Metadata)
}
