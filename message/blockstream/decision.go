package blockstream

import (
	"encoding/json"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/object"
)

// DecisionType is what a person decided about one action.
type DecisionType string

// The decisions. The first three are LangChain's; respond, which only some of
// its releases know, gives the result in the tool's place.
const (
	DecisionApprove DecisionType = "approve"
	DecisionEdit    DecisionType = "edit"
	DecisionReject  DecisionType = "reject"
	DecisionRespond DecisionType = "respond"
)

// Valid reports whether t is one of the four, spelled exactly so.
func (t DecisionType) Valid() bool {
	switch t {
	case DecisionApprove, DecisionEdit, DecisionReject, DecisionRespond:
		return true
	}
	return false
}

// Decision is one item of an approval command and of an approval_result.
type Decision struct {
	Type DecisionType
	// ToolUseID names the action; without it the item's place does.
	ToolUseID message.CallID
	// Edited, with edit, replaces the arguments.
	Edited *EditedAction
	// Message, with reject, reaches the model; with respond it is the result.
	Message string
	// DecidedBy and DecidedAt are ours and in results only: a command that says
	// who decided is refused, because the connection says so.
	DecidedBy, DecidedAt string
}

// EditedAction is the call as a person changed it. Name may be left out; if it
// is there it must be the tool's.
type EditedAction struct {
	Name string
	Args message.RawJSON // an object
}

// decision reads an item of a command: a bare word or an object. It refuses what
// could be read in two ways, and unknown members, which may limit the approval.
func decision(raw []byte) (Decision, error) {
	if strictjson.KindOf(raw) == "string" {
		word, err := strictjson.Text(raw)
		d := Decision{Type: DecisionType(word)}
		if err == nil {
			err = d.check()
		}
		return d, err
	}
	r := object.Read(raw)
	r.Only("type", "decision", "tool_use_id", "edited_action", "editedAction", "args", "message")
	d := Decision{
		Type:      DecisionType(readEither(r, "type", "decision")),
		ToolUseID: message.CallID(r.TextOr("tool_use_id", "")),
		Message:   r.TextOr("message", ""),
	}
	if r.Has("tool_use_id") && d.ToolUseID == "" {
		r.Fail(strictjson.ErrType, "tool_use_id is empty")
	}
	d.Edited = readEdited(r)
	if err := r.Err(); err != nil {
		return d, err
	}
	return d, d.check()
}

// readEither reads a member that has two names and must be there under one.
func readEither(r *object.Reader, name, other string) string {
	switch a, b := r.Has(name), r.Has(other); {
	case a && b:
		r.Fail(strictjson.ErrDuplicateName, "both %q and %q", name, other)
		return ""
	case b:
		return r.Text(other)
	default:
		return r.Text(name)
	}
}

// readEdited reads the changed call, which has three spellings.
func readEdited(r *object.Reader) *EditedAction {
	var e *EditedAction
	n := 0
	for _, name := range []string{"edited_action", "editedAction"} {
		r.May(name, func(raw []byte) (err error) {
			n++
			e, err = editedAction(raw)
			return err
		})
	}
	if args := r.Raw("args", "object"); args != nil {
		n++
		e = &EditedAction{Args: args}
	}
	if n > 1 {
		r.Fail(strictjson.ErrDuplicateName, "more than one of edited_action, editedAction and args")
	}
	return e
}

func editedAction(raw []byte) (*EditedAction, error) {
	r := object.Read(raw)
	r.Only("name", "args", "arguments")
	e := &EditedAction{Name: r.TextOr("name", "")}
	args, old := r.Raw("args", "object"), r.Raw("arguments", "object")
	switch {
	case args != nil && old != nil:
		r.Fail(strictjson.ErrDuplicateName, "both args and arguments")
	case args == nil && old == nil:
		r.Fail(strictjson.ErrMissingMember, "%q", "args")
	case args == nil:
		args = old
	}
	e.Args = args
	return e, r.Err()
}

// check refuses combinations that could be meant in two ways.
func (d Decision) check() error {
	switch {
	case !d.Type.Valid():
		return strictjson.Wrong(strictjson.ErrType, "%.60q is none of approve, edit, reject, respond", string(d.Type))
	case d.Type == DecisionEdit && d.Edited == nil:
		return strictjson.Wrong(strictjson.ErrMissingMember, "%q of an edit", "edited_action")
	case d.Type != DecisionEdit && d.Edited != nil:
		return strictjson.Wrong(strictjson.ErrType, "%s with changed arguments; to change them is an edit", d.Type)
	case d.Message != "" && (d.Type == DecisionApprove || d.Type == DecisionEdit):
		return strictjson.Wrong(strictjson.ErrType, "%s with a message, which has no reader", d.Type)
	case d.Type == DecisionRespond && d.Message == "":
		return strictjson.Wrong(strictjson.ErrMissingMember, "%q of a respond", "message")
	}
	return nil
}

func appendDecision(dst []byte, d Decision) ([]byte, error) {
	if err := d.check(); err != nil {
		return dst, err
	}
	w := object.Write(dst)
	w.Text("type", string(d.Type))
	w.TextIf("tool_use_id", string(d.ToolUseID))
	if d.Edited != nil {
		w.Object("edited_action", func(w *object.Writer) {
			w.TextIf("name", d.Edited.Name)
			w.Put("args", objectOr(d.Edited.Args))
		})
	}
	w.TextIf("message", d.Message)
	w.TextIf("decided_by", d.DecidedBy)
	w.TextIf("decided_at", d.DecidedAt)
	return w.End()
}

// objectOr appends an object, {} for none.
func objectOr(raw json.RawMessage) func([]byte) ([]byte, error) {
	return func(dst []byte) ([]byte, error) {
		switch {
		case raw == nil:
			return append(dst, "{}"...), nil
		case strictjson.KindOf(raw) != "object":
			return dst, strictjson.Wrong(strictjson.ErrType, "want object")
		default:
			return object.Raw(dst, raw)
		}
	}
}
