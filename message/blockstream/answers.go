package blockstream

import (
	"errors"
	"reflect"
	"slices"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/wire"
	"github.com/askance-dev/askance/toolcall"
)

// The reasons why an approval command has no effect. Each is wrapped in a
// [*message.Error].
var (
	ErrUnknownApproval  = errors.New("no approval has that key")
	ErrNoApproval       = errors.New("the session has no approval request")
	ErrWhichApproval    = errors.New("the command has no approval_key, and the session has had several approvals")
	ErrApprovalResolved = errors.New("the approval is already resolved")
	ErrApprovalExpired  = errors.New("the approval ended without a response")
	ErrDecisions        = errors.New("the decisions do not match the actions")
)

// Responses turns the decisions of a command into responses to the approval requests as this
// approval_request showed them, with their digests of that time. A request that has changed
// since then refuses its response. Either every decision is valid or there is an error and
// no response.
//
// Without tool_use_id, decisions are for the calls in the order in which they were sent, one
// for each. If all have a tool_use_id, their order is free and calls may be left out; those
// stay open.
func (a *Asked) Responses(c *Approval) ([]toolcall.Response, error) {
	if err := a.checkAddress(c); err != nil {
		return nil, err
	}
	places, err := a.places(c.Decisions)
	if err != nil {
		return nil, err
	}
	out := make([]toolcall.Response, len(c.Decisions))
	for i, d := range c.Decisions {
		if out[i], err = a.Calls[places[i]].answer(d); err != nil {
			return nil, decisionsError(a, "decisions[%d]: %v", i, err)
		}
	}
	return out, nil
}

// checkAddress refuses a command that names another approval, session or message.
func (a *Asked) checkAddress(c *Approval) error {
	if c.Key != "" && c.Key != a.Key || c.Session != "" && c.Session != a.Session || c.MessageID != "" && c.MessageID != a.MessageID {
		return message.Errorf(message.CodeNotFound, "submit_response", "%w: the command names another approval, session or message than %.100q", ErrUnknownApproval, a.Key)
	}
	return nil
}

func decisionsError(a *Asked, format string, args ...any) error {
	return message.Errorf(message.CodeInvalid, "answer "+a.Key, "%w: "+format, append([]any{ErrDecisions}, args...)...)
}

// places finds the call of each decision.
func (a *Asked) places(decisions []Decision) ([]int, error) {
	named := 0
	for _, d := range decisions {
		if d.ToolUseID != "" {
			named++
		}
	}
	switch {
	case len(decisions) == 0:
		return nil, decisionsError(a, "there are no decisions")
	case named == 0 && len(decisions) != len(a.Calls):
		return nil, decisionsError(a, "%d decisions for %d actions", len(decisions), len(a.Calls))
	case named != 0 && named != len(decisions):
		return nil, decisionsError(a, "%d of %d name their action: name all or none", named, len(decisions))
	}
	out := make([]int, len(decisions))
	seen := map[message.CallID]bool{}
	for i, d := range decisions {
		if named == 0 {
			out[i] = i
			continue
		}
		at, err := a.place(d.ToolUseID)
		if err != nil {
			return nil, err
		}
		if seen[d.ToolUseID] {
			return nil, decisionsError(a, "two of them are about the action %.100q", string(d.ToolUseID))
		}
		seen[d.ToolUseID], out[i] = true, at
	}
	return out, nil
}

// place finds the call with that id, which must be the only one.
func (a *Asked) place(id message.CallID) (int, error) {
	at := -1
	for i, c := range a.Calls {
		if c.Call != id {
			continue
		}
		if at >= 0 {
			return 0, decisionsError(a, "several actions have the id %.100q: send decisions in the order of the actions", string(id))
		}
		at = i
	}
	if at < 0 {
		return 0, decisionsError(a, "no action has the id %.100q", string(id))
	}
	return at, nil
}

// answer makes the response to one call. The tool never changes. Edited arguments that are
// the same JSON as the shown ones count as an approval, because clients parse and reformat
// arguments; the bytes that were asked about will run.
func (c AskedCall) answer(d Decision) (toolcall.Response, error) {
	resp := toolcall.Response{Key: c.Key, Digest: c.Digest}
	if err := d.check(); err != nil {
		return resp, err
	}
	switch d.Type {
	case DecisionApprove:
		resp.Kind = toolcall.ResponseApprove
	case DecisionEdit:
		if d.Edited.Name != "" && d.Edited.Name != c.Tool {
			return resp, message.Errorf(message.CodeForbidden, "", "the edit changes the tool from %.100q to %.100q; only arguments can be changed", c.Tool, d.Edited.Name)
		}
		resp.Kind = toolcall.ResponseApprove
		if !jcs.Equal([]byte(c.Input), d.Edited.Args) {
			input := string(d.Edited.Args)
			resp.Input = &input
		}
	case DecisionReject:
		resp.Kind, resp.Feedback = toolcall.ResponseReject, d.Message
	case DecisionRespond:
		resp.Kind, resp.Output = toolcall.ResponseRespond, d.Message
	}
	return resp, nil
}

// ErrorFrame converts an error to a frame; key is the approval that it is about, or "".
func ErrorFrame(err error, key string) *Error {
	e := *message.AsError("", err)
	e.Op = "" // internal
	f := &Error{Message: e.Error(), ApprovalKey: key, Code: codeOf(err, e.Code)}
	if e.Code == message.CodeInternal {
		f.Message = "internal error" // the details are only for our log
	}
	return f
}

func codeOf(err error, code message.Code) ErrorCode {
	switch {
	case errors.Is(err, ErrUnknownApproval), errors.Is(err, ErrNoApproval):
		return CodeApprovalUnknown
	case errors.Is(err, ErrWhichApproval):
		return CodeApprovalUnclear
	case errors.Is(err, ErrApprovalResolved):
		return CodeApprovalResolved
	case errors.Is(err, ErrApprovalExpired):
		return CodeApprovalExpired
	}
	switch code {
	case message.CodeInvalid, message.CodeTooLarge:
		return CodeInvalidCommand
	case message.CodeForbidden, message.CodeForeign:
		return CodeForbidden
	case message.CodeNotFound:
		return CodeNotFound
	case message.CodeFinished, message.CodeArchived, message.CodeState, message.CodeConflict, message.CodeInterrupted, message.CodeSuperseded:
		return CodeApprovalResolved
	case message.CodeDigest:
		return CodeApprovalChanged
	case message.CodeOverLimit:
		return CodeOverLimit
	case message.CodeFull, message.CodeForeignStream:
		return CodeFull
	case message.CodeOverloaded, message.CodeUnavailable, message.CodeUnknownOutcome, message.CodeDamaged:
		return CodeUnavailable
	}
	return CodeInternal
}

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

// CommandType is the type of a command that the client sends.
type CommandType string

// The commands. The names auth, subscribe, chat and approval come from the original
// protocol; stop, ping and pong are our extensions.
const (
	CommandAuth      CommandType = "auth"
	CommandSubscribe CommandType = "subscribe"
	CommandChat      CommandType = "chat"
	CommandStop      CommandType = "stop"
	CommandApproval  CommandType = "approval"
	CommandPing      CommandType = "ping"
	CommandPong      CommandType = "pong"
)

// Command is one JSON object that the client sends in its own text frame. The set is closed:
// a pointer to one of the structs below. [CommandTypeOf] returns its type.
//
//sumtype:decl
type Command interface{ isCommand() }

// Auth contains the token, in reply to connected.
type Auth struct {
	Token string `json:"token" wire:"required"`
}

// Subscribe asks for a session's frames after LastEventID, or for all of them if it is "".
type Subscribe struct {
	Session     message.SessionID `json:"session_id" wire:"required"`
	LastEventID string            `json:"last_event_id" wire:"omit,null"`
}

// Chat is a person's message. The text is sent as message; content and text are accepted
// too.
type Chat struct {
	Session     message.SessionID `json:"session_id" wire:"omit,null"` // "" for a new one
	Text        string            `json:"message" wire:"null,or=content text"`
	ContentURLs []string          `json:"content_urls" wire:"omitempty,null,most=64"`
}

// Stop ends the running turn.
type Stop struct {
	Session   message.SessionID `json:"session_id" wire:"omit,null"`
	MessageID message.ReplyID   `json:"message_id" wire:"omit,null"`
}

// Approval answers an approval_request. Only Decisions is required; a key is needed if more
// than one request is open.
type Approval struct {
	Key       string            `json:"approval_key" wire:"omit,null"`
	Session   message.SessionID `json:"session_id" wire:"omit,null"`
	MessageID message.ReplyID   `json:"message_id" wire:"omit,null"`
	Decisions []Decision        `json:"decisions" wire:"null,most=256"`
	_         struct{}          `wire:"closed"`
}

// PingCommand asks for a pong.
type PingCommand struct{}

// PongCommand answers a ping.
type PongCommand struct{}

func (*Auth) isCommand()        {}
func (*Subscribe) isCommand()   {}
func (*Chat) isCommand()        {}
func (*Stop) isCommand()        {}
func (*Approval) isCommand()    {}
func (*PingCommand) isCommand() {}
func (*PongCommand) isCommand() {}
