package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
)

// maxList is the largest page of List.
const maxList = 500

// maxHold is how long the engine holds a waiting request; the client asks
// again.
const maxHold = 30 * time.Second

func (e *Engine) list(ctx context.Context, by message.Principal, r message.ListRequest) (message.ListReply, error) {
	if r.Limit <= 0 || r.Limit > maxList {
		r.Limit = maxList
	}
	for _, s := range r.States {
		if !s.Valid() {
			return message.ListReply{}, &message.Error{Code: message.CodeInvalid, Op: "list", What: "unknown state " + string(s), Hint: "use pending, asking, allowed, submitted or finished"}
		}
	}
	if r.Session == "" && view.WantsFinished(r) && e.view.HasForgotten() {
		return e.listPast(ctx, by, r)
	}
	session := message.Key{Space: e.space, Session: r.Session}
	page := &view.Page{Limit: r.Limit}
	switch {
	case r.Session != "" && view.WantsFinished(r): // the view forgets
		calls, err := e.store.SessionCalls(ctx, session)
		if err != nil {
			return message.ListReply{}, opError("list", err)
		}
		slices.SortFunc(calls, inOrderOfProposal)
		for _, c := range calls {
			c = e.clocks.Mark(c)
			if c.First > r.After && view.IsListed(c, by, r) && !page.Add(c) {
				break
			}
		}
	case r.Session != "":
		if err := e.store.Freshen(ctx, session); err != nil {
			return message.ListReply{}, opError("list", err)
		}
		fallthrough
	default:
		e.view.List(by, r, session, page, e.clocks.Mark)
	}
	return page.Reply(), nil
}

func (e *Engine) show(ctx context.Context, by message.Principal, r message.ShowRequest) (message.ShowReply, error) {
	r.Space = e.space
	if err := r.Key.Validate(); err != nil {
		return message.ShowReply{}, opError("show", err)
	}
	records, err := e.journal.History(ctx, r.Key)
	if err != nil {
		return message.ShowReply{}, opError("show", err)
	}
	out := message.ShowReply{History: []message.HistoryEntry{}}
	for _, rec := range records {
		f := rec.Record
		if f == nil || f.Call == nil {
			continue
		}
		out.Call = f.Call
		out.Call.At(rec.Seq)
		note := f.Note
		if by.Role != message.RoleRuntime {
			note = f.Redacted().Note
		}
		out.History = append(out.History, message.HistoryEntry{
			Seq: rec.Seq, Kind: f.Kind(), Path: f.Path, By: f.By, At: f.At, Note: note,
			Attempt: f.Call.Attempt.Number, Worker: f.Call.Attempt.Worker,
		})
	}
	if out.Call == nil || by.Role == message.RoleRuntime && out.Call.Runtime != by.Name {
		return message.ShowReply{}, &message.Error{Code: message.CodeNotFound, Op: "show", What: "no call " + r.Key.String() + " is known", Hint: "list the calls of the session"}
	}
	return out, nil
}

// wait holds the request until the calls have resolved or the time is over.
func (e *Engine) wait(ctx context.Context, r message.WaitRequest) (message.WaitReply, error) {
	reply := message.Key{Space: e.space, Session: r.Session, Reply: r.Reply}
	if err := checkWait(reply, r.Calls); err != nil {
		return message.WaitReply{}, opError("wait", err)
	}
	switch r.Until {
	case "":
		r.Until = message.UntilFinished
	case message.UntilFinished, message.UntilParked:
	default:
		return message.WaitReply{}, &message.Error{Code: message.CodeInvalid, Op: "wait", What: "until is " + string(r.Until), Hint: "use finished or parked"}
	}
	hold := maxHold
	if r.TimeoutMS > 0 {
		hold = min(hold, time.Duration(r.TimeoutMS)*time.Millisecond)
	}
	if len(r.Calls) == 0 {
		if err := e.store.Freshen(ctx, reply.SessionKey()); err != nil {
			return message.WaitReply{}, opError("wait", err)
		}
	}
	timer := time.NewTimer(hold)
	defer timer.Stop()
	var moved <-chan struct{} // asked for only if the first look does not end the wait
	leave := func() {}
	defer func() { leave() }()
	for {
		calls, err := e.waited(ctx, reply, r.Calls)
		if err != nil {
			return message.WaitReply{}, opError("wait", err)
		}
		if len(calls) == 0 { // done, if there is such a reply
			if err := e.store.CheckReply(ctx, reply); err != nil {
				return message.WaitReply{}, opError("wait", err)
			}
		}
		out := message.WaitReply{Calls: calls, Done: true}
		for _, c := range calls {
			out.Done = out.Done && e.settled(c, r.Until)
		}
		if out.Done {
			return out, nil
		}
		if moved == nil {
			moved, leave = e.view.Watch(reply)
			continue
		}
		resume := capacity.Rest(ctx)
		select {
		case <-moved:
			moved = nil
			if err := resume(); err != nil {
				return out, gaveUp("wait", err)
			}
		case <-timer.C:
			if err := resume(); err != nil {
				return out, gaveUp("wait", err)
			}
			return out, nil
		case <-ctx.Done():
			return out, gaveUp("wait", context.Cause(ctx))
		case <-e.store.Following().Done():
			return out, e.blindError("wait")
		}
	}
}

// gaveUp is the error of a request that its sender or its server gave up.
func gaveUp(op string, cause error) error {
	return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the request was given up", Hint: "ask again", Err: cause}
}

// checkWait checks the ids of a wait before anything is looked up by them.
func checkWait(reply message.Key, calls []message.CallID) error {
	if err := validReply(reply); err != nil {
		return err
	}
	if len(calls) > message.MaxCallsPerTurn {
		return &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("%d calls in one wait, the limit is %d", len(calls), message.MaxCallsPerTurn), Hint: "name none to wait for the whole reply"}
	}
	for _, id := range calls {
		key := reply
		key.Call = id
		if err := key.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// waited gives the calls that a wait is about.
func (e *Engine) waited(ctx context.Context, reply message.Key, ids []message.CallID) ([]*message.Call, error) {
	if len(ids) == 0 {
		if e.view.HasAllOf(reply) {
			return e.view.CallsOf(reply), nil
		}
		all, err := e.store.SessionCalls(ctx, reply.SessionKey())
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(c *message.Call) bool { return c.Reply != reply.Reply })
		slices.SortFunc(all, inOrderOfProposal)
		return all, nil
	}
	out := make([]*message.Call, 0, len(ids))
	for _, id := range ids {
		key := reply
		key.Call = id
		c, err := e.store.Call(ctx, key)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// resolved reports whether a wait for the call is over.
func (e *Engine) settled(c *message.Call, until message.WaitUntil) bool {
	phase := c.Phase()
	if phase == message.PhaseFinished || until != message.UntilParked {
		return phase == message.PhaseFinished
	}
	switch phase {
	case message.PhaseWaiting:
		return e.stuck(c)
	case message.PhaseReady, message.PhaseRunning, message.PhaseRetrying:
		return c.State == message.ToolCallSubmitted // a worker has it, or had it
	default:
		return true
	}
}

func (e *Engine) info() message.InfoReply {
	out := message.InfoReply{
		Space: e.space, Engine: e.cfg.id, Version: e.cfg.version, Durability: e.journal.Durability(),
		Bundle: e.policy.Hash(), Tools: []string{}, Clocks: e.clocks.Readings(),
	}
	for name := range e.tools {
		out.Tools = append(out.Tools, name)
	}
	sort.Strings(out.Tools)
	out.Open, out.Blocked = e.view.Counts()
	for _, key := range e.clocks.Reported() {
		if c := e.view.Call(key); c != nil && e.clocks.Mark(c).Blocked == message.BlockedClock {
			out.Blocked++
		}
	}
	if e.cfg.policyErr != nil {
		if err := e.cfg.policyErr(); err != nil {
			out.PolicyErr = err.Error()
		}
	}
	return out
}

// inOrderOfProposal compares calls by their first event records.
func inOrderOfProposal(a, b *message.Call) int { return cmp.Compare(a.First, b.First) }
