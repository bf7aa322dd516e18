package agui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// requests are the approval requests of a reply, by call, as the mapper will send them. The end
// of the run fills in what the events do not contain.
type requests map[message.CallID]*request

type request struct {
	id        string // as the mapper made it
	block     message.ToolCallBlock
	interrupt *wire.Interrupt
}

// approve notes the arguments that people approved, which an edit may have changed, and shows them in
// a history: the client must run those.
func (r requests) approve(e message.Event, h *wire.History) {
	answer, ok := e.(*message.UserConfirmResult)
	if !ok {
		return
	}
	for _, a := range answer.ConfirmResults {
		if q := r[a.ToolCall.ID]; q != nil && a.Confirmed {
			q.block.Input = a.ToolCall.Input
			h.ShowAsked(*q.interrupt.ToolCallID, q.block.Name, q.block.Input)
		}
	}
}

// fill completes the interrupt from the current state of the call, and returns what is asked. It
// returns false if the call no longer has the approval request that was put.
func (q *request) fill(c *toolcall.Call, id string, mayRespond bool) (asked, bool) {
	out := asked{ID: id, Call: c.Call, Digest: c.Digest}
	if c.State != message.ToolCallAsking || c.Request == nil || c.Input != q.block.Input || !out.isGenuine() {
		return asked{}, false
	}
	i := q.interrupt
	i.ID = id
	w, _ := c.Waiting()
	text := cmp.Or(c.RequestText(), "Allow "+c.Tool+"?")
	if !mayRespond {
		text += " " + describeWaiting(w)
	}
	i.Message = &text
	i.ResponseSchema = responseSchema(len(c.Suggested) > 0)
	if !w.Ends.IsZero() {
		out.Expires = w.Ends.UTC().Format(time.RFC3339Nano)
		i.ExpiresAt = &out.Expires
	}
	meta, err := strictjson.Marshal(map[string]any{"askance": requestMeta{
		ToolCallID: c.Call, ToolName: c.Tool, Arguments: c.Input, Suggested: c.Suggested,
		Session: c.Session, Reply: c.Reply, Digest: c.Digest, Rule: c.Request.Rule, Reason: c.Request.Reason,
		Waiting: w.Tally, Approvals: approvalsOf(w.Tally), MayRespond: mayRespond,
	}})
	if err == nil {
		i.Metadata = meta
	}
	return out, true
}

type approval struct {
	Name string `json:"name"`
	Auth string `json:"auth"` // as toolcall.Principal has it
}

func approvalsOf(t toolcall.Tally) []approval {
	var out []approval
	for _, v := range t.Approvals {
		out = append(out, approval{v.By.Name, v.By.Auth})
	}
	return out
}

// requestMeta is metadata.askance of an interrupt.
type requestMeta struct {
	ToolCallID message.CallID           `json:"toolCallId"` // askance's id; the interrupt has the client's
	ToolName   string                   `json:"toolName"`
	Arguments  string                   `json:"arguments"` // what will run, as JSON text
	Suggested  []message.PermissionRule `json:"suggestedRules,omitzero"`
	Session    message.SessionID        `json:"sessionId"`
	Reply      message.ReplyID          `json:"replyId"`
	Digest     string                   `json:"digest"`
	Rule       string                   `json:"rule,omitzero"` // the rule that asked
	Reason     string                   `json:"reason,omitzero"`
	Waiting    toolcall.Tally           `json:"waiting"` // who must agree, and who has
	// Approvals are the approvals that count, with how each name was established.
	Approvals []approval `json:"approvals,omitzero"`
	// MayRespond reports that the reader has the role to respond and has not voted yet; Waiting
	// shows whether the rule needs them.
	MayRespond bool `json:"mayRespond"`
}

// describeWaiting says for whom an approval request waits.
func describeWaiting(w toolcall.Waiting) string {
	var who []string
	for _, p := range w.Parts {
		var of []string
		of = append(of, p.Users...)
		for _, g := range p.Groups {
			of = append(of, "the group "+g)
		}
		if p.Missing == 0 {
			continue
		}
		if len(of) == 0 {
			of = []string{"an approver"}
		}
		text := strings.Join(of, " or ")
		if p.Missing > 1 {
			text = fmt.Sprintf("%d of %s", p.Missing, text)
		}
		who = append(who, text)
	}
	if len(who) == 0 {
		who = []string{"an approver"}
	}
	return "(Waits for " + strings.Join(who, ", and for ") + ".)"
}

// responseSchema is the schema of an answer, as [wire.Answer] reads it.
func responseSchema(rules bool) message.RawJSON {
	s := `{"type":"object","properties":{"approved":{"type":"boolean"},` +
		`"editedArgs":{"type":"object","description":"with approved: true; takes the place of all arguments"},` +
		`"feedback":{"type":"string","description":"with approved: false; why not, for the model"}`
	if rules {
		s += `,"rules":{"type":"array","items":{"type":"object"},"description":"with approved: true; of the suggested rules, those to remember"}`
	}
	return message.RawJSON(s + `},"required":["approved"],"additionalProperties":false}`)
}
