package engine_test

import (
	"fmt"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func badInputCases() []engineCase {
	return []engineCase{
		{"another version", anotherVersion},
		{"proposals", badProposals},
		{"answers", badAnswers},
		{"what workers and operators send", badRequests},
		{"strange ids", strangeIDsWork},
		{"text that is not UTF-8", brokenText},
	}
}

// anotherVersion checks that every request with a version other than the engine's is refused.
func anotherVersion(w *world) {
	e, ctx := w.engine(), w.Context()
	q := e.ask("c", pay, `{"amount":500}`)
	size := len(w.records())
	for _, v := range []int{-1, 2, 9} {
		bot, ann, op, worker := e.bot(), e.ann(), e.operator(), e.worker("w1")
		resp := approve(q)
		resp.V = v
		p := request(call("d", echo, `{}`))
		p.V = v
		for name, err := range map[string]error{
			"propose":         second(bot.Propose(ctx, p)),
			"submit_response": second(ann.SubmitResponse(ctx, resp)),
			"report":          second(bot.Report(ctx, toolcall.ReportRequest{V: v, Key: q.Key})),
			"interrupt":       second(bot.Interrupt(ctx, toolcall.InterruptRequest{V: v, Session: "s", Reply: "r"})),
			"resolve":         second(op.Resolve(ctx, toolcall.ResolveRequest{V: v, Key: q.Key})),
			"revoke":          second(op.Revoke(ctx, toolcall.RevokeRequest{V: v, Key: q.Key})),
			"emit":            second(bot.Emit(ctx, toolcall.EmitRequest{V: v, Session: "s", Reply: "r"})),
			"events":          second(bot.Events(ctx, toolcall.EventsRequest{V: v, Session: "s"})),
			"wait":            second(bot.Wait(ctx, toolcall.WaitRequest{V: v, Session: "s", Reply: "r", TimeoutMS: 1})),
			"list":            second(bot.List(ctx, toolcall.ListRequest{V: v})),
			"show":            second(bot.Show(ctx, toolcall.ShowRequest{V: v, Key: q.Key})),
			"start":           second(worker.Start(ctx, toolcall.StartRequest{V: v, Key: q.Key, Attempt: 1, Claim: "x"})),
			"heartbeat":       second(worker.Heartbeat(ctx, toolcall.HeartbeatRequest{V: v, Key: q.Key, Attempt: 1, Claim: "x"})),
			"progress":        worker.Progress(ctx, toolcall.ProgressRequest{V: v, Key: q.Key, Attempt: 1, Claim: "x"}),
			"result":          second(worker.Result(ctx, resultRequestV(v, q))),
		} {
			if me := message.AsError("", err); err == nil || me.Code != message.CodeInvalid || me.Op != name || !strings.Contains(me.What, "version") {
				w.Errorf("%s of version %d: %v", name, v, err)
			}
		}
	}
	w.wantSize(size)
}

func resultRequestV(v int, c *toolcall.Call) toolcall.ResultRequest {
	r := resultRequest(c, "x", "done")
	r.V = v
	return r
}

// badProposals checks that nothing of a proposal is written if any part of it is invalid.
func badProposals(w *world) {
	e := w.engine()
	long := strings.Repeat("x", toolcall.MaxIDBytes+1)
	good := call("good", echo, `{}`)
	with := func(change func(*toolcall.ProposeRequest)) toolcall.ProposeRequest {
		r := request(good, call("c", echo, `{}`))
		change(&r)
		return r
	}
	last := func(change func(*message.ToolCallBlock)) toolcall.ProposeRequest {
		return with(func(r *toolcall.ProposeRequest) { change(&r.Calls[1]) })
	}
	for name, row := range map[string]struct {
		r    toolcall.ProposeRequest
		want *message.Error
	}{
		"another version": {with(func(r *toolcall.ProposeRequest) { r.V = 2 }), message.ErrInvalid},
		"no calls":        {with(func(r *toolcall.ProposeRequest) { r.Calls = nil }), message.ErrInvalid},
		"too many calls": {with(func(r *toolcall.ProposeRequest) {
			for i := range toolcall.MaxCallsPerTurn {
				r.Calls = append(r.Calls, call(message.CallID(fmt.Sprint(i)), echo, `{}`))
			}
		}), message.ErrTooLarge},
		"no session":     {with(func(r *toolcall.ProposeRequest) { r.Session = "" }), message.ErrInvalid},
		"no reply":       {with(func(r *toolcall.ProposeRequest) { r.Reply = "" }), message.ErrInvalid},
		"a long session": {with(func(r *toolcall.ProposeRequest) { r.Session = message.SessionID(long) }), message.ErrTooLarge},
		"a long reply":   {with(func(r *toolcall.ProposeRequest) { r.Reply = message.ReplyID(long) }), message.ErrTooLarge},
		"a long agent":   {with(func(r *toolcall.ProposeRequest) { r.Agent = long }), message.ErrTooLarge},
		"no call id":     {last(func(b *message.ToolCallBlock) { b.ID = "" }), message.ErrInvalid},
		"a long call id": {last(func(b *message.ToolCallBlock) { b.ID = message.CallID(long) }), message.ErrTooLarge},
		"the same id":    {last(func(b *message.ToolCallBlock) { b.ID = "good" }), message.ErrInvalid},
		"no tool":        {last(func(b *message.ToolCallBlock) { b.Name = "" }), message.ErrInvalid},
		"a long tool":    {last(func(b *message.ToolCallBlock) { b.Name = long }), message.ErrTooLarge},
		"a long input": {last(func(b *message.ToolCallBlock) {
			b.Input = `{"x":"` + strings.Repeat("x", toolcall.MaxInputBytes) + `"}`
		}), message.ErrTooLarge},
		"allowed already":  {last(func(b *message.ToolCallBlock) { b.State = message.ToolCallAllowed }), message.ErrInvalid},
		"finished already": {last(func(b *message.ToolCallBlock) { b.State = message.ToolCallFinished }), message.ErrInvalid},
		"an unknown state": {last(func(b *message.ToolCallBlock) { b.State = "Pending" }), message.ErrInvalid},
	} {
		_, err := e.bot().Propose(w.Context(), row.r)
		if code := message.AsError("", orUnknown(err)).Code; code != row.want.Code {
			w.Errorf("%s: %v, want %s", name, err, row.want.Code)
		} else {
			w.wantErr(err, row.want)
		}
	}
	w.wantSize(0)
	// values at the limits are accepted
	edge := request(call(message.CallID(long[1:]), echo, `{"x":"`+strings.Repeat("x", toolcall.MaxInputBytes-8)+`"}`))
	edge.Calls[0].State = message.ToolCallPending
	out, err := e.bot().Propose(w.Context(), edge)
	w.must(err)
	w.wantResult(e.finished(out.Calls[0].Key), message.ToolResultSuccess, "ran")
}

func badAnswers(w *world) {
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	size := len(w.records())
	input, long := `{}`, strings.Repeat("x", toolcall.MaxOutputBytes+1)
	for name, row := range map[string]struct {
		change func(*toolcall.Response)
		want   *message.Error
	}{
		"another version":    {func(resp *toolcall.Response) { resp.V = 2 }, message.ErrInvalid},
		"no kind":            {func(resp *toolcall.Response) { resp.Kind = "" }, message.ErrInvalid},
		"an unknown kind":    {func(resp *toolcall.Response) { resp.Kind = "Approve" }, message.ErrInvalid},
		"no digest":          {func(resp *toolcall.Response) { resp.Digest = "" }, message.ErrInvalid},
		"no call":            {func(resp *toolcall.Response) { resp.Call = "" }, message.ErrInvalid},
		"reject with input":  {func(resp *toolcall.Response) { resp.Kind, resp.Input = toolcall.ResponseReject, &input }, message.ErrInvalid},
		"answer with input":  {func(resp *toolcall.Response) { resp.Kind, resp.Input = toolcall.ResponseRespond, &input }, message.ErrInvalid},
		"reject with rules":  {func(resp *toolcall.Response) { resp.Kind, resp.Rules = toolcall.ResponseReject, q.Suggested }, message.ErrInvalid},
		"a long input":       {func(resp *toolcall.Response) { resp.Input = &long }, message.ErrTooLarge},
		"a long feedback":    {func(resp *toolcall.Response) { resp.Kind, resp.Feedback = toolcall.ResponseReject, long }, message.ErrTooLarge},
		"a long output":      {func(resp *toolcall.Response) { resp.Kind, resp.Output = toolcall.ResponseRespond, long }, message.ErrTooLarge},
		"input is no object": {func(resp *toolcall.Response) { bad := `[]`; resp.Input = &bad }, message.ErrInvalid},
	} {
		resp := approve(q)
		row.change(&resp)
		_, err := e.ann().SubmitResponse(w.Context(), resp)
		if code := message.AsError("", orUnknown(err)).Code; code != row.want.Code {
			w.Errorf("%s: %v, want %s", name, err, row.want.Code)
		} else {
			w.wantErr(err, row.want)
		}
	}
	w.wantSize(size)
}

func badRequests(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	out := e.propose(call("x", external, `{}`))[0]
	started := e.submit("started", remote)
	e.start(started, "w1", "x")
	size := len(w.records())
	ctx, worker, long := w.Context(), e.worker("w1"), strings.Repeat("x", toolcall.MaxOutputBytes+1)
	ok := message.ToolResultBlock{State: message.ToolResultSuccess}
	named, tooled := ok, ok
	named.ID, tooled.Name = "other", "other"
	resultOf := func(b message.ToolResultBlock) toolcall.ResultRequest {
		r := resultRequest(started, "x", "")
		r.Result = b
		return r
	}
	for name, row := range map[string]struct {
		err  error
		want *message.Error
	}{
		"start, another version":     {second(worker.Start(ctx, toolcall.StartRequest{V: 2, Key: c.Key, Attempt: 1, Claim: "x"})), message.ErrInvalid},
		"start, no claim":            {second(worker.Start(ctx, toolcall.StartRequest{Key: c.Key, Attempt: 1})), message.ErrInvalid},
		"start, a long claim":        {second(worker.Start(ctx, toolcall.StartRequest{Key: c.Key, Attempt: 1, Claim: long})), message.ErrInvalid},
		"start, no call":             {second(worker.Start(ctx, toolcall.StartRequest{Attempt: 1, Claim: "x"})), message.ErrInvalid},
		"start, unknown":             {second(worker.Start(ctx, toolcall.StartRequest{Key: w.key("unknown"), Attempt: 1, Claim: "x"})), message.ErrNotFound},
		"heartbeat, unknown":         {second(worker.Heartbeat(ctx, toolcall.HeartbeatRequest{Key: w.key("unknown"), Attempt: 1, Claim: "x"})), message.ErrNotFound},
		"heartbeat, another version": {second(worker.Heartbeat(ctx, toolcall.HeartbeatRequest{V: 2, Key: c.Key, Attempt: 1, Claim: "x"})), message.ErrInvalid},
		"heartbeat, no claim":        {second(worker.Heartbeat(ctx, toolcall.HeartbeatRequest{Key: c.Key, Attempt: 1})), message.ErrInvalid},
		"progress, no claim":         {worker.Progress(ctx, toolcall.ProgressRequest{Key: c.Key, Attempt: 1}), message.ErrInvalid},
		"result, no claim":           {second(worker.Result(ctx, toolcall.ResultRequest{Key: c.Key, Attempt: 1, Result: ok})), message.ErrInvalid},
		"resolve, no outcome":        {second(e.operator().Resolve(ctx, toolcall.ResolveRequest{Key: c.Key, Attempt: 1})), message.ErrInvalid},
		"resolve, an unknown one":    {second(e.operator().Resolve(ctx, toolcall.ResolveRequest{Key: c.Key, Attempt: 1, Outcome: "maybe"})), message.ErrInvalid},
		"resolve, a long output":     {second(e.operator().Resolve(ctx, toolcall.ResolveRequest{Key: c.Key, Attempt: 1, Outcome: toolcall.OutcomeHappened, Output: long})), message.ErrTooLarge},
		"resolve, unknown":           {second(e.operator().Resolve(ctx, toolcall.ResolveRequest{Key: w.key("unknown"), Attempt: 1, Outcome: toolcall.OutcomeHappened})), message.ErrNotFound},
		"revoke, a long reason":      {second(e.operator().Revoke(ctx, toolcall.RevokeRequest{Key: c.Key, Reason: long})), message.ErrTooLarge},
		"revoke, unknown":            {second(e.operator().Revoke(ctx, toolcall.RevokeRequest{Key: w.key("unknown")})), message.ErrNotFound},
		"interrupt, a long reason":   {second(e.bot().Interrupt(ctx, toolcall.InterruptRequest{Session: "s", Reply: "r", Reason: long})), message.ErrTooLarge},
		"report, another id":         {second(e.bot().Report(ctx, toolcall.ReportRequest{Key: out.Key, Result: named})), message.ErrInvalid},
		"report, another tool":       {second(e.bot().Report(ctx, toolcall.ReportRequest{Key: out.Key, Result: tooled})), message.ErrInvalid},
		"result, another id":         {second(worker.Result(ctx, resultOf(named))), message.ErrInvalid},
		"result, another tool":       {second(worker.Result(ctx, resultOf(tooled))), message.ErrInvalid},
		"report, running":            {second(e.bot().Report(ctx, toolcall.ReportRequest{Key: out.Key, Result: message.ToolResultBlock{State: message.ToolResultRunning}})), message.ErrInvalid},
		"report, no result":          {second(e.bot().Report(ctx, toolcall.ReportRequest{Key: out.Key})), message.ErrInvalid},
		"report, a result and none":  {second(e.bot().Report(ctx, toolcall.ReportRequest{Key: out.Key, Result: ok, Unknown: true})), message.ErrInvalid},
		"report, unasked and none":   {second(e.bot().Report(ctx, toolcall.ReportRequest{Key: out.Key, Unasked: true, Unknown: true})), message.ErrInvalid},
		"report, unknown":            {second(e.bot().Report(ctx, toolcall.ReportRequest{Key: w.key("unknown"), Result: ok})), message.ErrNotFound},
		"events, no session":         {second(e.ann().Events(ctx, toolcall.EventsRequest{})), message.ErrInvalid},
		"emit, no reply":             {second(e.bot().Emit(ctx, toolcall.EmitRequest{Session: "s", Events: []message.RawJSON{event(1)}})), message.ErrInvalid},
	} {
		if code := message.AsError("", orUnknown(row.err)).Code; code != row.want.Code {
			w.Errorf("%s: %v, want %s", name, row.err, row.want.Code)
		} else {
			w.wantErr(row.err, row.want)
		}
	}
	w.wantSize(size)
}

// strangeIDs are ids that models and users might send.
var strangeIDs = []string{
	"c", "C", "c.d", "c*", "*", ">", "c>", "-", "_", "c d", "c\td", "c\nd", "c\x00d", "\u00e9", "e\u0301", "日本", "%63", "c%2Ed",
	"...", "a/b", "//", "a.b.c.f", "f", "$JS.API", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 10_000), strings.Repeat("é", 5000),
}

// strangeIDsWork checks that ids are opaque: each id that a model invents is a call of its own.
func strangeIDsWork(w *world) {
	e := w.engine()
	for i, id := range strangeIDs {
		for _, r := range []toolcall.ProposeRequest{
			{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{call(message.CallID(id), pay, `{"amount":500}`)}},
			{Session: "s", Reply: message.ReplyID(id), Calls: []message.ToolCallBlock{call("one", pay, `{"amount":500}`)}},
			{Session: message.SessionID(id), Reply: "r2", Calls: []message.ToolCallBlock{call("one", pay, `{"amount":500}`)}},
		} {
			if i%2 == 1 {
				r.Calls[0].Input = `{"amount": 500}`
			}
			out, err := e.bot().Propose(w.Context(), r)
			if err != nil {
				w.Errorf("propose with the id %.40q: %v", id, err)
				continue
			}
			c := out.Calls[0]
			if c.State != message.ToolCallAsking || c.Input != r.Calls[0].Input {
				w.Errorf("the call with the id %.40q is %s with %s", id, describe(c), c.Input)
			}
		}
	}
	for _, id := range []string{"/", ".", ".."} { // no URL can name them
		for _, r := range []toolcall.ProposeRequest{
			{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{call(message.CallID(id), pay, `{}`)}},
			{Session: "s", Reply: message.ReplyID(id), Calls: []message.ToolCallBlock{call("one", pay, `{}`)}},
			{Session: message.SessionID(id), Reply: "r", Calls: []message.ToolCallBlock{call("one", pay, `{}`)}},
		} {
			_, err := e.bot().Propose(w.Context(), r)
			w.wantErr(err, message.ErrInvalid)
		}
	}
	list, err := e.operator().List(w.Context(), toolcall.ListRequest{})
	w.must(err)
	distinct := map[string]bool{}
	for _, id := range strangeIDs {
		distinct[id] = true
	}
	if len(list.Calls) != 3*len(distinct) {
		w.Errorf("%d calls are open, want %d", len(list.Calls), 3*len(distinct))
	}
	for _, c := range list.Calls[:min(12, len(list.Calls))] {
		_, err := e.ann().SubmitResponse(w.Context(), approve(c))
		w.must(err)
		e.finished(c.Key)
		w.wantRuns(c.Key, 1)
	}
}

// brokenText checks text that a Go caller can pass but JSON cannot hold.
func brokenText(w *world) {
	e := w.engine()
	q, c := e.ask("q", deploy, `{}`), e.submit("c", remote)
	out := e.propose(call("x", external, `{}`))[0]
	held := e.unknown("blocked")
	size := len(w.records())
	const bad = "a\xffb"
	ctx := w.Context()
	badOutput := message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: bad}}
	for name, err := range map[string]error{
		"a call id": second(e.bot().Propose(ctx, request(call(bad, echo, `{}`)))),
		"a tool":    second(e.bot().Propose(ctx, request(call("n", bad, `{}`)))),
		"an input":  second(e.bot().Propose(ctx, request(call("n", echo, `{"x":"`+bad+`"}`)))),
		"a session": second(e.bot().Propose(ctx, toolcall.ProposeRequest{Session: bad, Reply: "r", Calls: []message.ToolCallBlock{call("n", echo, `{}`)}})),
		"an agent":  second(e.bot().Propose(ctx, toolcall.ProposeRequest{Session: "s", Reply: "r", Agent: bad, Calls: []message.ToolCallBlock{call("n", echo, `{}`)}})),
		"feedback":  second(e.ann().SubmitResponse(ctx, toolcall.Response{Key: q.Key, Kind: toolcall.ResponseReject, Digest: q.Digest, Feedback: bad})),
		"an output": second(e.ann().SubmitResponse(ctx, toolcall.Response{Key: q.Key, Kind: toolcall.ResponseRespond, Digest: q.Digest, Output: bad})),
		"a claim":   second(e.worker("w1").Start(ctx, toolcall.StartRequest{Key: c.Key, Attempt: 1, Claim: bad})),
		"a report":  second(e.bot().Report(ctx, toolcall.ReportRequest{Key: out.Key, Result: badOutput})),
		"a note":    second(e.operator().Resolve(ctx, toolcall.ResolveRequest{Key: held.Key, Attempt: 1, Outcome: toolcall.OutcomeHappened, Note: bad})),
		"a reason":  second(e.operator().Revoke(ctx, toolcall.RevokeRequest{Key: c.Key, Reason: bad})),
		"a reason ": second(e.bot().Interrupt(ctx, toolcall.InterruptRequest{Session: "s", Reply: "r", Reason: bad})),
		"a name":    second(e.as(toolcall.RoleApprover, bad).SubmitResponse(ctx, reject(q))),
	} {
		if code := message.AsError("", orUnknown(err)).Code; code != message.CodeInvalid && code != message.CodeForbidden {
			w.Errorf("%s: %v, want %s", name, err, message.CodeInvalid)
		}
	}
	w.wantSize(size)
	r := startRequest(c, "x")
	r.Refuse = strings.Repeat("é", toolcall.MaxTextBytes) // is truncated between two characters
	_, err := e.worker("w1").Start(ctx, r)
	w.wantErr(err, message.ErrSuperseded)
}
