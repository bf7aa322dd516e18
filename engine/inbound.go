package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/engine/internal/standing"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Deliver carries out an event from an AgentScope frontend: USER_CONFIRM_RESULT,
// EXTERNAL_EXECUTION_RESULT or USER_INTERRUPT. It checks every part of the event against
// the open calls before it acts on the first; one unknown or wrong part refuses the
// whole event.
//
// Confirmations carry no digest. shown returns the digest of the approval request that
// this frontend was shown for a call. If shown is nil, Deliver uses the request that is
// open now, which is right only for a caller who has just read it.
func Deliver(ctx context.Context, c Client, session message.SessionID, ev message.Event, shown func(message.CallID) string) error {
	switch ev := ev.(type) {
	case *message.UserConfirmResult:
		return deliverConfirm(ctx, c, session, ev, shown)
	case *message.ExternalExecutionResult:
		return deliverResults(ctx, c, session, ev)
	case *message.UserInterrupt:
		_, err := c.Interrupt(ctx, toolcall.InterruptRequest{Session: session, Reply: ev.Reply})
		return err
	default:
		return &message.Error{Code: message.CodeInvalid, Op: "deliver", What: "a frontend cannot send " + string(ev.Type()), Hint: "send USER_CONFIRM_RESULT, EXTERNAL_EXECUTION_RESULT or USER_INTERRUPT"}
	}
}

func callsInState(ctx context.Context, c Client, session message.SessionID, reply message.ReplyID, state message.ToolCallState) (map[message.CallID]*toolcall.Call, error) {
	all, err := ListAll(ctx, c, toolcall.ListRequest{Session: session, Reply: reply, States: []message.ToolCallState{state}}, 0)
	out := make(map[message.CallID]*toolcall.Call, len(all))
	for _, call := range all {
		out[call.Call] = call
	}
	return out, err
}

func deliverConfirm(ctx context.Context, c Client, session message.SessionID, ev *message.UserConfirmResult, shown func(message.CallID) string) error {
	open, err := callsInState(ctx, c, session, ev.Reply, message.ToolCallAsking)
	if err != nil {
		return err
	}
	responses := make([]toolcall.Response, 0, len(ev.ConfirmResults))
	for i, r := range ev.ConfirmResults {
		call := open[r.ToolCall.ID]
		if slices.ContainsFunc(ev.ConfirmResults[:i], func(o message.ConfirmResult) bool { return o.ToolCall.ID == r.ToolCall.ID }) {
			return &message.Error{Code: message.CodeInvalid, Op: "deliver", What: fmt.Sprintf("confirm_results[%d]: a second answer for %s", i, r.ToolCall.ID), Hint: "send one answer for each call"}
		}
		if call == nil {
			return noRequest(ctx, c, fmt.Sprintf("confirm_results[%d]", i), toolcall.Key{Session: session, Reply: ev.Reply, Call: r.ToolCall.ID})
		}
		if err := checkConfirm(i, r, call); err != nil {
			return store.OpError("deliver", err)
		}
		responses = append(responses, confirmResponse(call, r, shown))
	}
	if len(responses) == 0 {
		return &message.Error{Code: message.CodeInvalid, Op: "deliver", What: "confirm_results is empty", Hint: "answer at least one approval request"}
	}
	return submitAll(ctx, c, "confirm_results", open, responses)
}

// DeliverResponses submits responses to open approval requests of one reply. Before the
// first it checks that each request is open and has the digest of its response.
func DeliverResponses(ctx context.Context, c Client, session message.SessionID, reply message.ReplyID, responses []toolcall.Response) error {
	open, err := callsInState(ctx, c, session, reply, message.ToolCallAsking)
	if err != nil {
		return err
	}
	for i, resp := range responses {
		if open[resp.Call] == nil {
			return noRequest(ctx, c, fmt.Sprintf("decisions[%d]", i), resp.Key)
		}
	}
	return submitAll(ctx, c, "decisions", open, responses)
}

// submitAll submits responses to open calls, if each is about the request that is open now.
func submitAll(ctx context.Context, c Client, list string, open map[message.CallID]*toolcall.Call, responses []toolcall.Response) error {
	for i, resp := range responses {
		if call := open[resp.Call]; call.Digest != resp.Digest {
			return &message.Error{Code: message.CodeDigest, Op: "deliver", Call: toolcall.ErrorCall(call), What: fmt.Sprintf("%s[%d]: the approval request about %s changed after it was shown", list, i, resp.Call), Hint: "look at the new approval request, and decide about that"}
		}
	}
	OrderResponses(ctx, c, responses)
	for _, resp := range responses {
		if _, err := c.SubmitResponse(ctx, resp); err != nil {
			return err
		}
	}
	return nil
}

// OrderResponses puts a response that the engine would refuse before the others, all of one reply:
// a caller who stops at the first refusal then submits none of the others.
func OrderResponses(ctx context.Context, c Client, responses []toolcall.Response) {
	if len(responses) < 2 {
		return
	}
	mine, err := ListAll(ctx, c, toolcall.ListRequest{Session: responses[0].Session, Reply: responses[0].Reply, Mine: true}, 0)
	i := slices.IndexFunc(responses, func(resp toolcall.Response) bool {
		if err == nil && !slices.ContainsFunc(mine, func(call *toolcall.Call) bool { return call.Call == resp.Call }) {
			return true
		}
		if resp.Input == nil {
			return false
		}
		out, err := api.Preview.Call(ctx, c, api.PreviewRequest{
			ProposeRequest: toolcall.ProposeRequest{V: 1, Session: resp.Session, Reply: resp.Reply},
			Edit:           &api.PreviewEdit{Call: resp.Call, Digest: resp.Digest, Input: *resp.Input},
		})
		return err == nil && len(out.Calls) == 1 && out.Calls[0].Edit == api.EditRefused
	})
	if i > 0 {
		responses[0], responses[i] = responses[i], responses[0]
	}
}

func checkConfirm(i int, r message.ConfirmResult, call *toolcall.Call) error {
	at := fmt.Sprintf("confirm_results[%d]", i)
	if r.ToolCall.Name != call.Tool {
		return &message.Error{Code: message.CodeForbidden, Op: "deliver", Call: toolcall.ErrorCall(call), What: at + ": the answer changes the tool from " + call.Tool + " to " + r.ToolCall.Name, Hint: "an answer may change the arguments, never the tool"}
	}
	if r.Confirmed {
		return standing.CheckSuggested(call, r.Rules)
	}
	return nil
}

// noRequest is the error for a response to a call without an open approval request. It
// includes the call's current state, if the call exists.
func noRequest(ctx context.Context, c Client, at string, key toolcall.Key) error {
	return notWaiting(ctx, c, fmt.Sprintf("%s: no approval request is open for the call %s", at, key.Call), key)
}

// notWaiting is the error for input that a call does not wait for. Its code says whether
// the call has finished.
func notWaiting(ctx context.Context, c Client, what string, key toolcall.Key) error {
	e := &message.Error{Code: message.CodeNotFound, Op: "deliver", What: what, Hint: "look at the open calls"}
	shown, err := c.Show(ctx, toolcall.ShowRequest{Key: key})
	switch {
	case errors.Is(err, message.ErrNotFound) || errors.Is(err, message.ErrInvalid):
		return e
	case err != nil:
		return err
	}
	e.Code, e.Call, e.Hint = message.CodeState, toolcall.ErrorCall(shown.Call), "look at the call"
	if !shown.Call.Open() {
		e.Code = message.CodeFinished
	}
	return e
}

func confirmResponse(call *toolcall.Call, r message.ConfirmResult, shown func(message.CallID) string) toolcall.Response {
	resp := toolcall.Response{Key: call.Key, Kind: toolcall.ResponseReject, Digest: call.Digest}
	if shown != nil {
		resp.Digest = shown(call.Call)
	}
	if r.Confirmed {
		resp.Kind, resp.Rules = toolcall.ResponseApprove, r.Rules
		if r.ToolCall.Input != call.Input {
			resp.Input = &r.ToolCall.Input
		}
	}
	return resp
}

func deliverResults(ctx context.Context, c Client, session message.SessionID, ev *message.ExternalExecutionResult) error {
	open, err := callsInState(ctx, c, session, ev.Reply, message.ToolCallSubmitted)
	if err != nil {
		return err
	}
	for i, r := range ev.ExecutionResults {
		call := open[r.ID]
		if call == nil || call.Placement != toolcall.PlaceExternal {
			what := fmt.Sprintf("execution_results[%d]: no external call %s waits for a result", i, r.ID)
			return notWaiting(ctx, c, what, toolcall.Key{Session: session, Reply: ev.Reply, Call: r.ID})
		}
		if slices.ContainsFunc(ev.ExecutionResults[:i], func(o message.ToolResultBlock) bool { return o.ID == r.ID }) {
			return &message.Error{Code: message.CodeInvalid, Op: "deliver", What: fmt.Sprintf("execution_results[%d]: a second result for %s", i, r.ID), Hint: "send one result for each call"}
		}
		if _, err := checkResult(&r); err != nil { // r is a copy
			return store.OpError("deliver", err)
		}
	}
	if len(ev.ExecutionResults) == 0 {
		return &message.Error{Code: message.CodeInvalid, Op: "deliver", What: "execution_results is empty", Hint: "send at least one result"}
	}
	for _, r := range ev.ExecutionResults {
		r.Name = "" // AgentScope checks only the id
		if _, err := c.Report(ctx, toolcall.ReportRequest{Key: open[r.ID].Key, Result: r}); err != nil {
			return err
		}
	}
	return nil
}
