package blockstream

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// request is an approval_request and its outcome.
type request struct {
	Asked
	open      bool
	expired   bool // a call in it ended without a response
	decisions []*Decision
}

// callKey identifies a call within the session.
type callKey struct {
	reply message.ReplyID
	call  message.CallID
}

// requestList holds the approval requests: the open ones, and the last closed ones.
type requestList struct {
	asked   []*request
	pending map[callKey]*place
}

func newRequestList() requestList { return requestList{pending: map[callKey]*place{}} }

func (l *requestList) clone() requestList {
	out, copies := newRequestList(), map[*request]*request{}
	for _, r := range l.asked {
		c := *r
		c.decisions = slices.Clone(r.decisions)
		copies[r], out.asked = &c, append(out.asked, &c)
	}
	for key, p := range l.pending {
		if c := copies[p.req]; c != nil {
			out.pending[key] = &place{c, p.i}
		}
	}
	return out
}

// place is an undecided call of a request.
type place struct {
	req *request
	i   int
}

// maxClosed bounds how many approvals are remembered after their end, so that a late
// response gets a precise error.
const maxClosed = 256

// ask shows the approval request of one event. A request about an earlier turn is shown in
// the open turn, because approval requests must reach people.
func (m *Mapper) ask(e *message.RequireUserConfirm) {
	if len(e.ToolCalls) == 0 {
		m.skip(e, "it asks about no call")
		return
	}
	a := m.askedOf(e)
	if old := m.requests.find(a.Key); old != nil {
		if old.open {
			m.skip(e, "it was already asked")
			return
		}
		m.requests.asked = slices.DeleteFunc(m.requests.asked, func(r *request) bool { return r == old }) // edits came back to it
	}
	if m.turn == nil || m.turn.reply != e.Reply {
		if m.turn == nil || !slices.Contains(m.over, e.Reply) {
			m.endTurn(e.CreatedAt)
			m.begin(e.Reply, e.CreatedAt)
		}
	}
	for i, c := range a.Calls {
		if old := m.requests.pending[callKey{c.Reply, c.Call}]; old != nil {
			m.decide(old, Decision{Type: DecisionReject, Message: "The approval request was asked again."}, e.CreatedAt, true)
		}
		if m.turn.reply == e.Reply {
			m.turn.replaceCall(&e.ToolCalls[i])
		}
	}
	m.show(m.requests.remember(a))
}

func (m *Mapper) askedOf(e *message.RequireUserConfirm) Asked {
	a := Asked{Session: m.cfg.Session, MessageID: e.Reply, Calls: make([]AskedCall, len(e.ToolCalls))}
	asked, timed := m.time(e.CreatedAt)
	for i, b := range e.ToolCalls {
		c := AskedCall{
			Key:  toolcall.Key{Space: m.cfg.Space, Session: m.cfg.Session, Reply: e.Reply, Call: b.ID},
			Tool: b.Name, Input: b.Input, SuggestedRules: slices.Clone(b.SuggestedRules),
		}
		if m.cfg.OpenRequest != nil {
			q := m.cfg.OpenRequest(c.Key, b.Name, b.Input)
			c.Digest, c.Text = q.Digest, q.Text
			if timed {
				a.limit(q.Deadline, asked)
			}
		}
		a.Calls[i] = c
	}
	a.Key = approvalKey(m.cfg.Session, e.ID, a.Calls)
	return a
}

// remember opens a request.
func (l *requestList) remember(a Asked) *request {
	r := &request{Asked: a, open: true, decisions: make([]*Decision, len(a.Calls))}
	l.asked = append(l.asked, r)
	closed := 0
	for _, o := range l.asked {
		if !o.open {
			closed++
		}
	}
	if closed > maxClosed {
		i := slices.IndexFunc(l.asked, func(o *request) bool { return !o.open })
		l.asked = slices.Delete(l.asked, i, i+1)
	}
	for i, c := range a.Calls {
		l.pending[callKey{c.Reply, c.Call}] = &place{r, i}
	}
	return r
}

// show sends the block and stops it at once, because clients show a card only then.
func (m *Mapper) show(r *request) {
	if m.hidden[r.Key] {
		return
	}
	start, delta := r.frames()
	m.block(start, delta)
}

// resolve applies what an event says about calls with an approval request, in any turn.
func (m *Mapper) resolve(e message.Event) {
	switch e := e.(type) {
	case *message.UserConfirmResult:
		for i := range e.ConfirmResults {
			r := &e.ConfirmResults[i]
			if p := m.requests.pending[callKey{e.Reply, r.ToolCall.ID}]; p != nil {
				m.applyConfirmation(e, p, r)
			}
		}
	case *message.ToolResultEnd:
		m.closeUnanswered(e, e.ToolCallID, e.State)
	case *message.ExternalExecutionResult:
		for _, r := range e.ExecutionResults {
			m.closeUnanswered(e, r.ID, r.State)
		}
	default: // says nothing about a response
	}
}

// applyConfirmation applies a response. The call is shown as it will run.
func (m *Mapper) applyConfirmation(e *message.UserConfirmResult, p *place, r *message.ConfirmResult) {
	if m.turn != nil && m.turn.reply == e.Reply && r.Confirmed {
		b := r.ToolCall
		b.Name = p.req.Calls[p.i].Tool // a response may change arguments, never the tool
		m.turn.replaceCall(&b)
	}
	m.decide(p, p.req.decision(p.i, r), e.CreatedAt, false)
}

// closeUnanswered closes the approval request of a call that ended without a response: it
// expired, or the reply was interrupted.
func (m *Mapper) closeUnanswered(e message.Event, id message.CallID, state message.ToolResultState) {
	p := m.requests.pending[callKey{e.ReplyID(), id}]
	if p == nil {
		return
	}
	d := Decision{Type: DecisionReject, Message: "It ended without a response."}
	if state == message.ToolResultSuccess {
		d = Decision{Type: DecisionApprove} // allowed by a decision that has no event
	}
	m.decide(p, d, e.Header().CreatedAt, true)
}

func (r *request) decision(i int, c *message.ConfirmResult) Decision {
	switch {
	case !c.Confirmed:
		return Decision{Type: DecisionReject}
	case c.ToolCall.Input != r.Calls[i].Input && isObject(c.ToolCall.Input):
		return Decision{Type: DecisionEdit, Edited: &EditedAction{Name: r.Calls[i].Tool, Args: message.RawJSON(c.ToolCall.Input)}}
	default:
		return Decision{Type: DecisionApprove}
	}
}

// decide records one decision. After the last one of a request the result is announced, if a
// turn is open.
func (m *Mapper) decide(p *place, d Decision, at string, unanswered bool) {
	c := p.req.Calls[p.i]
	d.ToolUseID, d.DecidedAt = c.Call, at
	if m.cfg.DecidedBy != nil && !unanswered {
		d.DecidedBy = m.cfg.DecidedBy(c.Key)
	}
	p.req.decisions[p.i] = &d
	p.req.expired = p.req.expired || unanswered
	delete(m.requests.pending, callKey{c.Reply, c.Call})
	list := make([]Decision, 0, len(p.req.decisions))
	for _, d := range p.req.decisions {
		if d == nil {
			return
		}
		list = append(list, *d)
	}
	p.req.open = false
	if m.turn != nil && !m.hidden[p.req.Key] {
		m.block(&ApprovalResult{ApprovalKey: p.req.Key}, &DecisionsDelta{Decisions: list})
	}
}

func (l *requestList) find(key string) *request {
	for _, r := range l.asked {
		if r.Key == key {
			return r
		}
	}
	return nil
}

// Responses turns an approval command into responses; see [Asked.Responses]. The mapper's
// own state changes only with the events that result from them.
func (m *Mapper) Responses(c *Approval) ([]toolcall.Response, error) {
	r, err := m.requests.findMeant(c)
	if err != nil {
		return nil, err
	}
	return r.Responses(c)
}

// findMeant finds the approval that a command refers to. Without a key that is the session's only
// one: a duplicate of the response to an earlier request must not count for a later one.
func (l *requestList) findMeant(c *Approval) (*request, error) {
	r := l.find(c.Key)
	switch {
	case c.Key == "" && len(l.asked) == 0:
		return nil, message.Errorf(message.CodeNotFound, "submit_response", "%w", ErrNoApproval)
	case c.Key == "" && len(l.asked) > 1:
		return nil, message.Errorf(message.CodeInvalid, "submit_response", "%w", ErrWhichApproval)
	case c.Key == "":
		r = l.asked[0]
	}
	switch {
	case r == nil:
		return nil, message.Errorf(message.CodeNotFound, "submit_response", "%w: %.100q", ErrUnknownApproval, c.Key)
	case r.open:
		return r, nil
	case r.expired:
		return nil, message.Errorf(message.CodeFinished, "submit_response", "%w: %.100q", ErrApprovalExpired, r.Key)
	default:
		return nil, message.Errorf(message.CodeFinished, "submit_response", "%w: %.100q", ErrApprovalResolved, r.Key)
	}
}

// Asked is one approval_request as it was first sent. Positional decisions depend on the
// order of its calls: store it as it is (it is plain JSON) and never compute it again.
type Asked struct {
	Key            string            `json:"approval_key"`
	Session        message.SessionID `json:"session_id"`
	MessageID      message.ReplyID   `json:"message_id"`
	Calls          []AskedCall       `json:"calls"`
	TimeoutSeconds int64             `json:"timeout_seconds,omitzero"` // as sent to the client
}

// AskedCall is one call of an approval_request: exactly what the person saw, and the digest
// of that approval request.
type AskedCall struct {
	toolcall.Key
	Tool           string                   `json:"tool_name"`
	Input          string                   `json:"input"`
	Digest         string                   `json:"digest,omitzero"`
	Text           string                   `json:"text,omitzero"`
	SuggestedRules []message.PermissionRule `json:"suggested_rules,omitzero"`
}

// FromCall makes the approval_request for a call of the engine that is asking, for
// [Mapper.Resend], however old it is. It has the same key as the one made from the event of
// the approval request, if Config.Request knows its digest. The time limit counts from now.
func FromCall(c *toolcall.Call, now time.Time) (Asked, error) {
	if c == nil || c.State != message.ToolCallAsking || c.Request == nil || c.Digest == "" {
		return Asked{}, message.Errorf(message.CodeState, "ask", "there is no call with an open approval request")
	}
	if !isObject(c.Input) {
		return Asked{}, message.Errorf(message.CodeInvalid, "ask", "%w: call %s", ErrUnshowable, c.Key)
	}
	a := Asked{Session: c.Session, MessageID: c.Reply, Calls: []AskedCall{{
		Key: c.Key, Tool: c.Tool, Input: c.Input, Digest: c.Digest, Text: c.RequestText(), SuggestedRules: slices.Clone(c.Suggested),
	}}}
	a.limit(c.Request.Requirement.Ends(), now)
	a.Key = approvalKey(a.Session, "", a.Calls)
	return a, nil
}

// limit sets the time limit to the earliest deadline, at least one second.
func (a *Asked) limit(deadline, now time.Time) {
	if deadline.IsZero() {
		return
	}
	left := max(1, int64(deadline.Sub(now).Seconds()))
	if a.TimeoutSeconds == 0 || left < a.TimeoutSeconds {
		a.TimeoutSeconds = left
	}
}

// approvalKey identifies an approval request: by the session and, where the original uses a
// count, a number from a hash of what is asked: of the digests or, if they are unknown, of
// the event and the calls. A count would differ after a restart or with another retention,
// and an old card would then answer another approval request.
func approvalKey(session message.SessionID, event string, calls []AskedCall) string {
	h := sha256.New()
	part := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	part("askance-approval-v1")
	if slices.ContainsFunc(calls, func(c AskedCall) bool { return c.Digest == "" }) {
		part(event)
	}
	for _, c := range calls {
		part(c.String())
		part(c.Tool)
		part(c.Input)
		part(c.Digest)
	}
	const bits = 62 // fits into the signed integers of all client languages
	number := binary.BigEndian.Uint64(h.Sum(nil)) >> (64 - bits)
	return string(session) + "_" + strconv.FormatUint(number, 10)
}

// frames returns the block's start, delta and stop, readable in either form.
func (a *Asked) frames() (*ApprovalRequest, *ApprovalDelta) {
	actions := make([]Action, len(a.Calls))
	configs := make([]ReviewConfig, len(a.Calls))
	for i, c := range a.Calls {
		actions[i] = Action{
			Name: c.Tool, Args: message.RawJSON(c.Input), ToolUseID: c.Call,
			Description: c.Text, SuggestedRules: c.SuggestedRules,
		}
		configs[i] = ReviewConfig{RequireApproval: true, Timeout: a.TimeoutSeconds}
	}
	return &ApprovalRequest{ApprovalKey: a.Key, Actions: actions, ReviewConfigs: configs},
		&ApprovalDelta{Actions: actions, ReviewConfigs: configs, TimeoutSeconds: a.TimeoutSeconds}
}
