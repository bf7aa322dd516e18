package api

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

const callPath = "/v1/calls/{session_id}/{reply_id}/{tool_call_id}"

// maxLook bounds how many calls one filtered page looks through.
const maxLook = 5000

var listParams = []param{
	{Name: "session_id", Type: "string", Doc: "Only calls of this session."},
	{Name: "reply_id", Type: "string", Doc: "Only calls of this reply."},
	{Name: "tool_call_id", Type: "string", Doc: "Only calls with this id."},
	{Name: "tool_name", Type: "string", Doc: "Only calls of this tool."},
	{Name: "agent", Type: "string", Doc: "Only calls of this agent."},
	{Name: "state", Type: "string", Many: true, Doc: "Only calls in one of these states; may be repeated.", Words: []string{"pending", "asking", "allowed", "submitted", "finished"}},
	{Name: "held", Type: "boolean", Doc: "Only calls that wait for an operator to settle them."},
	{Name: "all", Type: "boolean", Doc: "Finished calls, too."},
	{Name: "after", Type: "integer", Doc: "The cursor: next of the page before."},
	{Name: "limit", Type: "integer", Doc: "The size of the page; default and maximum 500."},
}

func callOps(keep *kept) []*op {
	return []*op{
		get(op{id: "listCalls", path: "/v1/calls", tag: "calls", roles: asReader, params: listParams,
			summary: "List calls", doc: "In the order in which they were proposed. Without all, only open ones. A filtered page can be short, or empty, and have a next all the same: go on until there is none."}, listCalls),
		stream(op{id: "watchCalls", path: "/v1/calls/stream", tag: "calls", roles: asOverseer, params: watchParams,
			summary: "Watch calls", doc: "A stream of server-sent events: first one event named call for each open call, then ready, then call for each change and progress for each progress line (which can come before the change that it follows). When it breaks, or ends with behind, connect again: the open calls come anew."}, watch),
		get(op{id: "showCall", path: callPath, tag: "calls", roles: asReader,
			summary: "Show a call", doc: "Its present state, its history, and what its open question waits for."}, show),
		post[AnswerBody](op{id: "answerCall", path: callPath + "/answer", tag: "calls", roles: asApprover,
			summary: "Answer an open question", doc: "approve (with edited arguments if input is there), reject, answer for the tool, abstain or hand over. An answer to another digest than the open question's is refused with the present call: look again."}, keep, answer),
		post[ReasonBody](op{id: "revokeCall", path: callPath + "/revoke", tag: "calls", roles: asRevoker,
			summary: "Take back an approval", doc: "Possible until a worker has started the call."}, keep, revoke),
		post[SettleBody](op{id: "settleCall", path: callPath + "/settle", tag: "calls", roles: asOperator,
			summary: "Settle a held call", doc: "Says what became of a call whose outcome is not known, that nobody took, or whose attempts were all lost."}, keep, settle),
		post[ResultBody](op{id: "reportResult", path: callPath + "/result", tag: "calls", roles: asReporter, takes: takeResult, gives: giveCall,
			summary: "Report the result of an external call", doc: "By the runtime that runs it."}, keep, report),
		get(op{id: "explainCall", path: callPath + "/explain", tag: "calls", roles: asOverseer,
			summary: "Explain a decision", doc: "How the call was decided when it was proposed, and how the policy in force decides it now."}, explain),
	}
}

// listCalls reads one page. What the engine does not filter is filtered here.
func listCalls(a *ask) (message.ListReply, error) {
	q := a.q
	r := message.ListRequest{
		Session: message.SessionID(q.text("session_id")), Reply: message.ReplyID(q.text("reply_id")), Call: message.CallID(q.text("tool_call_id")),
		Held: q.is("held"), All: q.is("all"), After: q.number("after"), Limit: q.count("limit"),
	}
	for _, s := range q.texts("state") {
		r.States = append(r.States, message.ToolCallState(s))
	}
	out, err := listPage(a, r)
	if err != nil {
		return out, err
	}
	for _, c := range out.Calls {
		if w, ok := c.Waiting(); ok {
			out.Waiting = append(out.Waiting, w)
		}
	}
	if out.Next != 0 {
		next := *a.r.URL
		values := next.Query()
		values.Set("after", strconv.FormatUint(out.Next, 10))
		a.w.Header().Set("Link", "<"+(&url.URL{Path: next.Path, RawQuery: values.Encode()}).String()+`>; rel="next"`)
	}
	return out, nil
}

func listPage(a *ask, r message.ListRequest) (message.ListReply, error) {
	tool, agent := a.q.text("tool_name"), a.q.text("agent")
	if tool == "" && agent == "" {
		return a.c.List(a.ctx(), r)
	}
	want := r.Limit
	if want <= 0 || want > 500 {
		want = 500
	}
	r.Limit = 0
	out := message.ListReply{Calls: []*message.Call{}}
	for looked := 0; looked < maxLook; {
		page, err := a.c.List(a.ctx(), r)
		if err != nil {
			return message.ListReply{}, err
		}
		for _, c := range page.Calls {
			if tool != "" && c.Tool != tool || agent != "" && c.Agent != agent {
				continue
			}
			if len(out.Calls) == want {
				out.Next = out.Calls[want-1].First
				return out, nil
			}
			out.Calls = append(out.Calls, c)
		}
		looked += len(page.Calls)
		if out.Next = page.Next; page.Next == 0 {
			break
		}
		r.After = page.Next
	}
	return out, nil
}

func show(a *ask) (message.ShowReply, error) {
	out, err := a.c.Show(a.ctx(), message.ShowRequest{Key: a.key()})
	if err == nil && out.Call != nil {
		if w, ok := out.Call.Waiting(); ok {
			out.Waiting = &w
		}
	}
	return out, err
}

func answer(a *ask, in AnswerBody) (*message.Call, error) {
	ans := message.Answer{
		Key: a.key(), Digest: in.Digest, Kind: in.Kind, Input: in.Input, Feedback: in.Feedback, Output: in.Output,
		Note: in.Note, To: in.To, Signature: in.Signature, Rules: in.Rules, Remember: in.Remember,
	}
	c, err := a.c.Answer(a.ctx(), ans)
	if err != nil && a.r.Header.Get("Idempotency-Key") != "" {
		if e := message.AsError(a.op.id, err); recorded(e.Call, a.p.Name, ans) {
			return e.Call, nil // it was carried out before what is remembered begins
		}
	}
	return c, err
}

// recorded reports whether this very answer is among the call's votes.
func recorded(c *message.Call, name string, a message.Answer) bool {
	return c != nil && slices.ContainsFunc(c.Votes, func(v message.Vote) bool {
		return v.By.Role == message.RoleApprover && v.By.Name == name && v.Digest == a.Digest && v.Kind == a.Kind &&
			v.Feedback == a.Feedback && v.Note == a.Note && v.To == a.To &&
			(a.Input == nil && !v.Edited || a.Input != nil && c.Input == *a.Input)
	})
}

func revoke(a *ask, in ReasonBody) (*message.Call, error) {
	return a.c.Revoke(a.ctx(), message.RevokeRequest{Key: a.key(), Reason: in.Reason})
}

func settle(a *ask, in SettleBody) (*message.Call, error) {
	return a.c.Settle(a.ctx(), message.SettleRequest{Key: a.key(), Attempt: in.Attempt, Outcome: in.Outcome, Output: in.Output, Note: in.Note})
}

func report(a *ask, in ResultBody) (*message.Call, error) {
	return a.c.Report(a.ctx(), message.ReportRequest{Key: a.key(), Result: in.Result})
}

func explain(a *ask) (message.ExplainReply, error) {
	return a.c.Explain(a.ctx(), message.ExplainRequest{V: 1, Key: a.key()})
}

var _ engine.Client // the operations are its methods, one for one
