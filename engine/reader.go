package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/askance-dev/askance/engine/internal/approve"
	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// reader answers requests that change nothing.
type reader struct {
	*core
	batches   *batches
	responses *approve.Responses
	folding   chan struct{} // one request at a time reads the whole journal
}

// maxList is the largest page of List.
const maxList = 500

func (q *reader) listCalls(ctx context.Context, by toolcall.Principal, r toolcall.ListRequest) (out toolcall.ListReply, err error) {
	if r.Limit <= 0 || r.Limit > maxList {
		r.Limit = maxList
	}
	if r.Session == "" && len(r.Sessions) == 1 {
		r.Session = r.Sessions[0]
	}
	if err := checkFilters(r); err != nil {
		return out, err
	}
	if r.Newest {
		return q.listNewest(ctx, by, r)
	}
	list, err := q.newList(ctx, by, r)
	if err != nil {
		return out, err
	}
	session := toolcall.Key{Space: q.space, Session: r.Session}
	switch wantsFinished := view.WantsFinished(r); {
	case r.Session == "" && wantsFinished && q.view.HasForgotten() && r.Sort != toolcall.SortChanged: // for SortChanged, recent changes are in memory
		return q.listPastCalls(ctx, list, r)
	case r.Session != "" && wantsFinished: // the view may have forgotten some
		calls, err := q.callsOfSession(ctx, session, r)
		if err != nil {
			return out, err
		}
		for _, c := range calls {
			list.Add(c)
		}
	case r.Session != "":
		if err := q.store.Freshen(ctx, session); err != nil {
			return out, err
		}
		q.view.List(list, session)
	case wantsFinished: // the view indexes only the sessions of open calls
		q.view.List(list)
	default:
		q.view.List(list, q.sessionKeys(r.Sessions)...)
	}
	out = list.Reply()
	if r.Sort == "-"+toolcall.SortChanged && len(out.Calls) > 0 { // a reader may continue after the first call
		err = q.store.WaitForSequence(ctx, out.Calls[0].Seq)
	}
	return out, err
}

// checkFilters refuses words that no call can match.
func checkFilters(r toolcall.ListRequest) error {
	for _, s := range r.States {
		if !s.Valid() {
			return &message.Error{Code: message.CodeInvalid, What: "unknown state " + string(s), Hint: "use " + spelling.OrList(message.Words[message.ToolCallState]())}
		}
	}
	for _, p := range r.Phases {
		if !slices.Contains(toolcall.Phases(), p) {
			return &message.Error{Code: message.CodeInvalid, What: "unknown phase " + string(p), Hint: "use " + spelling.OrList(toolcall.Phases())}
		}
	}
	for _, o := range r.Outcomes {
		if !slices.Contains(toolcall.Ends(), o) {
			return &message.Error{Code: message.CodeInvalid, What: "no call ends with " + string(o), Hint: "use " + spelling.OrList(toolcall.Ends())}
		}
	}
	return nil
}

// sessionKeys returns the keys of the sessions, without duplicates.
func (q *reader) sessionKeys(sessions []message.SessionID) (keys []toolcall.Key) {
	for _, s := range slices.Compact(slices.Sorted(slices.Values(sessions))) {
		keys = append(keys, toolcall.Key{Space: q.space, Session: s})
	}
	return keys
}

// callsOfSession reads the calls of a session, or the one that a request names.
func (q *reader) callsOfSession(ctx context.Context, session toolcall.Key, r toolcall.ListRequest) ([]*toolcall.Call, error) {
	if r.Reply == "" || r.Call == "" {
		return q.store.SessionCalls(ctx, session)
	}
	session.Reply, session.Call = r.Reply, r.Call
	c, err := q.store.CallOrNil(ctx, session)
	if c == nil || err != nil {
		return nil, err
	}
	return []*toolcall.Call{c}, nil
}

// newList makes a list for a request, as its reader may see it.
func (q *reader) newList(ctx context.Context, by toolcall.Principal, r toolcall.ListRequest) (*view.List, error) {
	help := view.Help{Mark: q.clocks.Mark, Marked: q.markedCalls(), Line: q.lineOf}
	if r.Mine {
		if by.Role == toolcall.RoleRuntime {
			return nil, &message.Error{Code: message.CodeInvalid, What: "a runtime cannot respond to approval requests", Hint: "leave mine out"}
		}
		help.Mine = q.responses.Awaits(ctx, by)
	}
	return view.NewList(by, r, help)
}

// markedCalls returns the calls that people see as blocked, though records do not.
func (q *reader) markedCalls() map[toolcall.Key]*toolcall.Call {
	var out map[toolcall.Key]*toolcall.Call
	for _, key := range q.clocks.ReportedCalls() {
		if c := q.view.Call(key); c != nil && q.clocks.Mark(c) != c {
			if out == nil {
				out = map[toolcall.Key]*toolcall.Call{}
			}
			out[key] = q.clocks.Mark(c)
		}
	}
	return out
}

// proposals is a Sink that collects the next calls that were proposed.
type proposals struct {
	most int
	keys []toolcall.Key
	seqs []uint64 // of their first event records
	end  func()   // called once there are most of them, or no more exist
	over bool
}

// Record implements toolcall.Sink.
func (p *proposals) Record(r toolcall.JournalEntry) {
	if p.over || r.Record == nil || r.Record.Call == nil || r.Record.Call.Records != 1 {
		return
	}
	p.keys, p.seqs = append(p.keys, r.Key), append(p.seqs, r.Seq)
	if len(p.keys) == p.most {
		p.stop()
	}
}

// CaughtUp implements toolcall.Sink.
func (p *proposals) CaughtUp() { p.stop() }

func (p *proposals) stop() {
	if !p.over {
		p.over = true
		p.end()
	}
}

// errCollected ends a watch that has collected enough.
var errCollected = errors.New("enough was collected")

// listPastCalls lists from the journal what the view has forgotten: the calls after the
// cursor in the order of their first event records, each in its latest state. A page costs
// one read for each call that is not in memory.
func (q *reader) listPastCalls(ctx context.Context, list *view.List, r toolcall.ListRequest) (toolcall.ListReply, error) {
	if r.Sort != "" {
		return toolcall.ListReply{}, &message.Error{Code: message.CodeInvalid, What: "finished calls of the whole space can be listed only in order of proposal", Hint: "name a session, use newest, or omit sort"}
	}
	list.WithoutCounts()
	for after := r.After; ; {
		seen := &proposals{most: r.Limit + 1}
		watching, stop := context.WithCancelCause(ctx)
		seen.end = func() { stop(errCollected) }
		err := q.journal.Watch(watching, after, seen)
		stop(errCollected)
		if !errors.Is(err, errCollected) {
			return toolcall.ListReply{}, err
		}
		for i, key := range seen.keys {
			after = seen.seqs[i]
			if r.Call != "" && key.Call != r.Call || r.Reply != "" && key.Reply != r.Reply {
				continue // without a read
			}
			c, err := q.store.CallOrNil(ctx, key)
			if err != nil {
				return toolcall.ListReply{}, err
			}
			if c != nil && !list.AddNext(c) {
				return list.Reply(), nil
			}
		}
		if len(seen.keys) < seen.most {
			return list.Reply(), nil
		}
	}
}

func (q *reader) showCall(ctx context.Context, by toolcall.Principal, r toolcall.ShowRequest) (toolcall.ShowReply, error) {
	r.Space = q.space
	if err := r.Key.Validate(); err != nil {
		return toolcall.ShowReply{}, err
	}
	records, err := q.journal.History(ctx, r.Key)
	if err != nil {
		return toolcall.ShowReply{}, err
	}
	out := toolcall.ShowReply{History: []toolcall.HistoryEntry{}}
	for _, rec := range records {
		record := rec.Record
		if record == nil || record.Call == nil {
			continue
		}
		out.Call = record.Call
		out.Call.At(rec.Seq)
		note := record.Note
		if by.Role != toolcall.RoleRuntime {
			note = record.Redacted().Note
		}
		out.History = append(out.History, toolcall.HistoryEntry{
			Seq: rec.Seq, Kind: record.Kind(), Path: record.Path, By: record.By, At: record.At, Note: note,
			Attempt: record.Call.Attempt.Number, Worker: record.Call.Attempt.Worker,
		})
	}
	if out.Call == nil || by.Role == toolcall.RoleRuntime && out.Call.Runtime != by.Name {
		return toolcall.ShowReply{}, &message.Error{Code: message.CodeNotFound, What: "no call " + r.Key.String() + " exists", Hint: "list the calls of the session"}
	}
	out.Definition, err = q.declaredTool(ctx, out.Call)
	return out, err
}

func (q *reader) describePolicy() api.PolicyStatusReply {
	out := api.PolicyStatusReply{Bundle: q.policy.Hash(), Files: []api.PolicyFile{}, Ignored: []string{}, Versions: []api.PolicyVersion{}, ByRule: []api.PolicyRuleCount{}}
	if status := q.cfg.policyStatus; status != nil {
		out = status()
	}
	out.Engine = q.cfg.id
	return out
}

// readPolicyText returns the text of a current or past policy.
func (q *reader) readPolicyText(r api.PolicyTextRequest) (out api.PolicyTextReply, err error) {
	notFound := func(what, hint string) error {
		return &message.Error{Code: message.CodeNotFound, What: what, Hint: hint}
	}
	if q.cfg.policyText == nil {
		return out, notFound("this engine has no rule files", "start it with --policy")
	}
	out, ok := q.cfg.policyText(r.Bundle)
	switch {
	case !ok && r.Bundle == "":
		return out, notFound("no policy is in force here", "look at the policy status for the reason")
	case !ok:
		return out, notFound("this engine does not know the policy "+r.Bundle, "the policy status lists the known versions")
	}
	out.Engine = q.cfg.id
	if r.Rule != "" {
		out.Files = []api.PolicyFileText{}
		out.Rules = slices.DeleteFunc(out.Rules, func(x api.PolicyRuleText) bool { return x.Rule != r.Rule })
		if len(out.Rules) == 0 {
			return out, notFound("the policy has no rule "+r.Rule, "askance policy status lists its rules")
		}
		return out, nil
	}
	size := 0
	for _, f := range out.Files {
		size += len(f.Text)
	}
	for i := range out.Files {
		if size > api.MaxPolicyText {
			out.Files[i].Text = ""
		}
	}
	for i := range out.Rules {
		out.Rules[i].Text = ""
	}
	return out, nil
}

func (q *reader) makeReceipt(ctx context.Context, r api.ReceiptRequest) (api.ReceiptReply, error) {
	r.Space = q.space
	if err := r.Key.Validate(); err != nil {
		return api.ReceiptReply{}, err
	}
	b, err := q.cfg.proofs.MakeReceipt(ctx, r.Key)
	return api.ReceiptReply{Receipt: b}, err
}

func (q *reader) describeEngine() toolcall.InfoReply {
	out := toolcall.InfoReply{
		Space: q.space, Engine: q.cfg.id, Version: q.cfg.version, Durability: q.journal.Durability(),
		Bundle: q.policy.Hash(), Tools: []string{}, Clocks: q.clocks.Readings(),
	}
	if j, ok := q.journal.(AssumingJournal); ok {
		out.DurabilityWhy, out.AnchorNew = j.WhyAssumed(), j.HasNewAnchor()
	}
	out.Tools = slices.AppendSeq(out.Tools, maps.Keys(q.tools))
	slices.Sort(out.Tools)
	out.Open, out.Blocked, out.Returned = q.view.Counts()
	out.Blocked += len(q.markedCalls())
	out.PolicyErr = q.describePolicy().Alarm
	if q.cfg.notReady != nil {
		if err := q.cfg.notReady(); err != nil {
			out.NotReady = message.AsError("", err).What
		}
	}
	return out
}

// reportLoad answers a LoadRequest from memory or, if the window reaches too far back,
// from the journal.
func (q *reader) reportLoad(ctx context.Context, r toolcall.LoadRequest) (toolcall.LoadReply, error) {
	now := baseNow().At
	if !r.Window() {
		return q.view.Reviewers.Report(now), nil
	}
	if err := r.Validate(); err != nil {
		return toolcall.LoadReply{}, err
	}
	if out, all := q.view.Reviewers.Window(r.Since, r.Until, now); all {
		return out, nil
	}
	select { // one at a time: it reads everything
	case q.folding <- struct{}{}:
		defer func() { <-q.folding }()
	case <-ctx.Done():
		return toolcall.LoadReply{}, context.Cause(ctx)
	}
	sum, err := reviewers.Read(ctx, q.journal, r.Since, r.Until)
	if err != nil {
		return toolcall.LoadReply{}, err
	}
	here := q.view.Reviewers.Report(now) // limits and refusals are those of this engine
	out := sum.Report(now)
	out.Limits, out.Refused = here.Limits, here.Refused
	return out, nil
}

func (q *reader) explainCall(ctx context.Context, r toolcall.ExplainRequest) (toolcall.ExplainReply, error) {
	r.Space = q.space
	if err := r.Key.Validate(); err != nil {
		return toolcall.ExplainReply{}, err
	}
	c, err := q.store.CallOrNil(ctx, r.Key)
	switch {
	case err != nil:
		return toolcall.ExplainReply{}, err
	case c == nil:
		return toolcall.ExplainReply{}, &message.Error{Code: message.CodeNotFound, What: "no call " + r.Key.String() + " exists", Hint: "list the calls of the session"}
	}
	out := toolcall.ExplainReply{Key: c.Key, State: c.State, Definition: c.Definition, Parent: c.Parent, Decision: c.Redacted().Decision, StandingApprovals: []toolcall.StandingStatus{}}
	now := baseNow().At
	for _, id := range c.Decision.StandingApprovals() {
		sa, err := q.standing.Last(ctx, id)
		if err != nil {
			return toolcall.ExplainReply{}, err
		}
		out.StandingApprovals = append(out.StandingApprovals, q.standing.JudgeState(sa).Standing(now))
	}
	if out.Recorded, err = q.recordedExplanation(ctx, c); err != nil {
		return toolcall.ExplainReply{}, err
	}
	s, ctx := q.snapshotOf(ctx, c), permission.WithTrial(ctx)
	if q.policy.Hash() != "" {
		s = s.WithBudgets(q.standing.Consult(ctx, c, q.budgets.PreviewClaim).Exhausted)
	}
	out.Trace, out.Withheld, err = q.judge.Trace(ctx, s)
	return out, err
}

// recordedExplanation finds the explanation of the call's decision in its history, or nil if
// there is none or it would show what is now hidden.
func (q *reader) recordedExplanation(ctx context.Context, c *toolcall.Call) (message.RawJSON, error) {
	if c.Decision == nil {
		return nil, nil
	}
	records, err := q.journal.History(ctx, c.Key)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(records) {
		if r.Record == nil || r.Record.Call == nil || len(r.Record.Explanation) == 0 {
			continue
		}
		if decide.Explains(r.Record.Call, c) {
			return r.Record.Explanation, nil
		}
		return nil, nil // it explains an earlier decision
	}
	return nil, nil
}

// inOrderOfProposal compares calls by when they were first recorded.
func inOrderOfProposal(a, b *toolcall.Call) int { return cmp.Compare(a.First, b.First) }
