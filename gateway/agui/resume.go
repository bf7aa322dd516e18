package agui

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// standing is the state of a thread's interrupts: the records show what was asked, the calls show
// the outcomes.
type standing struct {
	parks parks
	calls map[message.CallID]*toolcall.Call // of the last park's reply
}

// readStanding reads the state of a thread's interrupts. c is the engine for the thread's owner.
func readStanding(ctx context.Context, c engine.Client, t *thread) (*standing, error) {
	st := &standing{parks: t.parks, calls: map[message.CallID]*toolcall.Call{}}
	last := t.parks.last()
	if last == nil {
		return st, nil
	}
	all, err := engine.ListAll(ctx, c, toolcall.ListRequest{Session: t.session, Reply: last.Reply, All: true}, 0)
	if err != nil {
		return nil, err
	}
	for _, call := range all {
		st.calls[call.Call] = call
	}
	return st, nil
}

// asking returns the call that an interrupt of the last park asked about, if exactly that
// approval request is still open.
func (st *standing) asking(a asked) *toolcall.Call {
	c := st.calls[a.Call]
	if c == nil || c.State != message.ToolCallAsking || c.Digest != a.Digest {
		return nil
	}
	return c
}

// thread returns the standing in the form that the codec accepts.
func (st *standing) thread() wire.Thread {
	out := wire.Thread{Settled: map[string]wire.ResumeEntry{}}
	for _, p := range st.parks {
		for _, a := range p.Asked {
			out.Settled[a.ID] = wire.ResumeEntry{InterruptID: a.ID}
		}
	}
	if st.parks.last() == nil {
		return out
	}
	for _, a := range st.parks.last().Asked {
		c := st.asking(a)
		in := wire.Interrupt{ID: a.ID, Reason: wire.ReasonExternal}
		if c != nil {
			in.Reason, in.ResponseSchema = wire.ReasonToolCall, responseSchema(len(c.Suggested) > 0)
		}
		if a.Expires != "" {
			in.ExpiresAt = &a.Expires
		}
		if call := st.calls[a.Call]; c != nil || a.Digest == "" && call != nil && call.Open() { // a worker may still be busy
			delete(out.Settled, a.ID) // an approval request keeps its id while it is open
		}
		out.Open = append(out.Open, in)
	}
	return out
}

// isAnswered returns a function that reports whether an entry responds to an interrupt of a park.
func isAnswered(entries []wire.ResumeEntry) func(*park) bool {
	return func(p *park) bool {
		return slices.ContainsFunc(entries, func(e wire.ResumeEntry) bool {
			_, ok := p.find(e.InterruptID)
			return ok
		})
	}
}

// resume checks the entries of a run. again means that they repeat those of an earlier run whose
// reply the client may have lost: nothing is to be done, and what is open is asked again.
func (st *standing) resume(entries []wire.ResumeEntry, now time.Time) (r *wire.Resumption, again bool, err error) {
	if of := isAnswered(entries); slices.ContainsFunc(st.parks, of) && !of(st.parks.last()) {
		return &wire.Resumption{Replayed: entries}, true, nil
	}
	if err := st.refuseLate(entries); err != nil {
		return nil, false, err
	}
	r, err = st.thread().Resume(entries, now)
	return r, false, err
}

// refuseLate refuses responses to approval requests that expired.
func (st *standing) refuseLate(entries []wire.ResumeEntry) error {
	for _, e := range entries {
		if st.parks.last() == nil || e.Status != wire.ResumeResolved {
			continue
		}
		a, ok := st.parks.last().find(e.InterruptID)
		if c := st.calls[a.Call]; ok && c != nil && c.Digest == a.Digest && c.Cause == string(toolcall.CauseExpire) {
			return &wire.RefusalError{Code: wire.CodeInterruptExpired, Interrupt: e.InterruptID, What: "it expired; it can only be cancelled"}
		}
	}
	return nil
}

// settled is the outcome of an interrupt that others, or the deadline, decided.
type settled struct {
	Interrupt string
	Call      message.CallID
	Cause     string // of the call, or the kind of the answer
	By        string
	Auth      string // how the name of By was established
}

// members returns the value of the CUSTOM event that reports it.
func (s settled) members() map[string]any {
	out := map[string]any{"interruptId": s.Interrupt, "toolCallId": string(s.Call), "cause": s.Cause}
	if s.By != "" {
		out["by"], out["auth"] = s.By, s.Auth
	}
	return out
}

// listOvertaken returns the outcomes that the entries contradict.
func (st *standing) listOvertaken(entries []wire.ResumeEntry) []settled {
	var out []settled
	for _, e := range entries {
		for _, p := range st.parks {
			a, ok := p.find(e.InterruptID)
			c := st.calls[a.Call]
			if !ok || a.Digest == "" || c == nil || st.asking(a) != nil {
				continue
			}
			s := settled{Interrupt: a.ID, Call: a.Call, Cause: c.Cause}
			v := lastDecision(c, a.Digest)
			if v != nil {
				s.Cause, s.By, s.Auth = string(v.Kind), v.By.Name, v.By.Auth
			}
			if !agrees(e, v, c) {
				out = append(out, s)
			}
			break // another run of the thread may have recorded the same interrupt
		}
	}
	return out
}

// lastDecision returns the vote that decided an approval request, or nil if there is none.
func lastDecision(c *toolcall.Call, digest string) *toolcall.Vote {
	for _, v := range slices.Backward(c.Votes) {
		if v.Digest == digest && v.Kind != toolcall.ResponseSkip && v.Kind != toolcall.ResponseDelegate {
			return &v
		}
	}
	return nil
}

// agrees reports whether an entry matches the decision.
func agrees(e wire.ResumeEntry, v *toolcall.Vote, c *toolcall.Call) bool {
	if v == nil {
		return e.Status == wire.ResumeCancelled && c.Cause == string(toolcall.CauseInterrupt)
	}
	if e.Status == wire.ResumeCancelled {
		return v.Kind == toolcall.ResponseReject
	}
	said, err := readApproval(e)
	if err != nil || said.Approved != (v.Kind == toolcall.ResponseApprove) || v.Kind == toolcall.ResponseRespond {
		return false
	}
	if !said.Approved {
		return true
	}
	if said.Edited == nil {
		return !v.Edited
	}
	return jcs.Equal(said.Edited, []byte(c.Input))
}

// approvalText is the part of a response that says whether and with which arguments a call may run.
type approvalText struct {
	Approved bool            `json:"approved"`
	Edited   message.RawJSON `json:"editedArgs"`
}

func readApproval(e wire.ResumeEntry) (said approvalText, err error) {
	return said, strictjson.UnmarshalOpen(e.Payload, &said)
}

// noteApprovals notes the calls of a reply that the client's responses approve. A repeated response
// counts too: the process can have ended before it delivered the results that came with the first one.
func (r *run) noteApprovals(all parks, reply message.ReplyID) {
	for _, e := range r.in.Resume {
		said, err := readApproval(e)
		if err != nil || !said.Approved || e.Status != wire.ResumeResolved {
			continue
		}
		for _, p := range all {
			if a, ok := p.find(e.InterruptID); ok && a.Digest != "" && p.Reply == reply {
				r.approved[a.Call] = &approvedCall{edited: said.Edited}
			}
		}
	}
}

// answer submits the responses of a run and stops at the first that is refused. If another
// person was faster, their decision stands.
func (r *run) answer(ctx context.Context, st *standing, res *wire.Resumption) error {
	if len(res.Answers) == 0 {
		return nil
	}
	if !slices.ContainsFunc(res.Answers, func(a wire.Response) bool { return !a.Abandoned }) {
		_, err := r.owner.Interrupt(ctx, toolcall.InterruptRequest{Session: r.session, Reply: st.parks.last().Reply, Reason: r.peer.Name + " cancelled what was asked"})
		return err
	}
	var responses []toolcall.Response
	requests := map[message.CallID]asked{}
	for _, a := range res.Answers {
		q, _ := st.parks.last().find(a.Interrupt.ID)
		if q.Digest != "" { // else a worker is busy: continue and check again
			responses, requests[q.Call] = append(responses, answerTo(st.calls[q.Call], q, a)), q
		}
	}
	if len(responses) == 0 {
		return nil
	}
	approver, err := r.peer.As(toolcall.RoleApprover)
	if err != nil {
		return err
	}
	engine.OrderResponses(ctx, approver, responses)
	for _, resp := range responses {
		q := requests[resp.Call]
		r.answered[q.ID] = true
		_, err = approver.SubmitResponse(ctx, resp)
		if isOvertaken(err) {
			delete(r.answered, q.ID)
			if c := toolcall.CallOf(err); c != nil { // so that the client learns the outcome
				st.calls[q.Call] = c
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// isOvertaken reports whether a response had no effect because another came first.
func isOvertaken(err error) bool {
	overtaken := []error{message.ErrFinished, message.ErrState, message.ErrDigest, message.ErrConflict}
	return slices.ContainsFunc(overtaken, func(target error) bool { return errors.Is(err, target) })
}

// answerTo returns the response to the approval request that the interrupt put. The call and not
// the record determines whether it is an edit: the runtime writes the record, and readers who may
// not see redacted values can read it.
func answerTo(c *toolcall.Call, q asked, a wire.Response) toolcall.Response {
	out := toolcall.Response{Key: c.Key, Kind: toolcall.ResponseReject, Digest: q.Digest, Feedback: a.Feedback}
	switch {
	case a.Abandoned:
		out.Feedback = "The request was cancelled."
	case a.Approved:
		out.Kind, out.Feedback, out.Rules = toolcall.ResponseApprove, "", a.Rules
		if a.Edited != nil && !jcs.Equal(a.Edited, []byte(c.Input)) {
			edited := string(a.Edited)
			out.Input = &edited
		}
	}
	return out
}
