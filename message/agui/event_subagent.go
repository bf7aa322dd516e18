package agui

import "github.com/askance-dev/askance/message"

// SubagentStarted is SUBAGENT_STARTED: it opens the invocation of a subagent.
type SubagentStarted struct {
	Base
	SubagentRunID       string
	Name                string
	Description         *string
	ParentSubagentRunID *string
	ParentToolCallID    *string
	ParentMessageID     *string
}

// SubagentFinished is SUBAGENT_FINISHED: it closes it, for this run.
type SubagentFinished struct {
	Base
	SubagentRunID string
	Result        message.RawJSON  // nil: absent
	Outcome       *SubagentOutcome // nil is success
}

// SubagentError is SUBAGENT_ERROR: it closes it as failed. The run may go on.
type SubagentError struct {
	Base
	SubagentRunID string
	Message       string
	Code          *string
}

// Type returns TypeSubagentStarted.
func (*SubagentStarted) Type() EventType { return TypeSubagentStarted }

// Type returns TypeSubagentFinished.
func (*SubagentFinished) Type() EventType { return TypeSubagentFinished }

// Type returns TypeSubagentError.
func (*SubagentError) Type() EventType { return TypeSubagentError }

func (e *SubagentStarted) fields(s *shape) {
	s.text("subagentRunId", &e.SubagentRunID)
	s.text("name", &e.Name)
	s.textOpt("description", &e.Description)
	s.textOpt("parentSubagentRunId", &e.ParentSubagentRunID)
	s.textOpt("parentToolCallId", &e.ParentToolCallID)
	s.textOpt("parentMessageId", &e.ParentMessageID)
	e.base(s)
}

func (e *SubagentFinished) fields(s *shape) {
	s.text("subagentRunId", &e.SubagentRunID)
	s.rescueNull("result")
	s.rawOpt("result", &e.Result)
	nestedOpt(s, "outcome", &e.Outcome, (*SubagentOutcome).fields)
	e.base(s)
}

func (e *SubagentError) fields(s *shape) {
	s.text("subagentRunId", &e.SubagentRunID)
	s.text("message", &e.Message)
	s.textOpt("code", &e.Code)
	e.base(s)
}
