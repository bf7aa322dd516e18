package agui

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

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
		return a, fmt.Errorf("there is no payload")
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
		return a, fmt.Errorf("a denial cannot edit the arguments or give rules")
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

// Confirm returns the response in AgentScope's form: the call that was asked about, as in
// the interrupt's metadata, with the edited arguments. An abandoned approval request becomes
// a refusal, because AgentScope has nothing else for it. The error means that the interrupt
// was not made by a [Mapper].
func (a Response) Confirm() (message.ConfirmResult, error) {
	var meta struct {
		Askance *struct {
			ToolCallID string `json:"toolCallId"`
			ToolName   string `json:"toolName"`
			Arguments  string `json:"arguments"`
		} `json:"askance"`
	}
	if err := strictjson.UnmarshalOpen(a.Interrupt.Metadata, &meta); err != nil || meta.Askance == nil || meta.Askance.ToolCallID == "" {
		return message.ConfirmResult{}, message.Errorf(message.CodeInvalid, "read AG-UI answer", "interrupt %.60q does not say which call it is about", a.Interrupt.ID)
	}
	r := message.ConfirmResult{
		Confirmed: a.Approved && !a.Abandoned,
		ToolCall: message.ToolCallBlock{
			ID: message.CallID(meta.Askance.ToolCallID), Name: meta.Askance.ToolName,
			Input: meta.Askance.Arguments, State: message.ToolCallAsking,
		},
		Rules: a.Rules,
	}
	if a.Edited != nil {
		r.ToolCall.Input = string(a.Edited)
	}
	return r, nil
}

// Event returns the AgentScope event of the responses: USER_INTERRUPT if all approval
// requests were abandoned, USER_CONFIRM_RESULT if there is a response about a call, or else
// nil. Responses to approval requests of other kinds are for the caller.
func (r *Resumption) Event(h message.EventHeader) (message.Event, error) {
	abandoned := len(r.Answers) > 0
	var results []message.ConfirmResult
	for _, a := range r.Answers {
		abandoned = abandoned && a.Abandoned
		if a.Interrupt.Reason != ReasonToolCall {
			continue
		}
		c, err := a.Confirm()
		if err != nil {
			return nil, err
		}
		results = append(results, c)
	}
	switch {
	case abandoned:
		return &message.UserInterrupt{EventHeader: h}, nil
	case results != nil:
		return &message.UserConfirmResult{EventHeader: h, ConfirmResults: results}, nil
	}
	return nil, nil
}
