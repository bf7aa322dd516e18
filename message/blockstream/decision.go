package blockstream

import (
	"reflect"
	"slices"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/wire"
)

// DecisionType is a person's decision about one action.
type DecisionType string

// The decisions. The first three are LangChain's; respond, which only some of its releases
// support, supplies the result in place of the tool.
const (
	DecisionApprove DecisionType = "approve"
	DecisionEdit    DecisionType = "edit"
	DecisionReject  DecisionType = "reject"
	DecisionRespond DecisionType = "respond"
)

// Decision is one item of an approval command and of an approval_result.
type Decision struct {
	Type DecisionType `json:"type" wire:"required"`
	// ToolUseID identifies the action; without it the item's index does.
	ToolUseID message.CallID `json:"tool_use_id" wire:"omit,null"`
	// Edited, with edit, replaces the arguments.
	Edited *EditedAction `json:"edited_action" wire:"omit"`
	// Message, with reject, is shown to the model; with respond it is the result.
	Message string `json:"message" wire:"omit,null"`
	// DecidedBy and DecidedAt are our extensions, only for results: a command that contains
	// them is refused, because the connection determines who decides.
	DecidedBy string   `json:"decided_by" wire:"omit,null"`
	DecidedAt string   `json:"decided_at" wire:"omit,null"`
	_         struct{} `wire:"closed"`
}

// EditedAction is the call as changed by a person. Name is optional, but must be the tool's.
type EditedAction struct {
	Name string          `json:"name" wire:"omit,null"`
	Args message.RawJSON `json:"args" wire:"object,empty,null"`
	_    struct{}        `wire:"closed"`
}

// spokenDecision is an item of a command in the form that clients send. Unknown members are
// refused, because they may restrict the approval.
type spokenDecision struct {
	Type      DecisionType    `json:"type" wire:"required,or=decision"`
	ToolUseID *message.CallID `json:"tool_use_id"`
	Edited    *spokenAction   `json:"edited_action" wire:"or=editedAction"`
	Args      message.RawJSON `json:"args" wire:"object,null"`
	Message   string          `json:"message" wire:"null"`
	_         struct{}        `wire:"closed"`
}

type spokenAction struct {
	Name string          `json:"name" wire:"null"`
	Args message.RawJSON `json:"args" wire:"required,object,or=arguments"`
	_    struct{}        `wire:"closed"`
}

// readDecision reads an item of a command: a plain string or an object.
func readDecision(r *wire.Reader, raw []byte, v reflect.Value) error {
	d := v.Addr().Interface().(*Decision)
	if strictjson.KindOf(raw) == "string" {
		word, err := strictjson.Text(raw)
		if err != nil {
			return err
		}
		*d = Decision{Type: DecisionType(word)}
		return d.check()
	}
	var in spokenDecision
	if err := r.Read(raw, &in); err != nil {
		return err
	}
	*d = Decision{Type: in.Type, Message: in.Message}
	switch {
	case in.ToolUseID != nil && *in.ToolUseID == "":
		return strictjson.Wrong(strictjson.ErrType, "tool_use_id is empty")
	case in.Edited != nil && in.Args != nil:
		return strictjson.Wrong(strictjson.ErrDuplicateName, "both edited_action and args")
	case in.Edited != nil:
		d.Edited = &EditedAction{Name: in.Edited.Name, Args: in.Edited.Args}
	case in.Args != nil:
		d.Edited = &EditedAction{Args: in.Args}
	}
	if in.ToolUseID != nil {
		d.ToolUseID = *in.ToolUseID
	}
	return d.check()
}

// check refuses ambiguous combinations.
func (d Decision) check() error {
	switch {
	case !slices.Contains(words[reflect.TypeFor[DecisionType]()], string(d.Type)):
		return strictjson.Wrong(strictjson.ErrType, "%.60q is not one of approve, edit, reject, respond", string(d.Type))
	case d.Type == DecisionEdit && d.Edited == nil:
		return strictjson.Wrong(strictjson.ErrMissingMember, "%q of an edit", "edited_action")
	case d.Type != DecisionEdit && d.Edited != nil:
		return strictjson.Wrong(strictjson.ErrType, "%s with changed arguments; use edit to change them", d.Type)
	case d.Message != "" && (d.Type == DecisionApprove || d.Type == DecisionEdit):
		return strictjson.Wrong(strictjson.ErrType, "%s with a message, which is never read", d.Type)
	case d.Type == DecisionRespond && d.Message == "":
		return strictjson.Wrong(strictjson.ErrMissingMember, "%q of a respond", "message")
	}
	return nil
}
