package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Thread is what the server knows about a thread's interrupts. It comes from the server's
// own records: what a client says about them is never trusted.
type Thread struct {
	// Open are the interrupts of the latest interrupted run that wait for an answer.
	Open []Interrupt
	// Settled are the answered ones, by id, with the first decision: by an earlier run, or
	// by another surface, in the form of an entry. An interrupt that is in both is settled.
	Settled map[string]ResumeEntry
}

// Resumption is the result of checking a run's resume entries.
type Resumption struct {
	Answers   []Response    // one for each open interrupt, in the order of Thread.Open
	Replayed  []ResumeEntry // repeat the decision: answer from the record
	Overtaken []ResumeEntry // contradict the decision: the first one is final, so tell the client
	Strays    []ResumeEntry // for interrupts that the thread never had: no effect, but worth auditing
}

// Resume checks a run's entries against the thread. Its error is a *[RefusalError]:
//
//   - a thread with open interrupts accepts no run without entries;
//   - every open interrupt has an entry, and two entries for one agree;
//   - after its expiry, by the server's clock now, an interrupt can be cancelled but not
//     resolved;
//   - an answer is one that its approval request allows, see [Response].
//
// An entry for a settled or an unknown interrupt has no effect.
func (t Thread) Resume(entries []ResumeEntry, now time.Time) (*Resumption, error) {
	var out Resumption
	byID := map[string]ResumeEntry{}
	open := map[string]bool{}
	for _, i := range t.Open {
		open[i.ID] = true
	}
	for _, e := range entries {
		first, twice := byID[e.InterruptID]
		if twice && !sameResponse(first, e) {
			return nil, &RefusalError{CodeResumeConflict, e.InterruptID, "two entries disagree"}
		}
		if twice {
			continue
		}
		byID[e.InterruptID] = e
		decided, settled := t.Settled[e.InterruptID]
		switch {
		case settled && sameResponse(decided, e):
			out.Replayed = append(out.Replayed, e)
		case settled:
			out.Overtaken = append(out.Overtaken, e)
		case !open[e.InterruptID]:
			out.Strays = append(out.Strays, e)
		}
	}
	for _, i := range t.Open {
		if _, settled := t.Settled[i.ID]; settled {
			continue
		}
		a, err := answerTo(i, byID, now)
		if err != nil {
			return nil, err
		}
		out.Answers = append(out.Answers, a)
	}
	return &out, nil
}

// answerTo finds and checks the entry of an open interrupt.
func answerTo(i Interrupt, byID map[string]ResumeEntry, now time.Time) (Response, error) {
	e, ok := byID[i.ID]
	switch {
	case len(byID) == 0:
		return Response{}, &RefusalError{CodeInterruptPending, i.ID, "the thread waits for an answer, but the run has none"}
	case !ok:
		return Response{}, &RefusalError{CodeResumeIncomplete, i.ID, "it is open and has no entry"}
	case e.Status == ResumeResolved && isExpired(i, now):
		return Response{}, &RefusalError{CodeInterruptExpired, i.ID, fmt.Sprintf("it expired at %.40q; it can only be cancelled", *i.ExpiresAt)}
	}
	a, err := readAnswer(i, e)
	if err != nil {
		return Response{}, &RefusalError{CodePayloadInvalid, i.ID, err.Error()}
	}
	return a, nil
}

// isExpired reports whether an interrupt has expired. An invalid time counts as expired: the
// server wrote it, so something is wrong.
func isExpired(i Interrupt, now time.Time) bool {
	if i.ExpiresAt == nil {
		return false
	}
	at, err := time.Parse(time.RFC3339, *i.ExpiresAt)
	return err != nil || !now.Before(at)
}

// sameResponse compares status and payload as values.
func sameResponse(a, b ResumeEntry) bool {
	return a.Status == b.Status && jcs.Equal(a.Payload, b.Payload)
}

// The codes that this package sets on RUN_ERROR. AG-UI does not define the code.
const (
	CodeCancelled        = "cancelled"         // to peers before 1.0: the run was stopped intentionally
	CodeExceedMaxIters   = "exceed_max_iters"  // to peers before 1.0: the agent's limit of rounds
	CodeNotParked        = "not_parked"        // the run was ended while its reply continued
	CodeInterruptPending = "interrupt_pending" // the thread waits for answers, but the run has none
	CodeResumeIncomplete = "resume_incomplete" // an open interrupt has no entry
	CodeResumeConflict   = "resume_conflict"   // two entries for one interrupt disagree
	CodePayloadInvalid   = "payload_invalid"   // an answer that the approval request does not allow
	CodeInterruptExpired = "interrupt_expired" // an answer after the deadline
)

// RefusalError is why a run that should resume does not start. Nothing of the run may be
// executed, and every interrupt stays open.
type RefusalError struct {
	Code      string // one of the codes above, from CodeInterruptPending on
	Interrupt string // the id of the interrupt
	What      string
}

// Error names the interrupt and the fault.
func (r *RefusalError) Error() string {
	return "resume AG-UI run: interrupt " + r.Interrupt + ": " + r.What
}

// Is makes a refusal match [message.ErrInvalid].
func (r *RefusalError) Is(target error) bool { return target == error(message.ErrInvalid) }

// Event returns the refusal as the only event of a run that never starts. A client that gets
// it keeps its interrupts and can try again.
func (r *RefusalError) Event() *RunError {
	return &RunError{Message: r.Error(), Code: new(r.Code)}
}

// Response is a person's response to one interrupt, or the fact that none came.
type Response struct {
	Interrupt Interrupt
	Entry     ResumeEntry
	// Abandoned means that the entry is cancelled and no response came.
	Abandoned bool
	// Approved is the response to an approval request about a call ([ReasonToolCall]). It is
	// set only if the payload says approved: true.
	Approved bool
	// Edited replaces all arguments; it is an object, or nil if they are unchanged. It is set
	// only for an approval, and only if the approval request offered edits.
	Edited message.RawJSON
	// Rules are to be remembered; only for an approval, and only if the approval request
	// offered rules. The policy decides whether they may be remembered.
	Rules    []message.PermissionRule
	Feedback string // why the call was denied, for the model
}

// readAnswer reads an entry. It refuses a payload about a call that has an unknown member,
// because that may be a misspelled edit, and then the wrong call would run.
func readAnswer(i Interrupt, e ResumeEntry) (Response, error) {
	a := Response{Interrupt: i, Entry: e, Abandoned: e.Status == ResumeCancelled}
	if a.Abandoned || i.Reason != ReasonToolCall {
		return a, nil
	}
	if e.Status != ResumeResolved {
		return a, fmt.Errorf("unknown status %.20q", e.Status)
	}
	if e.Payload == nil {
		return a, errors.New("there is no payload")
	}
	members, err := strictjson.Members(e.Payload)
	if err != nil {
		return a, err
	}
	approved := false
	for _, m := range members {
		if m.Name == "approved" {
			approved = true
		}
		if err := a.member(m); err != nil {
			return a, strictjson.Within(err, "decode", strictjson.Step(m.Name), int64(m.Offset))
		}
	}
	switch {
	case !approved:
		return a, strictjson.Wrong(strictjson.ErrMissingMember, "%q", "approved")
	case !a.Approved && (a.Edited != nil || a.Rules != nil):
		return a, errors.New("a denial cannot edit the arguments or give rules")
	}
	return a, a.checkOffer()
}

// member reads one member of the payload.
func (a *Response) member(m strictjson.Member) (err error) {
	switch m.Name {
	case "approved":
		a.Approved, err = strictjson.Bool(m.Value)
	case "editedArgs":
		a.Edited = bytes.Clone(m.Value)
		if kind := strictjson.KindOf(m.Value); kind != "object" {
			return strictjson.Wrong(strictjson.ErrType, "want object, got %s", kind)
		}
	case "rules":
		a.Rules = []message.PermissionRule{}
		return strictjson.Unmarshal(m.Value, &a.Rules)
	case "feedback":
		a.Feedback, err = strictjson.Text(m.Value)
	default:
		return strictjson.Wrong(strictjson.ErrUnknownMember, "%.60q", m.Name)
	}
	return err
}

// checkOffer checks the response against what the schema of the request offers. Without a
// schema that is only yes or no.
func (a *Response) checkOffer() error {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if a.Interrupt.ResponseSchema != nil {
		if err := strictjson.UnmarshalOpen(a.Interrupt.ResponseSchema, &schema); err != nil {
			return err
		}
	}
	for name, used := range map[string]bool{"editedArgs": a.Edited != nil, "rules": a.Rules != nil} {
		if _, offers := schema.Properties[name]; used && !offers {
			return fmt.Errorf("the approval request does not offer %q", name)
		}
	}
	return nil
}

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
