package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func eventCases() []engineCase {
	return []engineCase{
		{"in journal order, from any cursor", eventOrder},
		{"the same from every engine", eventsSame},
		{"waiting for news", eventsWait},
		{"of one reply", eventsOfReply},
		{"what a runtime may stream", emitKinds},
		{"all events fold into the message", eventsFold},
		{"an event from a frontend", deliver},
		{"an event from a frontend whose user cannot answer all of it", deliverForbidden},
	}
}

// event makes a streamed event that differs from all others.
func event(n int) message.RawJSON {
	return message.RawJSON(fmt.Sprintf(`{"type":"CUSTOM","id":"ev-%d","created_at":"2026-03-01T12:00:00","metadata":{},"name":"n%d","value":{}}`, n, n))
}

// emit streams events and adds the header to each.
func (r *replica) emit(events ...string) error {
	raw := make([]message.RawJSON, len(events))
	for i, e := range events {
		raw[i] = message.RawJSON(`{"reply_id":"r",` + strings.TrimPrefix(e, "{"))
	}
	_, err := r.bot().Emit(r.w.Context(), toolcall.EmitRequest{Session: "s", Reply: "r", Events: raw})
	return err
}

// events reads all events of the session s, in pages.
func (r *replica) events(after uint64, limit int) []toolcall.SequencedEvent {
	r.w.Helper()
	var out []toolcall.SequencedEvent
	for range 1000 {
		page, err := r.bot().Events(r.w.Context(), toolcall.EventsRequest{Session: "s", After: after, Limit: limit})
		r.w.must(err)
		out = append(out, page.Events...)
		if page.Next == after {
			return out
		}
		after = page.Next
	}
	r.w.Fatal("the cursor never reaches the end")
	return nil
}

// types returns the types of events, each with the call it is about.
func types(w *world, events []toolcall.SequencedEvent) string {
	w.Helper()
	var out []string
	for _, e := range events {
		var h struct {
			Type  string `json:"type"`
			Call  string `json:"tool_call_id"`
			Calls []struct {
				ID string `json:"id"`
			} `json:"tool_calls"`
			State message.ToolResultState `json:"state"`
		}
		w.must(strictjson.UnmarshalOpen(e.Event, &h))
		words := []string{h.Type}
		if h.Call != "" {
			words = append(words, h.Call)
		}
		for _, c := range h.Calls {
			words = append(words, c.ID)
		}
		if h.State != "" {
			words = append(words, string(h.State))
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, "\n")
}

// aStory writes events and event records in turn.
func aStory(w *world, e *replica) {
	w.Helper()
	w.must(e.emit(`{"type":"REPLY_START","session_id":"s","name":"bot"}`, `{"type":"MODEL_CALL_START","model_name":"m"}`,
		`{"type":"TOOL_CALL_START","tool_call_id":"a","tool_call_name":"echo"}`, `{"type":"TOOL_CALL_DELTA","tool_call_id":"a","delta":"{}"}`,
		`{"type":"TOOL_CALL_START","tool_call_id":"b","tool_call_name":"pay"}`, `{"type":"TOOL_CALL_DELTA","tool_call_id":"b","delta":"{\"amount\":500}"}`,
		`{"type":"TOOL_CALL_END","tool_call_id":"a"}`, `{"type":"TOOL_CALL_END","tool_call_id":"b"}`,
		`{"type":"MODEL_CALL_END","input_tokens":1,"output_tokens":2}`))
	e.finished(e.propose(call("a", echo, `{}`))[0].Key)
	q := e.ask("b", pay, `{"amount":500}`)
	_, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	e.finished(q.Key)
	w.must(e.emit(`{"type":"REPLY_END","session_id":"s","finished_reason":"completed","error":null}`))
}

const aStoryTypes = `REPLY_START
MODEL_CALL_START
TOOL_CALL_START a
TOOL_CALL_DELTA a
TOOL_CALL_START b
TOOL_CALL_DELTA b
TOOL_CALL_END a
TOOL_CALL_END b
MODEL_CALL_END
TOOL_RESULT_START a
TOOL_RESULT_TEXT_DELTA a
TOOL_RESULT_END a success
REQUIRE_USER_CONFIRM b
USER_CONFIRM_RESULT
TOOL_RESULT_START b
TOOL_RESULT_TEXT_DELTA b
TOOL_RESULT_END b success
REPLY_END`

func eventOrder(w *world) {
	e := w.engine()
	aStory(w, e)
	all := e.events(0, 0)
	if got := types(w, all); got != aStoryTypes {
		w.Fatalf("the events are\n%s\nwant\n%s", got, aStoryTypes)
	}
	for _, limit := range []int{1, 2, 5} {
		if got := types(w, e.events(0, limit)); got != aStoryTypes {
			w.Errorf("in pages of %d records they are\n%s", limit, got)
		}
	}
	for i, ev := range all {
		if i > 0 && ev.Seq < all[i-1].Seq {
			w.Errorf("event %d has sequence %d after %d", i, ev.Seq, all[i-1].Seq)
		}
		rest := slices.DeleteFunc(slices.Clone(all), func(o toolcall.SequencedEvent) bool { return o.Seq <= ev.Seq })
		if got := e.events(ev.Seq, 0); types(w, got) != types(w, rest) {
			w.Errorf("the events after sequence %d are\n%s\nwant\n%s", ev.Seq, types(w, got), types(w, rest))
		}
	}
}

// eventsSame checks that every engine, even one that starts later, returns the same events
// with the same ids.
func eventsSame(w *world) {
	e, other := w.engine(), w.engine()
	aStory(w, e)
	want := e.events(0, 0)
	seen := map[string]bool{}
	for _, ev := range want {
		var h struct {
			ID string `json:"id"`
		}
		w.must(strictjson.UnmarshalOpen(ev.Event, &h))
		if h.ID == "" || seen[h.ID] {
			w.Errorf("the event id %q is empty or occurs twice", h.ID)
		}
		seen[h.ID] = true
	}
	for _, r := range []*replica{other, w.engine()} {
		got := r.events(0, 0)
		if !slices.EqualFunc(want, got, func(a, b toolcall.SequencedEvent) bool {
			return a.Seq == b.Seq && string(a.Event) == string(b.Event)
		}) {
			w.Errorf("%s returns other events:\n%s", r.ID(), types(w, got))
		}
	}
}

func eventsWait(w *world) {
	e, other := w.engine(), w.engine()
	w.must(e.emit(`{"type":"MODEL_CALL_START","model_name":"m"}`))
	for i, r := range []*replica{e, other, e, other} {
		cursor := r.events(0, 0)
		after := cursor[len(cursor)-1].Seq
		got := make(chan toolcall.EventsReply, 1)
		go func() {
			reply, err := r.bot().Events(w.Context(), toolcall.EventsRequest{Session: "s", After: after, WaitMS: patience.Milliseconds()})
			if err != nil {
				w.Errorf("events: %v", err)
			}
			got <- reply
		}()
		if i < 2 {
			w.must(e.emit(`{"type":"MODEL_CALL_START","model_name":"m"}`))
		} else {
			e.propose(call(message.CallID(fmt.Sprint("c", i)), rm, `{}`))
		}
		if reply := <-got; len(reply.Events) == 0 || reply.Next <= after {
			w.Errorf("round %d: %d events, cursor %d after %d", i, len(reply.Events), reply.Next, after)
		}
	}
	reply, err := e.bot().Events(w.Context(), toolcall.EventsRequest{Session: "s"})
	begin, end := time.Now(), reply.Next
	if err == nil {
		reply, err = e.bot().Events(w.Context(), toolcall.EventsRequest{Session: "s", After: end, WaitMS: 20})
	}
	if err != nil || len(reply.Events) != 0 || reply.Next < end || time.Since(begin) < 20*time.Millisecond {
		w.Errorf("nothing new: %+v after %s, %v", reply, time.Since(begin), err)
	}
	for _, after := range []uint64{end + 1, 1 << 40, math.MaxUint64} {
		reply, err := e.bot().Events(w.Context(), toolcall.EventsRequest{Session: "s", After: after, WaitMS: patience.Milliseconds()})
		if !errors.Is(err, message.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "beyond the end") {
			w.Errorf("a cursor beyond the end, %d after %d: %+v, %v", after, end, reply, err)
		}
	}
}

func eventsOfReply(w *world) {
	e := w.engine()
	aStory(w, e)
	out, err := e.bot().Propose(w.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r2", Calls: []message.ToolCallBlock{call("a", rm, `{}`)}})
	w.must(err)
	reply, err := e.bot().Events(w.Context(), toolcall.EventsRequest{Session: "s", Reply: "r2"})
	w.must(err)
	if got := types(w, reply.Events); got != "TOOL_RESULT_START a\nTOOL_RESULT_TEXT_DELTA a\nTOOL_RESULT_END a denied" || reply.Next < out.Calls[0].Seq {
		w.Errorf("the events of r2 are\n%s", got)
	}
	reply, err = e.bot().Events(w.Context(), toolcall.EventsRequest{Session: "s", Reply: "r"})
	if err != nil || types(w, reply.Events) != aStoryTypes {
		w.Errorf("the events of r are\n%s\n%v", types(w, reply.Events), err)
	}
	reply, err = e.ann().Events(w.Context(), toolcall.EventsRequest{Session: "unknown"})
	if err != nil || len(reply.Events) != 0 {
		w.Errorf("an unknown session has %d events, %v", len(reply.Events), err)
	}
}

// emitKinds checks that a runtime cannot write the events that askance derives from its own
// event records, such as an approval by a person or a result of a tool.
func emitKinds(w *world) {
	e := w.engine()
	w.must(e.emit(`{"type":"TEXT_BLOCK_START","block_id":"b"}`, `{"type":"TEXT_BLOCK_DELTA","block_id":"b","delta":"x"}`, `{"type":"TEXT_BLOCK_END","block_id":"b"}`,
		`{"type":"THINKING_BLOCK_START","block_id":"t"}`, `{"type":"THINKING_BLOCK_DELTA","block_id":"t","delta":"x"}`, `{"type":"THINKING_BLOCK_END","block_id":"t"}`,
		`{"type":"EXCEED_MAX_ITERS","name":"bot"}`))
	size := len(w.records())
	for _, ev := range []string{
		`{"type":"USER_CONFIRM_RESULT","confirm_results":[]}`,
		`{"type":"EXTERNAL_EXECUTION_RESULT","execution_results":[]}`,
		`{"type":"REQUIRE_USER_CONFIRM","tool_calls":[]}`,
		`{"type":"REQUIRE_EXTERNAL_EXECUTION","tool_calls":[]}`,
		`{"type":"TOOL_RESULT_START","tool_call_id":"a","tool_call_name":"echo"}`,
		`{"type":"TOOL_RESULT_TEXT_DELTA","tool_call_id":"a","delta":"x"}`,
		`{"type":"TOOL_RESULT_DATA_DELTA","tool_call_id":"a","block_id":"b","media_type":"x/y","data":"eA=="}`,
		`{"type":"TOOL_RESULT_END","tool_call_id":"a","state":"success"}`,
		`{"type":"USER_INTERRUPT"}`,
		`{"type":"SOMETHING_NEW"}`,
	} {
		w.wantErr(e.emit(ev), message.ErrForbidden)
		w.wantErr(e.emit(`{"type":"MODEL_CALL_START","model_name":"m"}`, ev), message.ErrForbidden) // all or nothing
	}
	for _, ev := range []string{
		`{"type":"TEXT_BLOCK_DELTA","block_id":"b"}`, `{"type":"TEXT_BLOCK_DELTA","block_id":"b","delta":1}`, `{"type":"text_block_end","block_id":"b"}`,
		`{"block_id":"b"}`, `{"type":"TEXT_BLOCK_END","block_id":"b","block_id":"c"}`, `{"type":"TEXT_BLOCK_END"`, ``, `{"type":"TEXT_BLOCK_END","block_id":"b"} {}`,
		`{"type":"REPLY_START","session_id":"another","name":"bot"}`, `{"type":"REPLY_END","session_id":"another"}`,
	} {
		if err := e.emit(ev); message.AsError("", orUnknown(err)).Code != message.CodeInvalid && message.AsError("", orUnknown(err)).Code != message.CodeForbidden {
			w.Errorf("%s: %v", ev, err)
		}
	}
	other := message.RawJSON(`{"type":"TEXT_BLOCK_END","block_id":"b","reply_id":"another"}`)
	_, err := e.bot().Emit(w.Context(), toolcall.EmitRequest{Session: "s", Reply: "r", Events: []message.RawJSON{other}})
	w.wantErr(err, message.ErrInvalid)
	_, err = e.bot().Emit(w.Context(), toolcall.EmitRequest{Session: "s", Reply: "r"})
	w.wantErr(err, message.ErrInvalid)
	_, err = e.bot().Emit(w.Context(), toolcall.EmitRequest{Session: "s", Reply: "r", Events: make([]message.RawJSON, 1001)})
	w.wantErr(err, message.ErrInvalid)
	w.wantSize(size)
}

func orUnknown(err error) error {
	if err == nil {
		return message.ErrUnknownOutcome
	}
	return err
}

func eventsFold(w *world) {
	e := w.engine()
	aStory(w, e)
	msg, err := message.AssistantMsg("bot", message.List(), message.WithID("r"))
	w.must(err)
	for _, ev := range e.events(0, 0) {
		decoded, err := message.DecodeEvent(ev.Event)
		w.must(err)
		w.must(message.Append(msg, decoded))
	}
	for i, want := range []string{`ran {}`, `ran {"amount":500}`} {
		calls, results := message.BlocksOf[*message.ToolCallBlock](msg), message.BlocksOf[*message.ToolResultBlock](msg)
		if len(calls) != 2 || len(results) != 2 || calls[i].State != message.ToolCallFinished || results[i].State != message.ToolResultSuccess || results[i].Output.String() != want {
			w.Fatalf("the message has the calls %+v and the results %+v", calls, results)
		}
	}
	if msg.FinishedReason == nil || *msg.FinishedReason != message.FinishedCompleted {
		w.Errorf("the message ended with %v", msg.FinishedReason)
	}
}

// deliver checks that an engine carries out an event from an AgentScope frontend completely
// or refuses it completely.
func deliver(w *world) {
	e := w.engine()
	q, q2 := e.ask("a", pay, `{"amount":500}`), e.ask("b", pay, `{"amount":600}`)
	out := e.propose(call("x", external, `{}`), call("y", external, `{}`))[0]
	block := func(c *toolcall.Call, name, input string) message.ToolCallBlock {
		return message.ToolCallBlock{ID: c.Call, Name: name, Input: input}
	}
	confirm := func(results ...message.ConfirmResult) *message.UserConfirmResult {
		return &message.UserConfirmResult{EventHeader: message.EventHeader{Reply: "r"}, ConfirmResults: results}
	}
	ran := func(id message.CallID) message.ToolResultBlock {
		return message.ToolResultBlock{ID: id, State: message.ToolResultSuccess, Output: message.Content{Text: "done"}}
	}
	results := func(results ...message.ToolResultBlock) *message.ExternalExecutionResult {
		return &message.ExternalExecutionResult{EventHeader: message.EventHeader{Reply: "r"}, ExecutionResults: results}
	}
	yes := message.ConfirmResult{Confirmed: true, ToolCall: block(q, pay, q.Input)}
	size := len(w.records())
	for _, row := range []struct {
		ev   message.Event
		want *message.Error
	}{
		{confirm(), message.ErrInvalid},
		{confirm(yes, message.ConfirmResult{Confirmed: true, ToolCall: block(q2, echo, q2.Input)}), message.ErrForbidden}, // changes the tool
		{confirm(yes, yes), message.ErrInvalid},
		{confirm(yes, message.ConfirmResult{Confirmed: true, ToolCall: block(q2, pay, `[]`)}), message.ErrInvalid}, // an edit that cannot run
		{confirm(yes, message.ConfirmResult{Confirmed: true, ToolCall: block(out, external, `{}`)}), message.ErrState},
		{confirm(yes, message.ConfirmResult{ToolCall: message.ToolCallBlock{ID: "unknown", Name: pay}}), message.ErrNotFound},
		{confirm(message.ConfirmResult{Confirmed: true, ToolCall: block(q, pay, q.Input), Rules: []message.PermissionRule{{ToolName: rm, Behavior: message.BehaviorAllow}}}), message.ErrForbidden},
		{results(), message.ErrInvalid},
		{results(ran("x"), ran("x")), message.ErrInvalid},
		{results(ran("x"), ran("a")), message.ErrState}, // a call that waits for a person
		{results(ran("x"), ran("unknown")), message.ErrNotFound},
		{results(ran("x"), message.ToolResultBlock{ID: "y", State: message.ToolResultRunning}), message.ErrInvalid},
		{&message.ReplyEnd{EventHeader: message.EventHeader{Reply: "r"}}, message.ErrInvalid},
	} {
		port := e.ann()
		if row.ev.Type() == message.EventExternalExecutionResult {
			port = e.bot()
		}
		w.wantErr(engine.Deliver(w.Context(), port, "s", row.ev, nil), row.want)
	}
	stale := func(message.CallID) string { return "sha256:00" }
	w.wantErr(engine.Deliver(w.Context(), e.ann(), "s", confirm(yes), stale), message.ErrDigest)
	second := message.ConfirmResult{Confirmed: true, ToolCall: block(q2, pay, q2.Input)}
	w.wantErr(engine.Deliver(w.Context(), e.ann(), "s", confirm(yes, second), func(id message.CallID) string {
		return map[message.CallID]string{"a": q.Digest, "b": "sha256:00"}[id]
	}), message.ErrDigest)
	w.wantSize(size)
	edited := message.ConfirmResult{Confirmed: true, ToolCall: block(q2, pay, `{"amount":5}`)}
	w.must(engine.Deliver(w.Context(), e.ann(), "s", confirm(yes, edited), func(id message.CallID) string {
		return map[message.CallID]string{"a": q.Digest, "b": q2.Digest}[id]
	}))
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, "500")
	w.wantResult(e.finished(q2.Key), message.ToolResultSuccess, `{"amount":5}`)
	w.must(engine.Deliver(w.Context(), e.bot(), "s", results(ran("x")), nil))
	w.wantResult(e.finished(out.Key), message.ToolResultSuccess, "done")
}

// deliverForbidden checks that no part of a confirmation takes effect if another person has to answer
// one of them.
func deliverForbidden(w *world) {
	boss := permission.Rule{Name: "boss", Tools: []string{deploy}, Behavior: message.BehaviorAsk, Approvers: permission.Approvers{Users: []string{"ann"}}}
	w.policy.use(w, append(rules(), boss)...)
	e := w.engine()
	var ev message.UserConfirmResult
	ev.Reply = "r"
	for _, c := range []*toolcall.Call{e.ask("a", pay, `{"amount":500}`), e.ask("b", deploy, `{}`)} {
		ev.ConfirmResults = append(ev.ConfirmResults, message.ConfirmResult{Confirmed: true, ToolCall: message.ToolCallBlock{ID: c.Call, Name: c.Tool, Input: c.Input}})
	}
	size := len(w.records())
	w.wantErr(engine.Deliver(w.Context(), e.as(toolcall.RoleApprover, "bob"), "s", &ev, nil), message.ErrForbidden)
	w.wantSize(size)
	w.must(engine.Deliver(w.Context(), e.ann(), "s", &ev, nil))
}
