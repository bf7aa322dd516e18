// Generated from gateway/api/openapi.json by scripts/generate.mjs. Do not edit.

/** AckTaskBody removes a task from its queue after the start was answered, or returns it. */
export interface AckTaskBody {
  /** with return: offer it no earlier */
  delay_ms?: number;
  /** offer it again */
  return?: boolean;
  subject?: string;
  task: string;
  tool_name: string;
}

/** AckTaskReply confirms that the queue did it. */
export interface AckTaskReply {
}

/** ActivityBucket counts what happened at Start or later and before the next bucket. */
export interface ActivityBucket {
  /** by the policy, or by a standing approval */
  allowed: number;
  /** by people, edited calls included */
  approved: number;
  /** requests for approval */
  asked: number;
  /** calls that needed an operator */
  blocked: number;
  /** by the policy */
  denied: number;
  /** requests without a response in time */
  expired: number;
  /** calls that ran, with an error */
  failed: number;
  /** with their reply */
  interrupted: number;
  proposed: number;
  /** unknown tool, or bad input */
  refused: number;
  /** by people */
  rejected: number;
  /** by people, for the tool */
  responded: number;
  /** attempts that were lost or returned */
  retried: number;
  /** before the start */
  revoked: number;
  /** those of Allowed by a standing approval */
  standing: number;
  start: string;
  /** attempts */
  started: number;
  /** calls that ran, without an error */
  succeeded: number;
}

/** ActivityCell holds the counts of the calls of one tool that one rule decided; proposed is the number of decisions. */
export interface ActivityCell {
  /** by the policy, or by a standing approval */
  allowed: number;
  /** by people, edited calls included */
  approved: number;
  /** requests for approval */
  asked: number;
  /** calls that needed an operator */
  blocked: number;
  /** by the policy */
  denied: number;
  /** requests without a response in time */
  expired: number;
  /** calls that ran, with an error */
  failed: number;
  /** with their reply */
  interrupted: number;
  proposed: number;
  /** unknown tool, or bad input */
  refused: number;
  /** by people */
  rejected: number;
  /** by people, for the tool */
  responded: number;
  /** attempts that were lost or returned */
  retried: number;
  /** before the start */
  revoked: number;
  rule: string;
  /** those of Allowed by a standing approval */
  standing: number;
  /** attempts */
  started: number;
  /** calls that ran, without an error */
  succeeded: number;
  tool_name: string;
}

/** ActivityCounts are events, each counted when it happened. */
export interface ActivityCounts {
  /** by the policy, or by a standing approval */
  allowed: number;
  /** by people, edited calls included */
  approved: number;
  /** requests for approval */
  asked: number;
  /** calls that needed an operator */
  blocked: number;
  /** by the policy */
  denied: number;
  /** requests without a response in time */
  expired: number;
  /** calls that ran, with an error */
  failed: number;
  /** with their reply */
  interrupted: number;
  proposed: number;
  /** unknown tool, or bad input */
  refused: number;
  /** by people */
  rejected: number;
  /** by people, for the tool */
  responded: number;
  /** attempts that were lost or returned */
  retried: number;
  /** before the start */
  revoked: number;
  /** those of Allowed by a standing approval */
  standing: number;
  /** attempts */
  started: number;
  /** calls that ran, without an error */
  succeeded: number;
}

/** ActivityOpen counts the open approval requests. */
export interface ActivityOpen {
  /** since the proposal */
  by_age: ActivityOpenUpTo[];
  by_time_left: ActivityOpenUpTo[];
  requests: number;
}

/** ActivityOpenUpTo counts the requests whose time is below UpToMS, but not below the UpToMS of the entry before. */
export interface ActivityOpenUpTo {
  later?: number;
  no_deadline?: number;
  /** 0 means all others */
  up_to_ms?: number;
  /** ending within 15 minutes */
  urgent?: number;
}

/** ActivityQueue is what the allowed calls of one tool and route wait for. */
export interface ActivityQueue {
  /** calls that need an operator */
  blocked: number;
  /** calls that wait for a worker */
  depth: number;
  /** Listening is the number of requests for tasks that now wait at the server: a worker has at least one while it has free slots. It is absent if unknown. */
  listening?: number;
  /** when the first of them was offered */
  oldest?: string;
  placement: "local" | "remote" | "external";
  /** calls that wait for their next attempt */
  retrying: number;
  route?: string;
  running: number;
  tool_name: string;
  /** heard of within the last hour */
  workers: ActivityWorker[];
}

/** ActivityReply is what one engine counted in the journal. */
export interface ActivityReply {
  at: string;
  /** without gaps, in order of time */
  buckets: ActivityBucket[];
  /** "" where the runtime named none */
  by_agent: ActivityShare[];
  /** "" where no rule matched; proposed is the number of decisions */
  by_rule: ActivityShare[];
  by_tool: ActivityTool[];
  by_tool_and_rule: ActivityCell[];
  /** CompleteSince is set if older events were forgotten: windows and buckets may lack earlier events. Totals from the beginning of the journal are still complete. */
  complete_since?: string;
  /** now, independent of the window */
  open: ActivityOpen;
  queued: ActivityTimes;
  /** now, independent of the window */
  queues: ActivityQueue[];
  /** latest first, independent of the window */
  recent: RecentDecision[];
  run: ActivityTimes;
  /** as asked */
  since?: string;
  step_ms: number;
  /** ToDecision is the time from a request for approval to its response or expiry, Queued from the offer of an attempt to its start, Run from its start to its result. */
  to_decision: ActivityTimes;
  total: ActivityCounts;
  /** as asked */
  until?: string;
}

/** ActivityShare holds the counts of one name. */
export interface ActivityShare {
  /** by the policy, or by a standing approval */
  allowed: number;
  /** by people, edited calls included */
  approved: number;
  /** requests for approval */
  asked: number;
  /** calls that needed an operator */
  blocked: number;
  /** by the policy */
  denied: number;
  /** requests without a response in time */
  expired: number;
  /** calls that ran, with an error */
  failed: number;
  /** with their reply */
  interrupted: number;
  name: string;
  proposed: number;
  /** unknown tool, or bad input */
  refused: number;
  /** by people */
  rejected: number;
  /** by people, for the tool */
  responded: number;
  /** attempts that were lost or returned */
  retried: number;
  /** before the start */
  revoked: number;
  /** those of Allowed by a standing approval */
  standing: number;
  /** attempts */
  started: number;
  /** calls that ran, without an error */
  succeeded: number;
}

/** ActivityTimes is a distribution of times. */
export interface ActivityTimes {
  /** empty if Count is 0 */
  buckets: ActivityUpTo[];
  count: number;
  /** estimated within its bucket, like P90MS and P99MS */
  p50_ms: number;
  p90_ms: number;
  p99_ms: number;
  sum_ms: number;
}

/** ActivityTool holds the counts and times of one tool. */
export interface ActivityTool {
  /** by the policy, or by a standing approval */
  allowed: number;
  /** by people, edited calls included */
  approved: number;
  /** requests for approval */
  asked: number;
  /** calls that needed an operator */
  blocked: number;
  /** by the policy */
  denied: number;
  /** requests without a response in time */
  expired: number;
  /** calls that ran, with an error */
  failed: number;
  /** with their reply */
  interrupted: number;
  name: string;
  proposed: number;
  queued: ActivityTimes;
  /** unknown tool, or bad input */
  refused: number;
  /** by people */
  rejected: number;
  /** by people, for the tool */
  responded: number;
  /** attempts that were lost or returned */
  retried: number;
  /** before the start */
  revoked: number;
  run: ActivityTimes;
  /** those of Allowed by a standing approval */
  standing: number;
  /** attempts */
  started: number;
  /** calls that ran, without an error */
  succeeded: number;
  to_decision: ActivityTimes;
}

/** ActivityUpTo counts the times above the previous bucket and up to UpToMS; 0 means no limit. */
export interface ActivityUpTo {
  count: number;
  up_to_ms: number;
}

/** ActivityWorker is a worker, or the engine that runs local calls. */
export interface ActivityWorker {
  /** the first 20 of them */
  calls: Key[];
  /** ClockAheadMS is how far the worker's clock is ahead of the engine's if it differs, negative if behind; ClockWithinMS is the accuracy. */
  clock_ahead_ms?: number;
  clock_within_ms?: number;
  last_heard?: string;
  name: string;
  /** calls of this queue */
  running: number;
}

/** Approval is the consent of one person or rule, as repeated in a grant. */
export interface Approval {
  at: string;
  by: Principal;
  /** Signature is the person's own signature, with which a worker need not trust the engine: see ApproverList. */
  signature?: ApproverSignature;
}

/** ApprovalRequest is what a person is asked or, for a call that a rule allowed, what would have been asked. */
export interface ApprovalRequest {
  /** content hash of the policy bundle */
  bundle: string;
  /** Cwd is the folder in which the runtime runs the call; see [Call]. */
  cwd?: string;
  /** Definition is what the runtime declared about the tool. */
  definition?: DefinitionRef;
  /** Hidden are the paths into the arguments that rules redact. Salt is the salt of the commitments that stand for hidden values in the digest; it is stored in the journal and never shown. Without it Input is already redacted. */
  hidden?: string[];
  /** the raw JSON text that will run, after all edits */
  input: string;
  /** why it asked (or allowed) */
  reason: string;
  reply_id?: string;
  requirement: Requirement;
  /** name of the rule that decided; "" for the fallback */
  rule: string;
  salt?: string;
  session_id: string;
  /** where that rule comes from */
  source: string;
  space: string;
  /** Text is what the person sees above the arguments. */
  text: string;
  tool_call_id?: string;
  tool_name: string;
  /** 1 */
  v: number;
}

/** ApproverSet is the people whom one rule accepts: those listed or in one of the groups. */
export interface ApproverSet {
  /** in the order of time */
  escalation?: EscalationStep[];
  groups?: string[];
  /** 0 means that of the requirement */
  quorum?: number;
  rule: string;
  users?: string[];
}

/** ApproverSignature is an approver's own signature on the approval of one request, so that not even an engine can forge an approval. */
export interface ApproverSignature {
  /** see KeyID */
  key_id: string;
  /** base64url Ed25519 */
  sig: string;
  /** no start at or after this time */
  until: string;
}

/** Attempt is one attempt to run the call. */
export interface Attempt {
  /** the owner's own id for this start; "" until started */
  claim?: string;
  /** when the run is cancelled; zero if never */
  deadline?: string;
  /** remote attempts only */
  grant?: Grant;
  /** silence after which the owner counts as dead */
  lease_ms?: number;
  /** 1, 2, …; 0 if there is none yet */
  number?: number;
  /** offered again if no worker has started it by then */
  offer_until?: string;
  offered_at?: string;
  /** how often this attempt was offered, including this time */
  offers?: number;
  started_at?: string;
  /** the authenticated owner, once started */
  worker?: string;
}

/** BeginBody takes an external call for the process that is about to run it. */
export interface BeginBody {
  /** Claim is a random id of the process: only the first one may run the call. The same request may be sent again. */
  claim: string;
}

/** Budget limits the sum of one numeric argument over the further calls for which a standing approval answers. */
export interface Budget {
  /** a decimal number as text, stored exactly */
  limit: string;
  /** path of the argument, such as args.cents; its values are never negative */
  path: string;
}

/** BudgetUse is what a decision has taken from a budget. */
export interface BudgetUse {
  amount?: string;
  budget_id: string;
}

/** Call is the full state of one tool call. */
export interface Call {
  /** the agent's name, as the runtime gave it */
  agent?: string;
  attempt?: Attempt;
  /** Batch is in records that are older than Order. Such a call is exclusive. */
  batch?: unknown;
  /** attempts that started and were not returned, or have an unknown outcome; each may have had its effect */
  begun?: number;
  /** pending behind the open approval request of this call */
  behind?: string;
  blocked?: "" | "unknown" | "dead_letter" | "no_worker" | "returned" | "clock" | "approver_key";
  /** BlockedReason explains a Blocked that is shown but not stored. */
  blocked_reason?: string;
  /** the last transition */
  cause: string;
  /** Cwd is the folder in which the runtime runs the call, as it said; "" means the engine's. */
  cwd?: string;
  /** the policy's latest decision */
  decision?: Decision;
  /** Definition is what the runtime declared about the tool; nil if it declared nothing or the engine has its own configuration of the tool. */
  definition?: DefinitionRef;
  /** Denial tells the agent why the call did not run; nil if it may have run. */
  denial?: Denial;
  /** of Request */
  digest?: string;
  /** First is the journal sequence of the call's first event record, by which calls are ordered. The first event record itself cannot contain it (see At). */
  first_seq?: number;
  /** raw JSON as it will run, after an approver's edit */
  input: string;
  /** which calls of its reply it waits for */
  order?: "" | "shared" | "exclusive";
  /** Parent is the call within which this one was made, or nil. */
  parent?: Parent;
  /** set in replies and never stored; Phase computes it */
  phase?: "waiting" | "asking" | "ready" | "queued" | "running" | "retrying" | "blocked" | "finished";
  placement?: "local" | "remote" | "external";
  /** Proposal is the digest of what was proposed (tool and raw input). The same ids with another digest are a conflict. */
  proposal: string;
  proposed_at: string;
  /** number of event records of this call, including this one */
  records: number;
  /** Redact are the paths that rules hide in a call for which no approval request exists (yet). */
  redact?: string[];
  /** rules that an approver accepted with the response */
  remember?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
  reply_id?: string;
  /** what was asked, or would have been */
  request?: ApprovalRequest;
  /** Requester is what is known about the runtime's user, or nil if nothing is or no rule reads it. */
  requester?: Requester;
  result?: {
    created_at?: string;
    finished_at?: string | null;
    id: string;
    metadata?: Record<string, unknown>;
    name: string;
    /** Text, or a list of content blocks. */
    output: string | Array<Record<string, unknown>>;
    /** ToolResultState is how a tool call ended. */
    state?: "success" | "error" | "interrupted" | "denied" | "running";
    type: "tool_result";
  };
  /** ResultDigest is the SHA-256 of the result as its sender sent it, without ids and times of blocks: the same result sent again gets the same answer, and a different one is refused. For a call that hides arguments it is an HMAC of that (see SealResult), because a result may repeat a short secret that could be guessed from a plain hash. */
  result_digest?: string;
  /** when the next attempt is offered */
  retry_at?: string;
  /** Returned says which worker returned the last task, and why. */
  returned?: TaskReturn;
  risk?: string[];
  /** the runtime that proposed it */
  runtime: string;
  /** Seq is the journal sequence of the call's last record. It is not part of the event record; readers set it (see At). */
  seq?: number;
  session_id: string;
  space: string;
  /** what the approval remembered with terms, as of then */
  standing_approvals?: StandingApproval[];
  /** AgentScope's state */
  state: "pending" | "asking" | "allowed" | "submitted" | "finished";
  /** Step is how many steps of the approval request's plan have been recorded. */
  step?: number;
  suggested_rules?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
  /** Summary describes in one line what would run, as people may see it; Risk lists warnings from the tool's annotations. Like InPhase, both are set in replies and never stored. */
  summary?: string;
  tool_call_id?: string;
  /** never changes */
  tool_name: string;
  /** Trace is the trace of the proposal, for monitoring; no decision or digest depends on it. */
  traceparent?: string;
  updated_at: string;
  votes?: Vote[];
}

/** ChangeEvent is the data of an event of GET /v1/calls/stream. */
export interface ChangeEvent {
  /** when */
  at: string;
  /** who caused it */
  by?: Principal;
  /** its state after it */
  call: Call;
  /** the last transition */
  kind: string;
  seq: number;
  /** what its open approval request waits for */
  waiting?: Waiting;
}

/** CheckReceiptBody contains a receipt to check with the keys of the engine. */
export interface CheckReceiptBody {
  receipt: unknown;
}

/** CheckReceiptReply is the verdict about a receipt. */
export interface CheckReceiptReply {
  attempts?: number;
  /** The rest is what a valid receipt proves. */
  call?: Key;
  /** of the last step */
  cause?: string;
  ended?: boolean;
  first_seq?: number;
  from_the_beginning?: boolean;
  /** of the engines that signed */
  key_ids?: string[];
  last_seq?: number;
  /** why it is not valid */
  reason?: string;
  records?: number;
  /** records that show less than was stored */
  redacted?: number;
  result_state?: "success" | "error" | "interrupted" | "denied" | "running";
  state?: "pending" | "asking" | "allowed" | "submitted" | "finished";
  tool_name?: string;
  valid: boolean;
  votes?: Vote[];
}

/** ClockReading says how a clock differs from that of the engine that answers. */
export interface ClockReading {
  /** negative: behind */
  ahead_ms: number;
  /** when it was measured, by the engine's clock */
  at: string;
  /** "worker NAME", or "journal" for the NATS server */
  who: string;
  /** accuracy of the measurement */
  within_ms: number;
}

/** DeadLetter is a delivery that was abandoned after its last attempt. */
export interface DeadLetter {
  /** when it was abandoned */
  at: string;
  attempts: number;
  destination: string;
  /** of the last attempt */
  error: string;
  /** of the event record */
  seq: number;
}

/** DeadLettersReply lists dead letters. */
export interface DeadLettersReply {
  dead_letters: DeadLetter[];
}

/** Decision is the policy's decision about the call, as event records store it. */
export interface Decision {
  behavior: "allow" | "deny" | "ask" | "passthrough";
  /** Budget is what the call has taken from the budget of the rule that allowed it. */
  budget?: BudgetUse;
  bundle: string;
  /** Denial is what agents are told if the call is denied. */
  denial?: DenialHint;
  /** rule errors; each failed closed */
  errors?: string[];
  /** Besides are further standing approvals without which the call would not have been allowed: each covers a part of the call. */
  further_standing_approval_ids?: string[];
  /** Headline is set if the first line of Message is the rule's message about this call. */
  headline?: boolean;
  message?: string;
  reason: string;
  /** Recheck names rules whose conditions must hold again when the call begins. */
  recheck?: string[];
  /** Route is the subject on which workers take the call, if rules name one: only workers of that route may run it. */
  route?: string;
  rule?: string;
  source?: string;
  /** Standing is the standing approval that allowed what the policy asks about. */
  standing_approval_id?: string;
  /** TimeoutMS is the longest run of an attempt that the rules permit, in milliseconds; 0 if they set none. */
  timeout_ms?: number;
}

/** DeclaredTool is a definition with its hash. */
export interface DeclaredTool {
  annotations?: ToolAnnotations;
  description?: string;
  /** "sha256:" and the hex SHA-256 of the RFC 8785 form */
  hash: string;
  /** InputSchema is a JSON Schema (2020-12) of the input; without it any object is valid. */
  input_schema?: unknown;
  name: string;
}

/** DefinitionRef identifies the definition under which a call is decided. */
export interface DefinitionRef {
  /** First is the hash of the session's first definition of the tool, if it differs from Hash. */
  first_hash?: string;
  hash: string;
}

/** Denial tells the agent why its call did not run. */
export interface Denial {
  /** what would be allowed instead */
  allowed?: string;
  /** who rejected the call */
  by?: string;
  /** Cause is the step that ended the call: deny, reject, expire, revoke or refuse. */
  cause: string;
  /** whom to ask */
  contact?: string;
  reason: string;
  /** the rule that denies, or asked */
  rule?: string;
}

/** DenialHint is what the operator tells agents when a rule denies their calls. */
export interface DenialHint {
  /** what would be allowed instead */
  allowed?: string;
  /** whom to ask */
  contact?: string;
  /** Reason is the reason of the denial as the model sees it; absent until the call is denied. */
  reason?: string;
}

/** EmitBody appends streamed events of a reply (text, thinking, model calls) to the journal. */
export interface EmitBody {
  events: unknown[];
}

/** EmitReply contains the sequence of the last stored event. */
export interface EmitReply {
  seq: number;
}

/** EngineKey is one of the keys with which the engines of a space have signed grants, as they announce it. */
export interface EngineKey {
  /** id of the key that vouches for it, if any */
  by?: string;
  id: string;
  /** as FormatPublicKey writes it */
  public_key: string;
  /** zero while its grants are valid */
  retired?: string;
  retired_by?: string;
  /** base64url Ed25519 of RetiredBy */
  retired_sig?: string;
  /** base64url Ed25519 of By */
  sig?: string;
  /** zero if from the beginning */
  since?: string;
}

/** EngineKeysReply contains the engines' signing keys, oldest first. */
export interface EngineKeysReply {
  keys: KeyRing;
}

/** EscalationStep lets more people respond from At on. */
export interface EscalationStep {
  at: string;
  groups?: string[];
  users?: string[];
}

/** EventsReply contains events and the cursor to continue from. */
export interface EventsReply {
  events: SequencedEvent[];
  next: number;
}

/** ExplainReply explains why a call was decided as it was, and how the current policy judges it. */
export interface ExplainReply {
  /** Decision is the recorded decision; absent if the call is not decided yet. */
  decision?: Decision;
  /** Definition and Parent are the call's. */
  definition?: DefinitionRef;
  parent?: Parent;
  /** Recorded is the explanation recorded with the decision, in the form of Trace, if rules wanted it recorded (audit: {level: full}). It contains truncated: true if it was too large to be stored whole. */
  recorded?: unknown;
  reply_id?: string;
  session_id: string;
  space: string;
  /** StandingApprovals are the standing approvals that the decision relies on, in their current state. */
  standing_approvals: StandingStatus[];
  state: "pending" | "asking" | "allowed" | "submitted" | "finished";
  tool_call_id?: string;
  /** Trace is how the current policy judges the call, rule by rule, in the form of askance policy explain --json; its bundle shows whether that is the policy that decided. Trace and Recorded are absent if they would show what was redacted; Withheld then says so for Trace. */
  trace?: unknown;
  withheld?: string;
}

/** FateReply is the new state of a dead letter. */
export interface FateReply {
  fate: "delivered" | "stale" | "dropped";
}

/** Grant is the engine's signed permission to run one attempt of one call. */
export interface Grant {
  approvals: Approval[];
  attempt: number;
  bundle: string;
  /** of the ApprovalRequest that was decided */
  digest: string;
  /** a start after this is refused */
  expires: string;
  idempotency_key: string;
  /** which engine key signed; see KeyID */
  key_id: string;
  nonce: string;
  not_before: string;
  reply_id?: string;
  /** only a worker of this route may run it; "" means a worker without a route */
  route?: string;
  session_id: string;
  /** base64url Ed25519 over the rest */
  sig?: string;
  space: string;
  tool_call_id?: string;
  tool_name: string;
  /** 1 */
  v: number;
}

/** HeartbeatBody says that an attempt is alive. */
export interface HeartbeatBody {
  attempt: number;
  claim: string;
  /** ClockMS is how far the worker's clock is ahead of the engines' (negative if behind), measured from their replies; 0 if it is not known to differ. */
  clock_ms?: number;
  /** accuracy of ClockMS */
  clock_within_ms?: number;
  reply_id: string;
  session_id: string;
  tool_call_id: string;
}

/** HeartbeatReply tells the worker whether to continue. */
export interface HeartbeatReply {
  /** At is the engine's clock, against which the worker measures its own. */
  at?: string;
  cancel?: boolean;
  reason?: string;
  stale?: boolean;
}

/** HistoryEntry is one line of a call's history. */
export interface HistoryEntry {
  at: string;
  /** Attempt and Worker are those after the record. */
  attempt?: number;
  by: Principal;
  kind: string;
  note?: Note;
  path?: Step[];
  seq: number;
  worker?: string;
}

/** InfoReply describes the engine that answers. */
export interface InfoReply {
  /** AnchorNew means that the journal had records but no anchor file when this engine started: only checkpoints show an earlier loss. */
  anchor_new?: boolean;
  blocked: number;
  /** the policy in force */
  bundle: string;
  /** Clocks are the clocks of workers and the journal that differ from the engine's. */
  clocks?: ClockReading[];
  /** cached, fsynced, quorum or memory */
  durability: string;
  /** DurabilityWhy is why the engine assumes the weakest durability, if the server and its operator state none. */
  durability_why?: string;
  engine: string;
  /** NotReady is why the engine takes no new calls now, or "". */
  not_ready?: string;
  /** open calls */
  open: number;
  policy_error?: string;
  /** Returned counts the open calls that are not running because workers returned their tasks. */
  returned?: number;
  space: string;
  tools: string[];
  version: string;
}

/** InterruptBody ends every open call of a reply. */
export interface InterruptBody {
  reason?: string;
}

/** InterruptReply lists the calls that the interrupt closed. */
export interface InterruptReply {
  calls: Call[];
}

/** Key is the identity of a call: call ids come from models and repeat across replies, so only all four parts together identify one. */
export interface Key {
  reply_id?: string;
  session_id: string;
  space: string;
  tool_call_id?: string;
}

/** KeyRing are a space's signing keys, oldest first. */
export type KeyRing = EngineKey[];

/** ListReply contains the listed calls, in the requested order. */
export interface ListReply {
  calls: Call[];
  /** Counts are the numbers of calls in each phase that meet all conditions except the phase. Only the first page has them, and only if the journal need not be read. */
  counts?: Record<string, number>;
  /** Cursor continues a list with Sort; "" at the end. */
  cursor?: string;
  /** 0 at the end */
  next?: number;
  /** Waiting says for each open approval request what it waits for. It is computed from Calls: engines leave it out, and askance list --json adds it. */
  waiting?: Waiting[];
}

/** LoadReply is the load of the space's reviewers, according to one engine's copy of the journal. */
export interface LoadReply {
  at: string;
  /** by name */
  groups: ReviewerLoad[];
  limits?: ReviewerLimits;
  /** open approval requests */
  open: number;
  /** Others counts people and groups beyond the number that is counted separately. */
  others?: number;
  /** by name */
  people: ReviewerLoad[];
  /** Refused is how many responses and requests this engine has refused since it started, because of Limits. */
  refused?: number;
  /** as asked */
  since?: string;
  /** those of Open that any approver may answer */
  unassigned: number;
  /** as asked */
  until?: string;
}

/** Loss is a part of a message that a dict has no place for. */
export interface Loss {
  /** Message is the id of the message. */
  message_id: string;
  /** What was left out. */
  what: string;
}

/** MsgsBody is a body of type application/vnd.agentscope.v1+json. */
export interface MsgsBody {
  /** Messages are AgentScope 1.x messages, as Msg.to_dict() returns them: name, role, content, metadata, id, timestamp. */
  messages: unknown[];
}

/** MsgsReply is a reply of type application/vnd.agentscope.v1+json: the calls as AgentScope 1.x messages. */
export interface MsgsReply {
  /** Done: there is nothing to wait for. */
  done: boolean;
  /** Lost is what AgentScope 1.x cannot express. */
  lost?: Loss[];
  /** Messages are an assistant's message with the tool_use blocks and a system's with the tool_result blocks, for Msg.from_dict(). metadata.askance.calls has the open calls, with the digest of the open approval request. */
  messages: unknown[];
}

/** NextTasksBody asks for tasks of one queue, over HTTP. */
export interface NextTasksBody {
  /** default 1, maximum 64: ask only for tasks that can start at once */
  limit?: number;
  /** the subject to which rules route calls; the token must name it */
  subject?: string;
  tool_name: string;
  /** longest time to hold the request; default and maximum 30000 */
  wait_ms?: number;
}

/** NextTasksReply contains the tasks, or none if none came. */
export interface NextTasksReply {
  tasks: OfferedTask[];
}

/** Note records something that changed nothing, such as a late result. */
export interface Note {
  attempt?: number;
  result?: {
    created_at?: string;
    finished_at?: string | null;
    id: string;
    metadata?: Record<string, unknown>;
    name: string;
    /** Text, or a list of content blocks. */
    output: string | Array<Record<string, unknown>>;
    /** ToolResultState is how a tool call ended. */
    state?: "success" | "error" | "interrupted" | "denied" | "running";
    type: "tool_result";
  };
  text?: string;
  /** e.g. "late_result" */
  what: string;
}

/** OfferedTask is a task for a worker, which has 10 seconds to start it before the queue offers it again. */
export interface OfferedTask {
  /** how often it was delivered, including this time */
  delivered?: number;
  /** the submitted event record, with the call and its grant */
  record: unknown;
  /** identifies it in an AckTaskRequest */
  task: string;
}

/** Parent is the call within which another one was made, in its state at that time. */
export interface Parent {
  agent?: string;
  /** Around are the other runtimes of the calls around the parent, one name of each. */
  around?: string[];
  /** of the call that has this parent; 1 if the parent itself has none */
  depth: number;
  reply_id: string;
  runtime: string;
  session_id: string;
  tool_call_id: string;
  tool_name: string;
}

/** ParentKey names the call within which the calls of a proposal are made, such as the call that started a sub-agent. */
export interface ParentKey {
  reply_id: string;
  session_id: string;
  tool_call_id: string;
}

/** Part is one group of people that has to agree. */
export interface Part {
  /** names of those who approved */
  approved?: string[];
  groups?: string[];
  /** how many more must approve */
  missing: number;
  /** how many people must approve */
  quorum: number;
  rule?: string;
  users?: string[];
}

/** PolicyDifference is a kind of call on which the policy in force and its shadow differ. */
export interface PolicyDifference {
  count: number;
  last: string;
  live: PolicyVerdict;
  mode: "default" | "accept_edits" | "explore" | "bypass" | "dont_ask";
  reply: string;
  /** of the last call */
  session: string;
  shadow: PolicyVerdict;
  tool: string;
}

/** PolicyFile is a rule file of the policy in force. */
export interface PolicyFile {
  digest: string;
  layer: string;
  name: string;
}

/** PolicyFileText is a rule file as it was loaded. */
export interface PolicyFileText {
  digest: string;
  layer: string;
  name: string;
  /** Text is absent if the texts of all files together exceed MaxPolicyText; ask for single rules then. */
  text?: string;
}

/** PolicyRuleCount is what one rule has done since it came into force in this form. */
export interface PolicyRuleCount {
  /** absent for session rules */
  behavior?: "allow" | "deny" | "ask" | "passthrough";
  /** calls that it decided */
  decided: number;
  /** evaluations that failed */
  failed: number;
  /** the file that contains the rule */
  file?: string;
  /** from 1 */
  line?: number;
  rule: string;
  since?: string;
  /** matches in modes that only warn or audit */
  watched: number;
}

/** PolicyRuleText is a rule with its location. */
export interface PolicyRuleText {
  behavior: "allow" | "deny" | "ask" | "passthrough";
  /** the last line */
  end: number;
  file: string;
  line: number;
  rule: string;
  /** Text is the rule as written in its file; absent unless the request names a rule. */
  text?: string;
  tools: string[];
}

/** PolicyStatusReply describes the policy of one engine: what is in force, and what it has decided. */
export interface PolicyStatusReply {
  /** Alarm says why the newest policy was refused, or "" if it is in force; AlarmSince is when reloads began to fail. */
  alarm: string;
  alarm_since?: string;
  /** the hash of the policy in force */
  bundle: string;
  by_rule: PolicyRuleCount[];
  /** decisions */
  calls: number;
  engine: string;
  /** Failures counts evaluation failures that belong to no rule, such as bad input. */
  failures: number;
  /** Files are the files of the policy in force, Ignored other files in their folders. */
  files: PolicyFile[];
  ignored: string[];
  /** Loaded is when the policy came into force; zero before the first valid one. */
  loaded: string;
  /** policies that came into force */
  loads: number;
  /** reloads that failed */
  refused: number;
  rules: number;
  /** Shadow is absent if there is no shadow policy. */
  shadow?: ShadowPolicyStatus;
  /** Versions are the latest policies whose text PolicyText has, newest first. An engine with a data folder also has those from before its start. */
  versions: PolicyVersion[];
}

/** PolicyTextReply is the text of a policy that is or was in force in one engine. */
export interface PolicyTextReply {
  bundle: string;
  engine: string;
  files: PolicyFileText[];
  /** when it came into force */
  loaded: string;
  /** in the order of the files */
  rules: PolicyRuleText[];
}

/** PolicyVerdict is the short form of a decision. */
export interface PolicyVerdict {
  behavior: "allow" | "deny" | "ask" | "passthrough";
  rule: string;
  step: string;
}

/** PolicyVersion is a policy that is or was in force. */
export interface PolicyVersion {
  bundle: string;
  /** when it came into force */
  loaded: string;
  rules: number;
}

/** PreviewBody contains calls as they would be proposed or, instead, an edit. */
export interface PreviewBody {
  agent?: string;
  /** Cwd is the folder in which the runtime runs these calls itself: an absolute path. Policies read relative paths from it, and people see it. Without it the engine's folder counts. */
  cwd?: string;
  /** Edit is how the caller would edit the arguments of an open call of the reply. */
  edit?: PreviewEdit;
  /** External names tools of these calls that the engine need not know, because the runtime or its frontend runs them: the policy decides about such a call like any other, and once it is allowed it waits for a Report. A tool that the engine runs elsewhere is refused. */
  external_tools?: string[];
  /** Parent is the call within which these calls are made, such as the one that started a sub-agent. It must belong to another reply. */
  parent?: ParentKey;
  tool_calls: Array<{
    created_at?: string;
    /** end of the model's output, not of the call */
    finished_at?: string | null;
    id: string;
    input: string;
    name: string;
    /** ToolCallState is the state of a tool call. */
    state?: "pending" | "asking" | "allowed" | "submitted" | "finished";
    suggested_rules?: Array<{
      /** Behavior is what a permission rule or a decision says about a tool call. */
      behavior: "allow" | "deny" | "ask" | "passthrough";
      rule_content: string | null;
      source: string;
      tool_name: string;
    }>;
    type: "tool_call";
  }>;
  /** Tools defines tools that the runtime or its frontend runs, and makes them external like External does. A definition holds for the session: later proposals need not repeat it. A tool that the engine is configured with keeps the engine's definition. */
  tools?: ToolDefinition[];
}

/** PreviewEdit is an edit to preview. */
export interface PreviewEdit {
  /** of the open approval request; "" for any */
  digest?: string;
  input: string;
  tool_call_id: string;
}

/** PreviewReply contains the decision about each call, in the order of the request. */
export interface PreviewReply {
  /** the policy that decided */
  bundle: string;
  calls: PreviewedCall[];
}

/** PreviewedCall is the decision about a call that is not proposed. */
export interface PreviewedCall {
  /** Decision is absent for a refused call. */
  decision?: Decision;
  /** Definition is what the runtime declared about the tool. */
  definition?: DefinitionRef;
  /** Edit is what the edit in the request would do; absent if there was none. */
  edit?: string;
  /** Needs is who would have to approve the edited call. */
  needs?: Tally;
  /** Refused says why the call never reaches the policy: an unknown tool, or input that is not valid for it. */
  refused?: string;
  risk?: string[];
  /** Summary and Risk are what the call would have. */
  summary?: string;
  tool_call_id: string;
  tool_name: string;
  /** Trace is the explanation of the decision, as in toolcall.ExplainReply. Only approvers, operators and auditors get it, for a request of one call. */
  trace?: unknown;
}

/** Principal is the acting person or program. */
export interface Principal {
  /** Auth says how the name was established: "in-process" (by the program that the engine is part of), "nats-jwt" (the NATS server demands a signed login, which names the subjects that it may use), "nats-subject" (only by a NATS subject; the engine does not know whether the server guards it), "http-token" and "oidc:<issuer>" (a bearer token, or an identity provider, over HTTP), "unix-peer:<uid>" (the kernel named the user who connected to a Unix socket), "http-loopback" (not authenticated: any process of the machine). It is stored with each vote. */
  auth: string;
  name: string;
  role: "runtime" | "approver" | "worker" | "operator" | "auditor" | "engine";
}

export interface Problem {
  call?: Call;
  code: "invalid" | "too_large" | "not_found" | "conflict" | "digest_mismatch" | "finished" | "archived" | "wrong_state" | "forbidden" | "foreign" | "interrupted" | "superseded" | "over_limit" | "overloaded" | "unavailable" | "full" | "foreign_stream" | "damaged" | "unknown_outcome" | "internal";
  detail?: string;
  hint?: string;
  status: number;
  title: string;
  type: string;
}

/** ProgressBody sends a line of progress. */
export interface ProgressBody {
  attempt: number;
  claim: string;
  /** 1, 2, … within the attempt */
  n: number;
  reply_id: string;
  session_id: string;
  text: string;
  tool_call_id: string;
}

/** ProgressReply confirms that the line was forwarded. */
export interface ProgressReply {
}

/** ProofStatusReply reports how far the journal is signed, and what is damaged. */
export interface ProofStatusReply {
  /** Anchor identifies the checkpoint: store it elsewhere, and check it with askance audit verify --anchor. */
  anchor?: string;
  checkpoint?: number;
  /** Damage lists what the journal lacks according to its checkpoints and the engine's anchor. */
  damage: string[];
  engine?: string;
  /** of the journal */
  first_seq: number;
  key_id?: string;
  last_seq: number;
  /** Losses describe losses of records that operators accepted. */
  losses: string[];
  signed_at?: string;
  /** Signed is the last sequence that a signed checkpoint covers, or 0 if nothing is signed. The next fields are that checkpoint's number, time, engine, key and hash. */
  signed_seq: number;
  /** the last one of this engine */
  verification?: Verification;
}

/** ProposeBody submits the tool calls of one model turn, in the model's order. */
export interface ProposeBody {
  agent?: string;
  /** Cwd is the folder in which the runtime runs these calls itself: an absolute path. Policies read relative paths from it, and people see it. Without it the engine's folder counts. */
  cwd?: string;
  /** External names tools of these calls that the engine need not know, because the runtime or its frontend runs them: the policy decides about such a call like any other, and once it is allowed it waits for a Report. A tool that the engine runs elsewhere is refused. */
  external_tools?: string[];
  /** Parent is the call within which these calls are made, such as the one that started a sub-agent. It must belong to another reply. */
  parent?: ParentKey;
  tool_calls: Array<{
    created_at?: string;
    /** end of the model's output, not of the call */
    finished_at?: string | null;
    id: string;
    input: string;
    name: string;
    /** ToolCallState is the state of a tool call. */
    state?: "pending" | "asking" | "allowed" | "submitted" | "finished";
    suggested_rules?: Array<{
      /** Behavior is what a permission rule or a decision says about a tool call. */
      behavior: "allow" | "deny" | "ask" | "passthrough";
      rule_content: string | null;
      source: string;
      tool_name: string;
    }>;
    type: "tool_call";
  }>;
  /** Tools defines tools that the runtime or its frontend runs, and makes them external like External does. A definition holds for the session: later proposals need not repeat it. A tool that the engine is configured with keeps the engine's definition. */
  tools?: ToolDefinition[];
}

/** ProposeReply contains the current state of each proposed call, in order. */
export interface ProposeReply {
  calls: Call[];
}

/** ReceiptBody asks for the receipt of a call. */
export interface ReceiptBody {
}

/** ReceiptReply contains a receipt, which proves the history of a call without a server. */
export interface ReceiptReply {
  receipt: unknown;
}

/** RecentDecision is one decision about a call. */
export interface RecentDecision {
  agent?: string;
  at: string;
  /** the person; empty for the policy or an expiry */
  by?: string;
  reply_id?: string;
  rule?: string;
  session_id: string;
  space: string;
  /** empty once the engine has forgotten the call */
  summary: string;
  /** since the approval request */
  took_ms?: number;
  tool_call_id?: string;
  tool_name: string;
  verdict: "allow" | "ask" | "deny" | "refuse" | "approve" | "reject" | "respond" | "expire";
}

/** RememberLimits is how far the rules that ask allow a response to be remembered. */
export interface RememberLimits {
  /** Same are paths into the call, such as args.customer_id. It answers for a later call only if that has the same value at each path. */
  same?: string[];
  /** longest time from the approval on */
  ttl_ms: number;
  /** limit of further calls; 0 means none */
  uses?: number;
}

/** ReportBody reports the result of an external call, or that its outcome is unknown. */
export interface ReportBody {
  result?: {
    created_at?: string;
    finished_at?: string | null;
    id: string;
    metadata?: Record<string, unknown>;
    name: string;
    /** Text, or a list of content blocks. */
    output: string | Array<Record<string, unknown>>;
    /** ToolResultState is how a tool call ended. */
    state?: "success" | "error" | "interrupted" | "denied" | "running";
    type: "tool_result";
  };
  /** Unasked reports a call that ran before it was decided: the agent's own prompt was faster, or its hook failed. The call ends, and its record says so. */
  unasked?: boolean;
  /** Unknown reports, instead of a result, that the runtime does not know whether the call ran: an operator must resolve it, or the runtime reports a result after all. */
  unknown?: boolean;
}

/** Requester describes the user on whose behalf a call is proposed, from the credentials of the proposal or from the directory. */
export interface Requester {
  groups: string[];
  /** where they come from, as in a Vote */
  groups_from: string;
}

/** Requirement says who must agree and until when. */
export interface Requirement {
  /** Approvers are sets of people; each set must agree. */
  approvers?: ApproverSet[];
  /** Deadline is when the approval request expires; zero means never. */
  deadline?: string;
  editors?: string[];
  /** ExcludeEditor means that approvals of Editors, who changed the arguments after they were proposed, do not count. */
  exclude_editor?: boolean;
  /** ExcludeRequester excludes Requester, on whose behalf the call is made, from responding, and RequestersAround, on whose behalf the calls around it are made. If the requester is unknown, no response is accepted. */
  exclude_requester?: boolean;
  final_deadline?: string;
  /** OnExpiry is what happens at Deadline; with escalate the approval request ends at FinalDeadline. */
  on_expiry?: "deny" | "escalate";
  /** Quorum is how many people of each part without its own quorum must approve; 0 means one. */
  quorum?: number;
  /** Remember limits what a response may remember with terms. Nil means nothing if rules ask; if no rule asks, suggested rules may be remembered for the session. */
  remember?: RememberLimits;
  requester?: string;
  requesters_around?: string[];
  /** Signed means that an approval counts only with the approver's own signature. */
  signed?: boolean;
  /** Users may respond; if it is empty, no list of people is required. */
  users: string[];
}

/** ResolveBody resolves a blocked call, or one that its runtime runs. */
export interface ResolveBody {
  /** the attempt to resolve, as a fence */
  attempt: number;
  note?: string;
  outcome: "happened" | "did_not_happen" | "run_again";
  output?: string;
}

/** ResponseBody responds to an open approval request. */
export interface ResponseBody {
  digest: string;
  /** Feedback, with kind reject, is shown to the model in the result text. */
  feedback?: string;
  /** Input, with kind approve, replaces the arguments; the policy decides again. */
  input?: string;
  kind: "approve" | "reject" | "respond" | "skip" | "delegate";
  /** Note, with kind skip or delegate, is for the people who respond next. */
  note?: string;
  /** Output, with kind respond, becomes the tool's result. */
  output?: string;
  /** Remember, with kind approve, remembers rules with terms: they are counted and limited, and can be revoked. With input they are checked against the edited call. */
  remember?: StandingTerms;
  /** ID, if set, is the same when the same response is sent again: a response that is already recorded is then answered with the current call. It is random, with at most 128 bytes. */
  response_id?: string;
  /** Rules are rules to remember for the session; only suggested ones are accepted and, with input, only those that cover the edited call. */
  rules?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
  /** Signature, with kind approve and without input, is made with the approver's own key. */
  signature?: ApproverSignature;
  /** To, with kind delegate, is the name of the person who should respond. */
  to?: string;
}

/** ResultBody reports the result of an attempt; workers send it again until it is answered. */
export interface ResultBody {
  attempt: number;
  claim: string;
  /** NotBegun, if set, says why the owner never began to run the attempt and never will. Result must then be empty: the call is offered as a new attempt. */
  not_begun?: string;
  reply_id: string;
  result?: {
    created_at?: string;
    finished_at?: string | null;
    id: string;
    metadata?: Record<string, unknown>;
    name: string;
    /** Text, or a list of content blocks. */
    output: string | Array<Record<string, unknown>>;
    /** ToolResultState is how a tool call ended. */
    state?: "success" | "error" | "interrupted" | "denied" | "running";
    type: "tool_result";
  };
  session_id: string;
  tool_call_id: string;
}

/** ResultReply says that the result is durable (Stored), or that it came too late and was only recorded as a note. */
export interface ResultReply {
  state: "pending" | "asking" | "allowed" | "submitted" | "finished";
  stored: boolean;
}

/** ReviewerLimits limit what one reviewer may do and get; zero means no limit. */
export interface ReviewerLimits {
  /** MaxOpen is how many open approval requests may wait for one reviewer by name. Beyond it no request is delegated to them, and a proposed call is refused if its approval request could be answered only by people at this limit. */
  max_open?: number;
  /** PerHour is the same for sixty minutes. */
  per_hour?: number;
  /** PerMinute is how many responses of one reviewer, of any kind, are accepted within sixty seconds. */
  per_minute?: number;
}

/** ReviewerLoad is the load of one person or group. */
export interface ReviewerLoad {
  /** Answered counts approvals, rejections and results given for a tool, in total and by kind. A group's are those of its members to approval requests that ask the group. */
  answered: number;
  approved: number;
  last_hour?: number;
  /** LastMinute and LastHour are how many responses of any kind came within the last sixty seconds or sixty minutes before At, independent of the window; 0 for groups. */
  last_minute: number;
  /** MedianMS is the median time from the approval request to the response, to within 5%. */
  median_ms: number;
  name: string;
  /** Open counts approval requests that name the person or group, or were delegated to the person, and wait for their response. */
  open: number;
  /** skipped or delegated; not included in Answered */
  passed: number;
  rejected: number;
  responded: number;
  /** TotalMS is the sum of those times. */
  total_ms: number;
  /** Within2S counts the responses within two seconds, which is too fast to have read. */
  within_2s: number;
}

/** Revocation says who ended something, and why. */
export interface Revocation {
  at: string;
  by: Principal;
  reason?: string;
}

/** RevokeBody revokes an allowed call that has not been started. */
export interface RevokeBody {
  reason?: string;
}

/** RevokeStandingApprovalBody ends a standing approval at once. */
export interface RevokeStandingApprovalBody {
  reason?: string;
}

/** SequencedEvent is an event with the sequence of the record from which it comes. */
export interface SequencedEvent {
  event: unknown;
  seq: number;
}

/** ShadowPolicyStatus is what a shadow policy would have done. */
export interface ShadowPolicyStatus {
  alarm: string;
  bundle: string;
  compared: number;
  /** most frequent first */
  differences: PolicyDifference[];
  differing: number;
  rules: number;
  /** calls of kinds beyond the first 200 */
  unlisted: number;
}

/** ShowReply contains the call and its event records, oldest first. */
export interface ShowReply {
  call: Call;
  /** Definition is what the runtime declared about the tool. */
  definition?: DeclaredTool;
  history: HistoryEntry[];
  /** Waiting says what the open approval request waits for, as in ListReply. */
  waiting?: Waiting;
}

/** ShowStandingApprovalReply contains a standing approval, and the last hundred calls for which counted uses were spent, oldest first. */
export interface ShowStandingApprovalReply {
  standing_approval: StandingApproval;
  uses: StandingUse[];
}

/** StandingApproval is a rule that an approver remembered with a response. */
export interface StandingApproval {
  agent?: string;
  arguments: string;
  /** Definition is the hash of what the runtime had declared about the tool: under another definition it is another tool. */
  definition_hash?: string;
  /** of the approval request that was answered */
  digest: string;
  /** the call whose approval granted it */
  from: Key;
  granted_at: string;
  granted_by: Vote[];
  /** Left is what is left of the budget. */
  left?: string;
  /** Plain marks suggested rules that were accepted unchanged. The policy treats them as rules of the session. They end only if revoked, and their uses are not counted. */
  plain?: boolean;
  reason: string;
  revoked?: Revocation;
  /** Rule, Source and Reason are those of the approval request that was answered: the approval answers only for the same approval request. */
  rule?: string;
  /** Same is the value of the approved call at each path of the limits. */
  same?: Record<string, string>;
  /** Seq is the journal sequence of its last event record, or 0 before the first. It is not part of the record. */
  seq?: number;
  /** Session, User, Agent and Arguments are those of the approved call. The scope determines which of them matter. Arguments is a digest. */
  session_id: string;
  source: string;
  space: string;
  /** Spent identifies the calls whose uses are counted, each by a hash, so that the same call is counted only once. */
  spent?: string[];
  standing_approval_id: string;
  /** Judged (state) is the state by which the engine decides. It is set in replies and never stored. */
  state?: "active" | "used_up" | "expired" | "revoked";
  /** complete */
  terms: StandingTerms;
  tool_name: string;
  /** the use that this event record counts */
  use?: StandingUse;
  user: string;
  /** Within are the suggested rules that an edited rule narrows: they must also cover a call. */
  within?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
}

/** StandingApprovalsReply contains standing approvals, sorted by id. */
export interface StandingApprovalsReply {
  /** "" at the end */
  next?: string;
  standing_approvals: StandingApproval[];
}

/** StandingStatus is a standing approval with its current state. */
export interface StandingStatus {
  standing_approval: StandingApproval;
  state: "active" | "used_up" | "expired" | "revoked";
  /** UsesLeft is how many more calls it can answer for; absent if its uses are not counted. */
  uses_left?: number;
}

/** StandingTerms are what an approver wants remembered, and its limits. */
export interface StandingTerms {
  /** Budget limits the sum over those calls. */
  budget?: Budget;
  /** Rules are allow rules for the tool of the call. They must cover the call and be no wider than those that the approval request suggested. Empty means the suggested ones. */
  rules?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
  /** Scope defaults to session. */
  scope?: "call_like" | "session" | "agent" | "user" | "space";
  /** Until is when it ends; zero means as late as the policy allows. */
  until?: string;
  /** Uses is for how many further calls it answers, at most 1000; 0 means as many as the policy allows. */
  uses?: number;
}

/** StandingUse is one call that a standing approval answered for. */
export interface StandingUse {
  /** taken from the budget */
  amount?: string;
  at: string;
  call: Key;
}

/** StartBody claims the current attempt of a submitted call. */
export interface StartBody {
  attempt: number;
  claim: string;
  /** Nonce is the nonce of the grant that the worker checked: a start that arrives after the attempt was offered again with another grant is superseded. */
  grant_nonce?: string;
  /** Refuse, if set, says why the worker cannot run the call, such as an unknown engine key. The call stays open: its task is returned and offered again. */
  refuse?: string;
  reply_id: string;
  /** Request identifies this request: the signed reply repeats it, so no reply can answer another request. It is random, with at most 128 bytes. */
  request?: string;
  session_id: string;
  /** Task is the task that delivered the attempt: the engine removes it from the queue with the reply. If that fails, the task is delivered again and its start is superseded. */
  task?: string;
  tool_call_id: string;
}

/** StartReply is the engine's signed permission to run one attempt now. */
export interface StartReply {
  /** the engine's time of the answer, UTC */
  at: string;
  attempt: number;
  claim: string;
  deadline?: string;
  /** Fresh is set if this very request stored the start, so the lease began after the request was sent. Otherwise an earlier request with the same claim may have stored it. */
  fresh: boolean;
  /** of the attempt's grant */
  grant_nonce: string;
  heartbeat_ms: number;
  idempotency_key: string;
  /** which engine key signed; see KeyID */
  key_id: string;
  lease_ms: number;
  reply_id?: string;
  /** of the StartRequest that it answers */
  request?: string;
  session_id: string;
  /** base64url Ed25519 over the rest */
  sig?: string;
  space: string;
  tool_call_id?: string;
  /** 1 */
  v: number;
}

/** Step is one transition of the state machine in an event record. */
export interface Step {
  cause: string;
  from: "" | "pending" | "asking" | "allowed" | "submitted" | "finished";
  to: "pending" | "asking" | "allowed" | "submitted" | "finished";
}

/** Tally is the result of counting the votes on an approval request against its requirement. */
export interface Tally {
  /** every part has enough approvals */
  agreed: boolean;
  parts: Part[];
}

/** TaskReturn records that a worker did not begin an attempt, for a reason of its own such as a missing engine key. */
export interface TaskReturn {
  at: string;
  reason: string;
  /** in a row, this one included */
  times: number;
  worker: string;
}

/** Tool is a tool of the space. */
export interface Tool {
  description?: string;
  /** JSON Schema of the arguments */
  input_schema?: unknown;
  name: string;
  placement: "local" | "remote" | "external";
}

/** ToolAnnotations are the hints of MCP and the tools file. */
export interface ToolAnnotations {
  destructive?: boolean;
  idempotent?: boolean;
  open_world?: boolean;
  read_only?: boolean;
}

/** ToolDefinition is what a runtime declares about a tool that it runs itself. */
export interface ToolDefinition {
  annotations?: ToolAnnotations;
  description?: string;
  /** InputSchema is a JSON Schema (2020-12) of the input; without it any object is valid. */
  input_schema?: unknown;
  name: string;
}

/** ToolsReply lists the tools by name. */
export interface ToolsReply {
  tools: Tool[];
}

/** Verification is a comparison of the whole journal with its checkpoints. */
export interface Verification {
  began_at: string;
  checkpoints?: number;
  covered_to_seq?: number;
  ended_at?: string;
  /** why it could not be completed */
  error?: string;
  findings: VerifiedFinding[];
  /** findings; the first ones follow */
  found: number;
  ok: boolean;
  /** the sequence reached so far */
  read_seq: number;
  records?: number;
  running: boolean;
  through_seq: number;
  uncovered?: number;
}

/** VerifiedFinding is a difference between the journal and what was signed. */
export interface VerifiedFinding {
  call?: string;
  /** changed, removed, …: see PROOF.md */
  kind: string;
  seq?: number;
  through_seq?: number;
  what: string;
}

/** Vote is a response as event records store it. */
export interface Vote {
  at: string;
  by: Principal;
  /** of the approval request that was answered */
  digest: string;
  edited?: boolean;
  feedback?: string;
  /** Groups are the person's groups, at the time of the response, that the requirement names, and GroupsFrom is the directory that provided them. */
  groups?: string[];
  groups_from?: string;
  kind: "approve" | "reject" | "respond" | "skip" | "delegate";
  /** Made, for an edit, is the digest of the approval request with the new arguments, if the edit counts as an approval of it. */
  made?: string;
  /** for skip and delegate, for people */
  note?: string;
  /** Remember is what this approval wants remembered with terms. */
  remember?: StandingTerms;
  /** of the response, if its sender gave one */
  response_id?: string;
  /** Rules are rules that this approval wants remembered. */
  rules?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
  /** Signature is the person's own signature of an approval, which the engine has checked. */
  signature?: ApproverSignature;
  /** Step is how many steps of the requirement's plan had been reached. */
  step?: number;
  /** for delegate: who should respond */
  to?: string;
  /** Void says why the approval does not count with the current keys. It is set in replies and never stored. */
  void?: string;
}

/** WaitReply contains the current state; Done says whether the wait is over. */
export interface WaitReply {
  calls: Call[];
  done: boolean;
}

/** Waiting describes what an open approval request waits for: who has approved, who must still approve, and what happens next. */
export interface Waiting {
  /** every part has enough approvals */
  agreed: boolean;
  digest: string;
  /** Ends is when the approval request expires and denies; zero means never. */
  ends?: string;
  next_groups?: string[];
  next_only?: boolean;
  /** NextStep is when the plan asks other people: NextUsers and NextGroups, in addition to those who may already respond, or instead of them if NextOnly is set. */
  next_step?: string;
  next_users?: string[];
  parts: Part[];
  reply_id?: string;
  session_id: string;
  space: string;
  tool_call_id?: string;
}

/** WhoamiReply describes the credentials. */
export interface WhoamiReply {
  /** how the name was authenticated; votes record it */
  auth: string;
  expires?: string;
  name: string;
  roles: Array<"runtime" | "approver" | "worker" | "operator" | "auditor" | "engine">;
  space: string;
}

/** The method and path of each operation, and what it does, for errors. */
export const operations = {
  activity: { method: "GET", path: "/v1/activity", does: "show activity" },
  listCalls: { method: "GET", path: "/v1/calls", does: "list calls" },
  watchCalls: { method: "GET", path: "/v1/calls/stream", does: "watch calls" },
  showCall: { method: "GET", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}", does: "show a call" },
  beginCall: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/begin", does: "begin an external call" },
  explainCall: { method: "GET", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/explain", does: "explain a decision" },
  makeReceipt: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/receipt", does: "make a receipt" },
  resolveCall: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/resolve", does: "resolve a call" },
  submitResponse: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/response", does: "respond to an approval request" },
  reportResult: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/result", does: "report the result of an external call" },
  revokeCall: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/revoke", does: "revoke an approval" },
  info: { method: "GET", path: "/v1/info", does: "describe the engine" },
  reviewerLoad: { method: "GET", path: "/v1/load", does: "show the load of reviewers" },
  policyStatus: { method: "GET", path: "/v1/policy", does: "show the policy in force" },
  policyText: { method: "GET", path: "/v1/policy/text", does: "show the text of a policy" },
  proofStatus: { method: "GET", path: "/v1/proof", does: "show how far the journal is signed" },
  checkReceipt: { method: "POST", path: "/v1/receipts/check", does: "check a receipt" },
  readEvents: { method: "GET", path: "/v1/sessions/{session_id}/events", does: "read events" },
  proposeCalls: { method: "POST", path: "/v1/sessions/{session_id}/replies/{reply_id}/calls", does: "propose tool calls" },
  emitEvents: { method: "POST", path: "/v1/sessions/{session_id}/replies/{reply_id}/events", does: "send events of a reply" },
  interruptReply: { method: "POST", path: "/v1/sessions/{session_id}/replies/{reply_id}/interrupt", does: "interrupt a reply" },
  previewCalls: { method: "POST", path: "/v1/sessions/{session_id}/replies/{reply_id}/preview", does: "preview decisions" },
  waitForCalls: { method: "GET", path: "/v1/sessions/{session_id}/replies/{reply_id}/wait", does: "wait for calls" },
  listStandingApprovals: { method: "GET", path: "/v1/standing-approvals", does: "list standing approvals" },
  showStandingApproval: { method: "GET", path: "/v1/standing-approvals/{standing_approval_id}", does: "show a standing approval" },
  revokeStandingApproval: { method: "POST", path: "/v1/standing-approvals/{standing_approval_id}/revoke", does: "revoke a standing approval" },
  listTools: { method: "GET", path: "/v1/tools", does: "list tools" },
  listDeadLetters: { method: "GET", path: "/v1/webhooks/dead", does: "list dead letters of webhooks" },
  dropDeadLetter: { method: "DELETE", path: "/v1/webhooks/dead/{destination}/{seq}", does: "drop a dead letter of a webhook" },
  retryDeadLetter: { method: "POST", path: "/v1/webhooks/dead/{destination}/{seq}/retry", does: "retry a dead letter of a webhook" },
  whoami: { method: "GET", path: "/v1/whoami", does: "show your identity" },
  ackTask: { method: "POST", path: "/v1/work/ack", does: "remove a task from the queue" },
  sendHeartbeat: { method: "POST", path: "/v1/work/heartbeat", does: "renew the lease of a task" },
  engineKeys: { method: "GET", path: "/v1/work/keys", does: "list the engines' keys" },
  takeTasks: { method: "POST", path: "/v1/work/next", does: "take tasks" },
  sendProgress: { method: "POST", path: "/v1/work/progress", does: "report progress" },
  sendResult: { method: "POST", path: "/v1/work/result", does: "report the result of a task" },
  startTask: { method: "POST", path: "/v1/work/start", does: "start a task" },
} as const;
