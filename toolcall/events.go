package toolcall

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/askance-dev/askance/message"
)

// Events derives the AgentScope events that an event record stands for, in the order of
// AgentScope's own agent loop. The same event record always gives the same events with the
// same ids, so every reader of the journal builds the same message. Events that a person or
// another party sent (USER_CONFIRM_RESULT, USER_INTERRUPT) are included, because a reader
// needs them to build the message.
func Events(rec *EventRecord) []message.Event {
	p := projection{record: rec}
	switch {
	case rec.Note != nil:
	case rec.Call != nil:
		for _, s := range rec.Path {
			p.step(rec.Call, s)
		}
	case rec.Reply != nil:
		p.reply(rec.Reply)
	}
	return p.out
}

type projection struct {
	record *EventRecord
	out    []message.Event
}

// header makes the header of the next event, with an id derived from the event record and
// the event record's time.
func (p *projection) header(reply message.ReplyID) message.EventHeader {
	sum := sha256.Sum256(fmt.Appendf(nil, "askance-event-v1\x00%s\x00%d", p.record.ID, len(p.out)))
	return message.EventHeader{
		ID: hex.EncodeToString(sum[:16]), CreatedAt: Timestamp(p.record.At),
		Metadata: map[string]any{}, Reply: reply,
	}
}

func (p *projection) add(e message.Event) { p.out = append(p.out, e) }

func (p *projection) reply(r *ReplyState) {
	switch r.Phase {
	case ReplyOpen: // begun and ended by the runtime, which sends these events itself
		if end, err := message.DecodeEvent(p.record.End); p.record.End != nil && err == nil {
			p.add(end)
		}
	case ReplyInterrupted:
		p.add(&message.UserInterrupt{EventHeader: p.header(r.Reply)})
	case ReplyEnded:
		p.add(&message.ReplyEnd{EventHeader: p.header(r.Reply), Session: r.Session, FinishedReason: message.FinishedInterrupted})
	}
}

func (p *projection) step(c *Call, s Step) {
	cause := Cause(s.Cause)
	switch cause {
	case CauseAsk:
		p.ask(c)
	case CauseApprove, CauseEdit, CauseReject, CauseRespond:
		p.confirm(c, cause != CauseReject)
	case CauseDeny:
		if s.From == asking && len(c.Votes) > 0 && c.Votes[len(c.Votes)-1].At.Equal(c.UpdatedAt) {
			p.confirm(c, true) // an approval that came too late
		}
	case CauseSubmit:
		if c.Placement == PlaceExternal || c.Placement == PlaceRemote {
			p.add(&message.RequireExternalExecution{EventHeader: p.header(c.Reply), ToolCalls: []message.ToolCallBlock{p.block(c, submitted)}})
		}
	}
	switch {
	case s.To == allowed && s.From != allowed:
		p.start(c)
	case s.To == finished:
		if s.From != allowed && s.From != submitted {
			p.start(c)
		}
		p.result(c)
	}
}

// ask puts the approval request's digest into the event's id, because AgentScope has no
// field for it, and a frontend's confirmation contains no digest.
func (p *projection) ask(c *Call) {
	e := &message.RequireUserConfirm{EventHeader: p.header(c.Reply), ToolCalls: []message.ToolCallBlock{p.block(c, asking)}}
	e.ID = message.RequestEventID(e.ID, c.Digest)
	p.add(e)
}

// block returns the call in the form that AgentScope's REQUIRE events contain.
func (p *projection) block(c *Call, state message.ToolCallState) message.ToolCallBlock {
	b := message.ToolCallBlock{
		ID: c.Call, Name: c.Tool, Input: c.Input, State: state,
		SuggestedRules: c.Suggested, CreatedAt: Timestamp(c.ProposedAt),
	}
	if b.SuggestedRules == nil {
		b.SuggestedRules = []message.PermissionRule{}
	}
	return b
}

func (p *projection) confirm(c *Call, yes bool) {
	r := message.ConfirmResult{Confirmed: yes, ToolCall: p.block(c, asking)}
	if len(c.Remember) > 0 {
		r.Rules = c.Remember
	}
	p.add(&message.UserConfirmResult{EventHeader: p.header(c.Reply), ConfirmResults: []message.ConfirmResult{r}})
}

func (p *projection) start(c *Call) {
	p.add(&message.ToolResultStart{EventHeader: p.header(c.Reply), ToolCallID: c.Call, ToolCallName: c.Tool})
}

// result streams a finished call's output: a delta for each data block and for the texts
// between them, then the end with the state and the result's metadata. Readers join deltas
// of text without a line break, so the texts of several blocks are one delta.
func (p *projection) result(c *Call) {
	r := c.Result
	if !r.Output.IsList() {
		p.text(c, r.Output.Text)
	}
	for rest := r.Output.Blocks; len(rest) > 0; {
		if b, ok := rest[0].(*message.DataBlock); ok {
			p.data(c, b)
			rest = rest[1:]
			continue
		}
		n := slices.IndexFunc(rest, func(b message.Block) bool { return b.Type() == message.BlockData })
		if n < 0 {
			n = len(rest)
		}
		p.text(c, message.List(rest[:n]...).String())
		rest = rest[n:]
	}
	h := p.header(c.Reply)
	maps.Copy(h.Metadata, r.Metadata)
	delete(h.Metadata, "askance") // only the engine says why it denied a call
	if c.Denial.hasHints() {      // otherwise the event is exactly AgentScope's
		h.Metadata["askance"] = c.Denial.metadata()
	}
	p.add(&message.ToolResultEnd{EventHeader: h, ToolCallID: c.Call, State: r.State})
}

func (p *projection) text(c *Call, text string) {
	p.add(&message.ToolResultTextDelta{EventHeader: p.header(c.Reply), ToolCallID: c.Call, Delta: text})
}

func (p *projection) data(c *Call, b *message.DataBlock) {
	e := &message.ToolResultDataDelta{EventHeader: p.header(c.Reply), ToolCallID: c.Call, BlockID: b.ID}
	switch src := b.Source.(type) {
	case *message.Base64Source:
		e.MediaType, e.Data = src.MediaType, &src.Data
	case *message.URLSource:
		e.MediaType, e.URL = src.MediaType, &src.URL
	}
	p.add(e)
}

// ExplainRequest asks why a call was decided as it was.
type ExplainRequest struct {
	V int `json:"v,omitzero"`
	Key
}

// ExplainReply explains why a call was decided as it was, and how the current policy
// judges it.
type ExplainReply struct {
	Key
	State message.ToolCallState `json:"state"`
	// Definition and Parent are the call's.
	Definition *DefinitionRef `json:"definition,omitzero"`
	Parent     *Parent        `json:"parent,omitzero"`
	// Decision is the recorded decision; absent if the call is not decided yet.
	Decision *Decision `json:"decision,omitzero"`
	// StandingApprovals are the standing approvals that the decision relies on, in their
	// current state.
	StandingApprovals []StandingStatus `json:"standing_approvals"`
	// Recorded is the explanation recorded with the decision, in the form of Trace, if
	// rules wanted it recorded (audit: {level: full}). It contains truncated: true if it
	// was too large to be stored whole.
	Recorded message.RawJSON `json:"recorded,omitzero"`
	// Trace is how the current policy judges the call, rule by rule, in the form of
	// askance policy explain --json; its bundle shows whether that is the policy that
	// decided. Trace and Recorded are absent if they would show what was redacted;
	// Withheld then says so for Trace.
	Trace    message.RawJSON `json:"trace,omitzero"`
	Withheld string          `json:"withheld,omitzero"`
}

// StandingStatus is a standing approval with its current state.
type StandingStatus struct {
	Standing *StandingApproval `json:"standing_approval"`
	State    StandingState     `json:"state"`
	// UsesLeft is how many more calls it can answer for; absent if its uses are not
	// counted.
	UsesLeft *int `json:"uses_left,omitzero"`
}
