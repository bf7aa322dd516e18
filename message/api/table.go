package api

import (
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The roles that may use an operation, in the order in which a peer's role is chosen.
var (
	readers    = []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor, toolcall.RoleRuntime}
	everyone   = append(slices.Clip(readers), toolcall.RoleWorker)
	overseers  = []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor}
	revokers   = []toolcall.Role{toolcall.RoleOperator, toolcall.RoleApprover}
	onlyWorker = []toolcall.Role{toolcall.RoleWorker}
)

// The kinds of subjects to which the roles send operations.
var (
	onRead = map[toolcall.Role]string{
		toolcall.RoleRuntime: "propose", toolcall.RoleApprover: "query", toolcall.RoleOperator: "query", toolcall.RoleAuditor: "query",
	}
	onOversee = map[toolcall.Role]string{toolcall.RoleApprover: "query", toolcall.RoleOperator: "query", toolcall.RoleAuditor: "query"}
	onPropose = map[toolcall.Role]string{toolcall.RoleRuntime: "propose"}
	onRevoke  = map[toolcall.Role]string{toolcall.RoleApprover: "decide", toolcall.RoleOperator: "operate"}
)

const (
	callPath  = "/v1/calls/{session_id}/{reply_id}/{tool_call_id}"
	replyPath = "/v1/sessions/{session_id}/replies/{reply_id}"
	rulePath  = "/v1/standing-approvals/{standing_approval_id}"
)

// What a runtime does with its sessions.
var (
	Propose = Define[toolcall.ProposeRequest, toolcall.ProposeReply](Operation{
		Name: "propose", Class: ClassPropose, Changes: true, Roles: []toolcall.Role{toolcall.RoleRuntime}, NATS: onPropose,
		HTTP: &HTTP{ID: "proposeCalls", Method: "POST", Path: replyPath + "/calls", Tag: "sessions",
			Summary: "Propose tool calls", Doc: "Proposes the calls of one model turn. The policy decides each of them, and allowed calls begin. Repeating a proposal returns the current state of its calls."},
	})
	Wait = Define[toolcall.WaitRequest, toolcall.WaitReply](Operation{
		Name: "wait", Class: ClassWait, Roles: []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor}, NATS: onRead,
		HTTP: &HTTP{ID: "waitForCalls", Method: "GET", Path: replyPath + "/wait", Tag: "sessions",
			Params: []Param{
				{Name: "tool_call_id", Member: "tool_call_ids", Type: "string", Many: true, Doc: "Only these calls; may be repeated. Without it, all calls of the reply so far."},
				{Name: "until", Type: "string", Doc: "What to wait for: finished (default); parked, which is finished or waiting for someone outside the engine; runnable, which is finished, or allowed and yours to run.", Words: []string{"finished", "parked", "runnable"}},
				{Name: "timeout_ms", Type: "integer", Doc: "The longest time to hold the request; default and maximum 30000. Ask again while done is false."},
			},
			Summary: "Wait for calls", Doc: "Holds the request until the wait for all calls is over, or for timeout_ms."},
	}).withHold(func(r *toolcall.WaitRequest) *int64 { return &r.TimeoutMS }, true)
	Begin = Define[toolcall.BeginRequest, *toolcall.Call](Operation{
		Name: "begin", Class: ClassDecide, Changes: true, Repeatable: true, Roles: []toolcall.Role{toolcall.RoleRuntime}, NATS: onPropose,
		HTTP: &HTTP{ID: "beginCall", Method: "POST", Path: callPath + "/begin", Tag: "calls",
			Summary: "Begin an external call", Doc: "Records that the process that sends claim runs the external call now. Run the call only if this succeeds: it fails if the call was revoked, interrupted or denied meanwhile, or if another claim was first. From then on it can no longer be revoked."},
	})
	Report = Define[toolcall.ReportRequest, *toolcall.Call](Operation{
		Name: "report", Class: ClassDecide, Changes: true, Roles: []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleOperator},
		NATS: map[toolcall.Role]string{toolcall.RoleRuntime: "propose", toolcall.RoleOperator: "operate"},
		HTTP: &HTTP{ID: "reportResult", Method: "POST", Path: callPath + "/result", Tag: "calls",
			Summary: "Report the result of an external call", Doc: "Ends an external call with the result that its runtime reports; only the first one counts. With unknown instead of a result, blocks the call until an operator resolves it."},
	})
	Emit = Define[toolcall.EmitRequest, toolcall.EmitReply](Operation{
		Name: "emit", Class: ClassPropose, Changes: true, Roles: []toolcall.Role{toolcall.RoleRuntime}, NATS: onPropose,
		HTTP: &HTTP{ID: "emitEvents", Method: "POST", Path: replyPath + "/events", Tag: "sessions",
			Summary: "Send events of a reply", Doc: "Adds AgentScope events to the reply: text, thinking, model calls. askance makes the events of tool calls itself."},
	}).withCheck(toolcall.EmitRequest.Foreign)
	Interrupt = Define[toolcall.InterruptRequest, toolcall.InterruptReply](Operation{
		Name: "interrupt", Class: ClassStop, Changes: true, Roles: []toolcall.Role{toolcall.RoleOperator, toolcall.RoleApprover, toolcall.RoleRuntime},
		// A runtime has a separate subject for it, which never queues behind its proposals.
		NATS: map[toolcall.Role]string{toolcall.RoleRuntime: "interrupt", toolcall.RoleApprover: "decide", toolcall.RoleOperator: "operate"},
		HTTP: &HTTP{ID: "interruptReply", Method: "POST", Path: replyPath + "/interrupt", Tag: "sessions",
			Summary: "Interrupt a reply", Doc: "Ends every open call of the reply, and refuses new ones."},
	})
)

// Operations of people who decide.
var (
	SubmitResponse = Define[toolcall.Response, *toolcall.Call](Operation{
		Name: "submit_response", Class: ClassDecide, Changes: true, Roles: []toolcall.Role{toolcall.RoleApprover}, NATS: map[toolcall.Role]string{toolcall.RoleApprover: "decide"},
		HTTP: &HTTP{ID: "submitResponse", Method: "POST", Path: callPath + "/response", Tag: "calls",
			Summary: "Respond to an approval request", Doc: "Approves (with edited arguments if input is set), rejects, responds for the tool, skips or delegates. If digest is not that of the open approval request, the server refuses the response and returns the current call: review it again."},
	})
	Revoke = Define[toolcall.RevokeRequest, *toolcall.Call](Operation{
		Name: "revoke", Class: ClassStop, Changes: true, Roles: revokers, NATS: onRevoke,
		HTTP: &HTTP{ID: "revokeCall", Method: "POST", Path: callPath + "/revoke", Tag: "calls",
			Summary: "Revoke an approval", Doc: "Ends an allowed call that has not started."},
	})
	Resolve = Define[toolcall.ResolveRequest, *toolcall.Call](Operation{
		Name: "resolve", Class: ClassDecide, Changes: true, Roles: []toolcall.Role{toolcall.RoleOperator}, NATS: map[toolcall.Role]string{toolcall.RoleOperator: "operate"},
		HTTP: &HTTP{ID: "resolveCall", Method: "POST", Path: callPath + "/resolve", Tag: "calls",
			Summary: "Resolve a call", Doc: "States the outcome of a call whose outcome is unknown or whose runtime reports none, or ends or repeats a call that no worker took or whose attempts were all lost."},
	})
	RevokeStandingApproval = Define[toolcall.RevokeStandingApprovalRequest, *toolcall.StandingApproval](Operation{
		Name: "revoke_standing_approval", Class: ClassStop, Changes: true, Roles: revokers, NATS: onRevoke,
		HTTP: &HTTP{ID: "revokeStandingApproval", Method: "POST", Path: rulePath + "/revoke", Tag: "standing_approvals",
			Summary: "Revoke a standing approval", Doc: "Ends the standing approval at once, and revokes the calls that it allowed and that have not started."},
	})
)

// Operations that read.
var (
	List = Define[toolcall.ListRequest, toolcall.ListReply](Operation{
		Name: "list", Class: ClassRead, Roles: readers, NATS: onRead,
		HTTP: &HTTP{ID: "listCalls", Method: "GET", Path: "/v1/calls", Tag: "calls",
			Params: []Param{
				{Name: "session_id", Type: "string", Doc: "Only calls of this session."},
				{Name: "reply_id", Type: "string", Doc: "Only calls of this reply."},
				{Name: "tool_call_id", Type: "string", Doc: "Only calls with this id."},
				{Name: "tool_name", Type: "string", Doc: "Only calls of this tool."},
				{Name: "agent", Type: "string", Doc: "Only calls of this agent."},
				{Name: "state", Member: "states", Type: "string", Many: true, Doc: "Only calls in one of these states; may be repeated.", Words: message.Words[message.ToolCallState]()},
				{Name: "phase", Member: "phases", Type: "string", Many: true, Doc: "Only calls in one of these phases; may be repeated.", Words: toolcall.PhaseWords()},
				{Name: "all", Type: "boolean", Doc: "Include finished calls."},
				{Name: "after", Type: "integer", Doc: "Where to continue: next of the previous page."},
				{Name: "limit", Type: "integer", Doc: "The page size; default and maximum 500."},
				{Name: "tool_names", Type: "string", Many: true, Doc: "Only calls of one of these tools; may be repeated."},
				{Name: "agents", Type: "string", Many: true, Doc: "Only calls of one of these agents; may be repeated."},
				{Name: "session_ids", Type: "string", Many: true, Doc: "Only calls of one of these sessions; may be repeated."},
				{Name: "rules", Type: "string", Many: true, Doc: "Only calls that one of these rules decided; may be repeated."},
				{Name: "words", Type: "string", Doc: "Only calls that have all of these words in their ids, tool, summary, input, agent, runtime or rule."},
				{Name: "mine", Type: "boolean", Doc: "Only approval requests to which you can respond and have not."},
				{Name: "since", Type: "string", Doc: "Only calls that were proposed at this time (RFC 3339) or later."},
				{Name: "until", Type: "string", Doc: "Only calls that were proposed before this time (RFC 3339)."},
				{Name: "sort", Type: "string", Doc: "The order: deadline (the request that ends first), age (the newest call first), proposed (the oldest call first), tool or agent; a minus sign reverses it.", Words: toolcall.SortWords()},
				{Name: "cursor", Type: "string", Doc: "Where to continue a list with sort: cursor of the previous page."},
				{Name: "newest", Type: "boolean", Doc: "List the calls that finished last first; only for finished calls."},
				{Name: "by", Type: "string", Doc: "Only calls to whose approval request this person responded."},
				{Name: "outcomes", Type: "string", Many: true, Doc: "Only finished calls that ended with one of these causes, such as result, reject or expire; may be repeated."},
				{Name: "result_states", Type: "string", Many: true, Doc: "Only calls whose result has one of these states; may be repeated.", Words: []string{"success", "error", "interrupted", "denied"}},
			},
			Summary: "List calls", Doc: "Lists calls in the order in which they were proposed, unless sort is set. Without all, it lists only open calls. counts has the number of calls in each phase. A page may be short, or even empty, and still have a next or a cursor: continue until there is none."},
	}).withPages(func(r *toolcall.ListRequest) *int { return &r.Limit }, func(r toolcall.ListReply) int { return len(r.Calls) })
	Show = Define[toolcall.ShowRequest, toolcall.ShowReply](Operation{
		Name: "show", Class: ClassRead, Roles: readers, NATS: onRead,
		HTTP: &HTTP{ID: "showCall", Method: "GET", Path: callPath, Tag: "calls",
			Summary: "Show a call", Doc: "Returns the current state and the history of the call, and what its open approval request waits for."},
	})
	Explain = Define[toolcall.ExplainRequest, toolcall.ExplainReply](Operation{
		Name: "explain", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "explainCall", Method: "GET", Path: callPath + "/explain", Tag: "calls",
			Summary: "Explain a decision", Doc: "Shows how the call was decided when it was proposed, and how the current policy decides it."},
	})
	Preview = Define[PreviewRequest, PreviewReply](Operation{
		Name: "preview", Class: ClassRead, Roles: readers, NATS: onRead,
		HTTP: &HTTP{ID: "previewCalls", Method: "POST", Path: replyPath + "/preview", Tag: "sessions",
			Summary: "Preview decisions", Doc: "Shows how the current policy decides these calls, each independently, or an open call as the approver would edit it. Nothing is proposed or recorded."},
	})
	Events = Define[toolcall.EventsRequest, toolcall.EventsReply](Operation{
		Name: "events", Class: ClassWait, Roles: readers, NATS: onRead,
		HTTP: &HTTP{ID: "readEvents", Method: "GET", Path: "/v1/sessions/{session_id}/events", Tag: "sessions", Stream: true,
			Params: []Param{
				{Name: "after", Type: "integer", Doc: "Only events of records after this sequence: next of the previous page."},
				{Name: "reply_id", Type: "string", Doc: "Only events of this reply."},
				{Name: "limit", Type: "integer", Doc: "Records per page; default and maximum 1000."},
				{Name: "wait_ms", Type: "integer", Doc: "How long to wait for new events; maximum 30000."},
			},
			Summary: "Read events", Doc: "Returns the session's AgentScope events in journal order. With Accept: text/event-stream the reply is an endless stream, and Last-Event-ID continues after an event. Otherwise it is one page of JSON, and the server waits up to wait_ms for new events."},
	}).withHold(func(r *toolcall.EventsRequest) *int64 { return &r.WaitMS }, false).
		withPages(func(r *toolcall.EventsRequest) *int { return &r.Limit }, func(r toolcall.EventsReply) int { return len(r.Events) })
	Info = Define[struct{}, toolcall.InfoReply](Operation{
		Name: "info", Class: ClassRead, Roles: everyone, NATS: onRead,
		HTTP: &HTTP{ID: "info", Method: "GET", Path: "/v1/info", Tag: "space",
			Summary: "Describe the engine", Doc: "Says which engine answers and whether it is ready, how durable its writes are, which policy is in force, and how many calls are open or blocked."},
	})
	PolicyStatus = Define[struct{}, PolicyStatusReply](Operation{
		Name: "policy_status", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "policyStatus", Method: "GET", Path: "/v1/policy", Tag: "space",
			Summary: "Show the policy in force", Doc: "Shows the files of the policy, when it came into force, the error of the last reload, and what each rule and the shadow policy decided in the engine that answers."},
	})
	PolicyText = Define[PolicyTextRequest, PolicyTextReply](Operation{
		Name: "policy_text", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "policyText", Method: "GET", Path: "/v1/policy/text", Tag: "space",
			Params: []Param{
				{Name: "bundle", Type: "string", Doc: "A version from the policy status. Without it, the policy in force."},
				{Name: "rule", Type: "string", Doc: "Only this rule, without the files."},
			},
			Summary: "Show the text of a policy", Doc: "Returns the rule files as they were loaded, and the location of each rule. The engine that answers keeps at most 20 versions."},
	})
	ProofStatus = Define[ProofStatusRequest, ProofStatusReply](Operation{
		Name: "proof_status", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "proofStatus", Method: "GET", Path: "/v1/proof", Tag: "space",
			Params:  []Param{{Name: "verify", Type: "boolean", Doc: "Start comparing the whole journal with its checkpoints; later replies contain the state."}},
			Summary: "Show how far the journal is signed", Doc: "Returns the last signed checkpoint with its key, what is damaged, and the last verification by the engine that answers."},
	})
	Receipt = Define[ReceiptRequest, ReceiptReply](Operation{
		// It may sign the journal earlier than the engine would, which affects no decision.
		Name: "receipt", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "makeReceipt", Method: "POST", Path: callPath + "/receipt", Tag: "calls",
			Summary: "Make a receipt", Doc: "Returns the records of the call with their paths to signed checkpoints, without what rules redact. The engine first signs records that are not signed. Anyone can check the receipt with the engine's public key: askance audit check."},
	})
	CheckReceipt = Define[CheckReceiptRequest, CheckReceiptReply](Operation{
		Name: "check_receipt", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "checkReceipt", Method: "POST", Path: "/v1/receipts/check", Tag: "space",
			Summary: "Check a receipt", Doc: "Checks the receipt with the keys of the space's engines. The receipt itself is the evidence: nothing is read from the journal."},
	})
	Load = Define[toolcall.LoadRequest, toolcall.LoadReply](Operation{
		Name: "load", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "reviewerLoad", Method: "GET", Path: "/v1/load", Tag: "space",
			Summary: "Show the load of reviewers", Doc: "Counts the open approval requests and the responses of each approver and group."},
	})
	Activity = Define[toolcall.ActivityRequest, toolcall.ActivityReply](Operation{
		Name: "activity", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "activity", Method: "GET", Path: "/v1/activity", Tag: "space",
			Params: []Param{
				{Name: "since", Type: "string", Doc: "Count what happened at this time or later (RFC 3339); default: from the beginning of the journal."},
				{Name: "until", Type: "string", Doc: "Count what happened before this time (RFC 3339); default: now."},
				{Name: "step_ms", Type: "integer", Doc: "The length of a bucket in milliseconds, a multiple of 1000; by default one that gives at most 60 buckets."},
				{Name: "tool_name", Type: "string", Doc: "Only calls of this tool."},
				{Name: "agent", Type: "string", Doc: "Only calls of this agent."},
				{Name: "recent", Type: "integer", Doc: "How many decisions to list; default 50, maximum 500."},
			},
			Summary: "Show activity", Doc: "Counts what happened to calls, over time and by tool, rule and agent, and how long decisions and runs took. The reply also has the current queues and workers, and the latest decisions. Every engine of the space counts the same."},
	})
	Standings = Define[toolcall.StandingApprovalsRequest, toolcall.StandingApprovalsReply](Operation{
		Name: "standing_approvals", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "listStandingApprovals", Method: "GET", Path: "/v1/standing-approvals", Tag: "standing_approvals",
			Params: []Param{
				{Name: "tool_name", Type: "string", Doc: "Only standing approvals for this tool."},
				{Name: "all", Type: "boolean", Doc: "Include standing approvals that have ended."},
				{Name: "after", Type: "string", Doc: "Where to continue: next of the previous page."},
				{Name: "limit", Type: "integer", Doc: "The page size; default and maximum 200."},
			},
			Summary: "List standing approvals", Doc: "Lists what approvers remembered with their responses. Without all, it lists only what is in force."},
	}).withPages(func(r *toolcall.StandingApprovalsRequest) *int { return &r.Limit }, func(r toolcall.StandingApprovalsReply) int { return len(r.StandingApprovals) })
	ShowStandingApproval = Define[toolcall.ShowStandingApprovalRequest, toolcall.ShowStandingApprovalReply](Operation{
		Name: "show_standing_approval", Class: ClassRead, Roles: overseers, NATS: onOversee,
		HTTP: &HTTP{ID: "showStandingApproval", Method: "GET", Path: rulePath, Tag: "standing_approvals",
			Summary: "Show a standing approval", Doc: "Returns the standing approval with the last hundred calls that it answered."},
	})
)

// Operations of a worker for its calls. Over NATS each has its own subject, which contains the
// tool and the worker.
var (
	Start = Define[toolcall.StartRequest, toolcall.StartReply](ofWorkers("start", true, "startTask",
		"Start a task", "Claims the attempt, or rejects it with refuse. Run only after a reply whose signature you checked. Repeating a claim gets the same answer; superseded and finished mean that there is nothing to run."))
	Heartbeat = Define[toolcall.HeartbeatRequest, toolcall.HeartbeatReply](ofWorkers("heartbeat", false, "sendHeartbeat",
		"Renew the lease of a task", "Tells the engine that the run continues. The reply says whether to cancel it."))
	Progress = Define[toolcall.ProgressRequest, toolcall.ProgressReply](ofWorkers("progress", true, "sendProgress",
		"Report progress", "Sends a line to the people who watch the call."))
	Result = Define[toolcall.ResultRequest, toolcall.ResultReply](ofWorkers("result", true, "sendResult",
		"Report the result of a task", "Ends the attempt with its result. Send it again until the engine replies. With not_begun, the engine offers the call again."))
)

// Operations of a worker for the queue, over HTTP. On NATS the service has separate
// operations for it.
var (
	Next = Define[toolcall.NextTasksRequest, toolcall.NextTasksReply](Operation{
		Name: "next_tasks", Class: ClassOffer, Roles: onlyWorker,
		HTTP: workHTTP("next", "takeTasks", "Take tasks", "Waits for tasks of one tool. The token must name the tool."),
	}).withHold(func(r *toolcall.NextTasksRequest) *int64 { return &r.WaitMS }, true)
	Ack = Define[toolcall.AckTaskRequest, toolcall.AckTaskReply](Operation{
		Name: "ack_task", Class: ClassWork, Roles: onlyWorker,
		HTTP: workHTTP("ack", "ackTask", "Remove a task from the queue", "Removes a task after the reply to its start. With return, the queue offers the task again."),
	})
	Keys = Define[struct{}, toolcall.EngineKeysReply](Operation{
		Name: "engine_keys", Class: ClassWork, Roles: onlyWorker,
		HTTP: &HTTP{ID: "engineKeys", Method: "GET", Path: "/v1/work/keys", Tag: "work",
			Summary: "List the engines' keys", Doc: "Returns the Ed25519 keys that sign grants and start replies. Pin one of them: it vouches for the later ones."},
	})
)

func workHTTP(name, id, summary, doc string) *HTTP {
	return &HTTP{ID: id, Method: "POST", Path: "/v1/work/" + name, Tag: "work", Summary: summary, Doc: doc}
}

func ofWorkers(name string, changes bool, id, summary, doc string) Operation {
	return Operation{Name: name, Class: ClassWork, Changes: changes, Roles: onlyWorker, NATS: map[toolcall.Role]string{toolcall.RoleWorker: name}, HTTP: workHTTP(name, id, summary, doc)}
}

// Table returns every operation of the engine.
func Table() []*Operation {
	return []*Operation{
		Propose.Operation, Wait.Operation, Begin.Operation, Report.Operation, Emit.Operation, Interrupt.Operation,
		SubmitResponse.Operation, Revoke.Operation, Resolve.Operation, RevokeStandingApproval.Operation,
		List.Operation, Show.Operation, Explain.Operation, Preview.Operation, Events.Operation, Info.Operation, PolicyStatus.Operation, PolicyText.Operation, ProofStatus.Operation, Receipt.Operation, CheckReceipt.Operation, Load.Operation, Activity.Operation, Standings.Operation, ShowStandingApproval.Operation,
		Start.Operation, Heartbeat.Operation, Progress.Operation, Result.Operation, Next.Operation, Ack.Operation, Keys.Operation,
	}
}

// PreviewRequest contains calls as they would be proposed or, instead, an edit.
type PreviewRequest struct {
	toolcall.ProposeRequest
	// Edit is how the caller would edit the arguments of an open call of the reply.
	Edit *PreviewEdit `json:"edit,omitzero"`
}

// PreviewEdit is an edit to preview.
type PreviewEdit struct {
	Call   message.CallID `json:"tool_call_id"`
	Digest string         `json:"digest,omitzero"` // of the open approval request; "" for any
	Input  string         `json:"input"`
}

// EditOutcome is what an edit would do.
type EditOutcome string

// The outcomes of an edit.
const (
	EditRuns    EditOutcome = "runs"    // the call is approved as edited, or allowed
	EditAsks    EditOutcome = "asks"    // an approval is needed for the edited call
	EditRefused EditOutcome = "refused" // the approval request stays open unchanged
)

// PreviewReply contains the decision about each call, in the order of the request.
type PreviewReply struct {
	Bundle string          `json:"bundle"` // the policy that decided
	Calls  []PreviewedCall `json:"calls"`
}

// PreviewedCall is the decision about a call that is not proposed. A later proposal may be
// decided differently, because the policy, the time and standing approvals change.
type PreviewedCall struct {
	Call message.CallID `json:"tool_call_id"`
	Tool string         `json:"tool_name"`
	// Definition is what the runtime declared about the tool.
	Definition *toolcall.DefinitionRef `json:"definition,omitzero"`
	// Refused says why the call never reaches the policy: an unknown tool, or input that is
	// not valid for it.
	Refused string `json:"refused,omitzero"`
	// Decision is absent for a refused call.
	Decision *toolcall.Decision `json:"decision,omitzero"`
	// Trace is the explanation of the decision, as in toolcall.ExplainReply. Only
	// approvers, operators and auditors get it, for a request of one call.
	Trace message.RawJSON `json:"trace,omitzero"`
	// Summary and Risk are what the call would have.
	Summary string   `json:"summary,omitzero"`
	Risk    []string `json:"risk,omitzero"`
	// Edit is what the edit in the request would do; absent if there was none.
	Edit EditOutcome `json:"edit,omitzero"`
	// Needs is who would have to approve the edited call.
	Needs *toolcall.Tally `json:"needs,omitzero"`
}
