package api

import "github.com/askance-dev/askance/message"

const replyPath = "/v1/sessions/{session_id}/replies/{reply_id}"

func sessionOps(keep *kept) []*op {
	return []*op{
		post[ProposeBody](op{id: "proposeCalls", path: replyPath + "/calls", tag: "sessions", roles: asRuntime, takes: takeProposal, gives: giveProposed,
			summary: "Propose tool calls", doc: "The calls of one model turn. Each is decided; those that are allowed begin. Proposing the same again gives their present state."}, keep, propose),
		get(op{id: "waitForCalls", path: replyPath + "/wait", tag: "sessions", roles: asWaiter, gives: giveWaited, params: []param{
			{Name: "tool_call_id", Type: "string", Many: true, Doc: "Only these calls; may be repeated. Without it, all that the reply has so far."},
			{Name: "until", Type: "string", Doc: "finished (default), or parked: finished or waiting for somebody outside.", Words: []string{"finished", "parked"}},
			{Name: "timeout_ms", Type: "integer", Doc: "How long the request is held at most; default and maximum 30000. Ask again while done is false."},
		}, summary: "Wait for calls", doc: "A long poll: it is answered when all calls have settled, or when the time is over."}, wait),
		post[ReasonBody](op{id: "interruptReply", path: replyPath + "/interrupt", tag: "sessions", roles: asStopper,
			summary: "Interrupt a reply", doc: "Ends every open call of the reply."}, keep, interrupt),
		post[EventsBody](op{id: "emitEvents", path: replyPath + "/events", tag: "sessions", roles: asRuntime,
			summary: "Stream events", doc: "AgentScope events of the reply: text, thinking, model calls. Those of tool calls are made by askance."}, keep, emit),
		stream(op{id: "readEvents", path: "/v1/sessions/{session_id}/events", tag: "sessions", roles: asReader, params: eventParams,
			summary: "Read events", doc: "The session's AgentScope events in journal order. With Accept: text/event-stream it is a stream without an end; each event has an id from which Last-Event-ID goes on. Otherwise it is one page of JSON, held for wait_ms until there is something."}, events),
	}
}

func (a *ask) session() message.SessionID { return a.key().Session }

func propose(a *ask, in ProposeBody) (message.ProposeReply, error) {
	k := a.key()
	return a.c.Propose(a.ctx(), message.ProposeRequest{Session: k.Session, Reply: k.Reply, Agent: in.Agent, Calls: in.Calls})
}

func wait(a *ask) (message.WaitReply, error) {
	k := a.key()
	r := message.WaitRequest{Session: k.Session, Reply: k.Reply, Until: message.WaitUntil(a.q.text("until")), TimeoutMS: min(int64(a.q.count("timeout_ms")), 30_000)}
	for _, id := range a.q.texts("tool_call_id") {
		r.Calls = append(r.Calls, message.CallID(id))
	}
	return a.c.Wait(a.ctx(), r)
}

func interrupt(a *ask, in ReasonBody) (message.InterruptReply, error) {
	k := a.key()
	return a.c.Interrupt(a.ctx(), message.InterruptRequest{Session: k.Session, Reply: k.Reply, Reason: in.Reason})
}

func emit(a *ask, in EventsBody) (message.EmitReply, error) {
	k := a.key()
	r := message.EmitRequest{Session: k.Session, Reply: k.Reply, Events: in.Events}
	if err := r.Foreign(); err != nil {
		return message.EmitReply{}, err
	}
	return a.c.Emit(a.ctx(), r)
}
