package agui

import "github.com/askance-dev/askance/message"

// RunStarted is RUN_STARTED: it opens a run.
type RunStarted struct {
	Base
	ThreadID        string
	RunID           string
	ProtocolVersion *string   // see [Version]
	ParentRunID     *string   // the run that spawned this one
	Input           *RunInput // an echo of what was asked; its messages join the client's
}

// RunFinished is RUN_FINISHED: it closes a run that did not fail. Everything that it opened is closed
// before.
type RunFinished struct {
	Base
	ThreadID string
	RunID    string
	Result   message.RawJSON // of a success; nil: absent
	Outcome  *Outcome        // nil is success
	Usage    []TokenUsage    // nil: absent
}

// RunError is RUN_ERROR: it ends a run that failed, at any time. Nothing needs to be closed.
type RunError struct {
	Base
	Message string
	Code    *string      // an open word
	Usage   []TokenUsage // nil: absent
}

// StepStarted is STEP_STARTED: it opens a named step.
type StepStarted struct {
	Tagged
	StepName string
}

// StepFinished is STEP_FINISHED: it closes a step of any owner.
type StepFinished struct {
	Tagged
	StepName string
}

// Type returns TypeRunStarted.
func (*RunStarted) Type() EventType { return TypeRunStarted }

// Type returns TypeRunFinished.
func (*RunFinished) Type() EventType { return TypeRunFinished }

// Type returns TypeRunError.
func (*RunError) Type() EventType { return TypeRunError }

// Type returns TypeStepStarted.
func (*StepStarted) Type() EventType { return TypeStepStarted }

// Type returns TypeStepFinished.
func (*StepFinished) Type() EventType { return TypeStepFinished }

func (e *RunStarted) fields(s *shape) {
	s.text("threadId", &e.ThreadID)
	s.text("runId", &e.RunID)
	s.textOpt("protocolVersion", &e.ProtocolVersion)
	s.textOpt("parentRunId", &e.ParentRunID)
	nestedOpt(s, "input", &e.Input, (*RunInput).fields)
	e.base(s)
}

func (e *RunFinished) fields(s *shape) {
	s.text("threadId", &e.ThreadID)
	s.text("runId", &e.RunID)
	s.rescueNull("result")
	s.rawOpt("result", &e.Result)
	s.rescueNull("outcome")
	nestedOpt(s, "outcome", &e.Outcome, (*Outcome).fields)
	listOpt(s, "usage", &e.Usage, (*TokenUsage).fields)
	e.base(s)
}

func (e *RunError) fields(s *shape) {
	s.text("message", &e.Message)
	s.textOpt("code", &e.Code)
	listOpt(s, "usage", &e.Usage, (*TokenUsage).fields)
	e.base(s)
}

func (e *StepStarted) fields(s *shape) {
	s.text("stepName", &e.StepName)
	e.taggedFields(s)
}

func (e *StepFinished) fields(s *shape) {
	s.text("stepName", &e.StepName)
	e.taggedFields(s)
}
