// Generated from gateway/api/openapi.json by scripts/generate.mjs. Do not edit.

/** AckTaskBody takes a task off its queue after the start was answered, or returns it. */
export interface AckTaskBody {
  /** with return: not before */
  delay_ms?: number;
  /** offer it again */
  return?: boolean;
  subject?: string;
  task: string;
  tool_name: string;
}

/** AckTaskReply says that the queue has confirmed it. */
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
  /** of Allowed: by a standing approval */
  standing: number;
  start: string;
  /** attempts */
  started: number;
  /** calls that ran, without an error */
  succeeded: number;
}

/** ActivityCell are the counts of the calls of one tool that one rule decided. */
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
  /** of Allowed: by a standing approval */
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
  /** of Allowed: by a standing approval */
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

/** ActivityOpenUpTo counts the requests whose time is below UpToMS, and not below that of the entry before. */
export interface ActivityOpenUpTo {
  later?: number;
  no_deadline?: number;
  /** 0: all others */
  up_to_ms?: number;
  /** they end within 15 minutes */
  urgent?: number;
}

/** ActivityQueue is what the allowed calls of one tool and route wait for. */
export interface ActivityQueue {
  /** calls that need an operator */
  blocked: number;
  /** calls that wait for a worker */
  depth: number;
  /** Listening are the requests for tasks that wait at the server now: a worker has one or more while it has free slots. Absent: unknown. */
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
  /** "" where no rule matched */
  by_rule: ActivityShare[];
  by_tool: ActivityTool[];
  by_tool_and_rule: ActivityCell[];
  /** CompleteSince is set if older events were forgotten: of a window and of the buckets, what is earlier may be missing. Totals from the beginning of the journal stay whole. */
  complete_since?: string;
  /** now, in any window */
  open: ActivityOpen;
  queued: ActivityTimes;
  /** now, in any window */
  queues: ActivityQueue[];
  /** the latest first, in any window */
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

/** ActivityShare are the counts of one name. */
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
  /** of Allowed: by a standing approval */
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
  /** estimated within the bucket, as are the others */
  p50_ms: number;
  p90_ms: number;
  p99_ms: number;
  sum_ms: number;
}

/** ActivityTool are the counts and times of one tool. */
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
  /** of Allowed: by a standing approval */
  standing: number;
  /** attempts */
  started: number;
  /** calls that ran, without an error */
  succeeded: number;
  to_decision: ActivityTimes;
}

/** ActivityUpTo counts the times above the bucket before and up to UpToMS; 0: no limit. */
export interface ActivityUpTo {
  count: number;
  up_to_ms: number;
}

/** ActivityWorker is a worker, or the engine that runs local calls. */
export interface ActivityWorker {
  /** the first 20 of them */
  calls: Key[];
  /** ClockAheadMS is how far its clock is ahead of the engine's, negative: behind, if it differs; ClockWithinMS is how exact that is. */
  clock_ahead_ms?: number;
  clock_within_ms?: number;
  last_heard?: string;
  name: string;
  /** calls of this queue */
  running: number;
}

/** Approval is one person's or rule's consent as a grant repeats it. */
export interface Approval {
  at: string;
  by: Principal;
  /** Signature is the person's own, with which a worker can do without trust in the engine: see ApproverList. */
  signature?: ApproverSignature;
}

/** ApprovalRequest is what a decision stands for: what was asked of a person, or, for a call that a rule allowed, what would have been asked. */
export interface ApprovalRequest {
  /** content hash of the policy bundle */
  bundle: string;
  /** Definition is what the runtime declared of the tool. */
  definition?: DefinitionRef;
  /** Hidden are the paths into the arguments that rules redact. Salt is that of the commitments which stand for them in the digest; it is kept in the journal and never shown. Without it Input is already the redacted one. */
  hidden?: string[];
  /** the raw JSON text that will run, after every rewrite */
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

/** ApproverSet are the people whom one rule accepts: those who are listed or in one of the groups. */
export interface ApproverSet {
  /** in the order of time */
  escalation?: EscalationStep[];
  groups?: string[];
  rule: string;
  users?: string[];
}

/** ApproverSignature is an approver's own consent to one approval request, so that not even an engine can make up an approval. */
export interface ApproverSignature {
  /** see KeyID */
  key_id: string;
  /** base64url Ed25519 */
  sig: string;
  /** no start from then on */
  until: string;
}

/** Attempt is one try at running the call. */
export interface Attempt {
  /** the owner's own id for this start; "" until started */
  claim?: string;
  /** the run is cancelled then; zero: none */
  deadline?: string;
  /** remote attempts only */
  grant?: Grant;
  /** silence after which the owner counts as dead */
  lease_ms?: number;
  /** 1, 2, …; 0: none yet */
  number?: number;
  /** offered again if no worker started by then */
  offer_until?: string;
  offered_at?: string;
  /** how often an unstarted item was offered, this one included */
  offers?: number;
  started_at?: string;
  /** the authenticated owner, once started */
  worker?: string;
}

/** Budget bounds the sum of one numeric argument over the further calls that a standing approval answers for. */
export interface Budget {
  /** a decimal number as text, kept exactly */
  limit: string;
  /** of the argument, as args.cents; never negative */
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
  /** Batch is in records that were written before Order was: such a call is exclusive. */
  batch?: unknown;
  /** attempts that started and were not given back: each may have had its effect */
  begun?: number;
  /** pending behind the open approval request of this call */
  behind?: string;
  blocked?: "" | "unknown" | "dead_letter" | "no_worker" | "returned" | "clock";
  /** BlockedReason says more about a hold that is shown and not stored. */
  blocked_reason?: string;
  /** the last transition that was taken */
  cause: string;
  /** the policy's last word */
  decision?: Decision;
  /** Definition is what the runtime declared of the tool; nil: nothing, or the engine knows the tool. */
  definition?: DefinitionRef;
  /** Denial says to the agent why the call did not run; nil: it may have run. */
  denial?: Denial;
  /** of Approval request */
  digest?: string;
  /** First is the journal sequence of the call's first event record: the order in which calls were proposed. The first event record itself cannot carry it (see At). */
  first_seq?: number;
  /** raw JSON as it will run, after an approver's edit */
  input: string;
  /** which calls of its reply it waits for */
  order?: "" | "shared" | "exclusive";
  /** Parent is the call within which this one was made; nil: none. */
  parent?: Parent;
  /** set in replies and never stored; Phase computes it */
  phase?: "waiting" | "asking" | "ready" | "queued" | "running" | "retrying" | "blocked" | "finished";
  placement?: "local" | "remote" | "external";
  /** Proposal is the digest of what was proposed (tool and raw input): the same ids with another digest is a conflict. */
  proposal: string;
  proposed_at: string;
  /** how many event records this call has, this one included */
  records: number;
  /** Redact are the paths that rules hide of a call about which no approval request has been made (yet). */
  redact?: string[];
  /** rules that an approver accepted with the answer */
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
  /** Requester is what is known of the runtime's user; nil: nothing, or no rule reads it. */
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
  /** ResultDigest is the SHA-256 of the result as its sender gave it: the same result sent again gets the same answer, another one is refused. Of a call that hides arguments it is an HMAC of that (see SealResult): a result may repeat a short secret, which could be guessed from a bare hash. */
  result_digest?: string;
  /** when the next attempt is offered */
  retry_at?: string;
  /** Returned says which worker returned the last task, and why. */
  returned?: TaskReturn;
  risk?: string[];
  /** the runtime that proposed it */
  runtime: string;
  /** Seq is the journal sequence of the call's last record. It is not part of the event record: the reader sets it (see At). */
  seq?: number;
  session_id: string;
  space: string;
  /** what the approval let remember on terms, as it was then */
  standing_approvals?: StandingApproval[];
  /** AgentScope's word */
  state: "pending" | "asking" | "allowed" | "submitted" | "finished";
  /** Step is how many instants of the approval request's plan are on record as reached. */
  step?: number;
  suggested_rules?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
  /** Summary says in one line what would run, as people may see it, and Risk what the tool's annotations warn of. Like InPhase, both are set in replies and never stored. */
  summary?: string;
  tool_call_id?: string;
  /** never changes */
  tool_name: string;
  /** Trace is that of the proposal, for tools that watch: no decision and no digest reads it. */
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

/** CheckReceiptBody has a receipt to check with the keys of the engine. */
export interface CheckReceiptBody {
  receipt: unknown;
}

/** CheckReceiptReply is the verdict about a receipt. */
export interface CheckReceiptReply {
  attempts?: number;
  /** What a valid receipt proves. */
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

/** ClockReading is how a clock differs from that of the engine that answers. */
export interface ClockReading {
  /** negative: behind */
  ahead_ms: number;
  /** when it was taken, by the engine's clock */
  at: string;
  /** "worker NAME", or "journal" for the NATS server */
  who: string;
  /** how exact the measurement is */
  within_ms: number;
}

/** DeadLetter is a delivery that was given up: a dead letter. */
export interface DeadLetter {
  /** when it was given up */
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

/** Decision is what the policy said about the call, as event records keep it. */
export interface Decision {
  behavior: "allow" | "deny" | "ask" | "passthrough";
  /** Budget is what the call has taken from the budget of the rule that allowed it. */
  budget?: BudgetUse;
  bundle: string;
  /** Denial is what agents are told if the call is denied. */
  denial?: DenialHint;
  /** rule errors; each failed closed */
  errors?: string[];
  /** Besides are further standing approvals without which it would not have been allowed: each covers a part of the call. */
  further_standing_approval_ids?: string[];
  /** Headline says that the first line of Message is the rule's message about this call. */
  headline?: boolean;
  message?: string;
  reason: string;
  /** Recheck names rules whose conditions must hold again when the call begins. */
  recheck?: string[];
  /** Route is the subject on which workers take the call, if rules say so: only a worker of that route may run it. */
  route?: string;
  rule?: string;
  source?: string;
  /** Lease is the standing approval that allowed what the policy asks about. */
  standing_approval_id?: string;
  /** TimeoutMS is the longest run of an attempt that the rules let it have, in milliseconds; 0: they say nothing. */
  timeout_ms?: number;
}

/** DeclaredTool is a definition with its hash. */
export interface DeclaredTool {
  annotations?: ToolAnnotations;
  description?: string;
  /** "sha256:" and the hex SHA-256 of the RFC 8785 form */
  hash: string;
  /** InputSchema is a JSON Schema (2020-12) of the input; without it any object fits. */
  input_schema?: unknown;
  name: string;
}

/** DefinitionRef names the definition under which a call is decided. */
export interface DefinitionRef {
  /** First is the hash of the session's first definition of the tool, if this is another one. */
  first_hash?: string;
  hash: string;
}

/** Denial says to the agent why its call did not run. */
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

/** DenialHint is what the operator tells agents about denials of a rule's calls. */
export interface DenialHint {
  /** what would be allowed instead */
  allowed?: string;
  /** whom to ask */
  contact?: string;
  /** Reason is that of the denial, as the model is told it; absent before there is one. */
  reason?: string;
}

/** EmitBody appends streaming events of a reply (text, thinking, model calls) to the journal. */
export interface EmitBody {
  events: unknown[];
}

/** EmitReply has the sequence of the last stored event. */
export interface EmitReply {
  seq: number;
}

/** EngineKey is one of the keys with which the engines of a space have signed grants, as they announce it. */
export interface EngineKey {
  /** id of the key that vouches for it; empty: none does */
  by?: string;
  id: string;
  /** as FormatPublicKey writes it */
  public_key: string;
  /** zero: grants that it signed are good */
  retired?: string;
  retired_by?: string;
  /** base64url Ed25519 of RetiredBy */
  retired_sig?: string;
  /** base64url Ed25519 of By */
  sig?: string;
  /** zero: from the beginning */
  since?: string;
}

/** EngineKeysReply has the engines' signing keys, oldest first. */
export interface EngineKeysReply {
  keys: KeyRing;
}

/** EscalationStep lets further people answer from At on. */
export interface EscalationStep {
  at: string;
  groups?: string[];
  users?: string[];
}

/** EventsReply has events and the cursor to go on from. */
export interface EventsReply {
  events: SequencedEvent[];
  next: number;
}

/** ExplainReply says why a call was decided as it was, and how the policy in force judges it now. */
export interface ExplainReply {
  /** Decision is the one on record; absent of a call that is not decided yet. */
  decision?: Decision;
  /** Definition and Parent are those of the call. */
  definition?: DefinitionRef;
  parent?: Parent;
  /** Recorded is how the policy came to the decision, as it was explained then, in the form of Trace: kept where the rules want it (audit: {level: full}). truncated is true in it if it was too large to be kept whole. */
  recorded?: unknown;
  reply_id?: string;
  session_id: string;
  space: string;
  /** Standing approvals are the standing approvals that the decision relies on, as they stand now. */
  standing_approvals: StandingStatus[];
  state: "pending" | "asking" | "allowed" | "submitted" | "finished";
  tool_call_id?: string;
  /** Trace is how the policy in force judges the call now, rule by rule, as askance policy explain --json gives it; its bundle says whether it is the policy that decided. Absent, as Recorded is then, where it would show what was redacted: Withheld says so. */
  trace?: unknown;
  withheld?: string;
}

/** FateReply is the new state of a dead letter. */
export interface FateReply {
  fate: "delivered" | "stale" | "dropped";
}

/** Grant is the engine's signed leave to run one attempt of one call. */
export interface Grant {
  approvals: Approval[];
  attempt: number;
  bundle: string;
  /** of the Approval request that was decided */
  digest: string;
  /** a start after this is refused */
  expires: string;
  idempotency_key: string;
  /** which engine key signed; see KeyID */
  key_id: string;
  nonce: string;
  not_before: string;
  reply_id?: string;
  /** only a worker of this route may run it; "": one without */
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
  /** ClockMS is how far the worker's clock is ahead of the engines' (negative: behind), as it measured by their replies; 0: not known to differ. */
  clock_ms?: number;
  /** how exact that is */
  clock_within_ms?: number;
  reply_id: string;
  session_id: string;
  tool_call_id: string;
}

/** HeartbeatReply tells the worker whether to go on. */
export interface HeartbeatReply {
  /** At is the engine's clock, by which the worker measures its own. */
  at?: string;
  cancel?: boolean;
  reason?: string;
  stale?: boolean;
}

/** HistoryEntry is one line of a call's history. */
export interface HistoryEntry {
  at: string;
  /** Attempt and Worker as they stood after the record. */
  attempt?: number;
  by: Principal;
  kind: string;
  note?: Note;
  path?: Step[];
  seq: number;
  worker?: string;
}

/** InfoReply says which engine answers and what may be expected of it. */
export interface InfoReply {
  blocked: number;
  /** the policy in force */
  bundle: string;
  /** Clocks are those of workers and of the journal that differ from the engine's. */
  clocks?: ClockReading[];
  /** cached, fsynced, quorum or memory */
  durability: string;
  engine: string;
  /** NotReady is why the engine takes no new calls now; "" if it takes them. */
  not_ready?: string;
  /** open calls */
  open: number;
  policy_error?: string;
  /** Returned counts the open calls that do not run because workers returned their tasks. */
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

/** Key is the identity of a call: call ids come from models and repeat across replies, so only all four parts together name one. */
export interface Key {
  reply_id?: string;
  session_id: string;
  space: string;
  tool_call_id?: string;
}

/** KeyRing are a space's signing keys, oldest first. */
export type KeyRing = EngineKey[];

/** ListReply has the calls that were listed, in the order of the request. */
export interface ListReply {
  calls: Call[];
  /** Counts are the calls of each phase that meet all conditions but that of the phase. Only the first page has them, and no list that has to read the journal. */
  counts?: Record<string, number>;
  /** Cursor continues a list with Sort; "": that was all. */
  cursor?: string;
  /** 0: that was all */
  next?: number;
  /** Waiting says of each open approval request what it waits for. It follows from Calls: engines leave it out, askance list --json adds it. */
  waiting?: Waiting[];
}

/** LoadReply is the load of the space's reviewers, as one engine's copy of the journal has it. */
export interface LoadReply {
  at: string;
  /** by name */
  groups: ReviewerLoad[];
  limits?: ReviewerLimits;
  /** open approval requests */
  open: number;
  /** Others counts people and groups beyond the number that is kept apart. */
  others?: number;
  /** by name */
  people: ReviewerLoad[];
  /** Refused are the answers that this engine has refused since it started, because of Limits. */
  refused?: number;
  /** as asked */
  since?: string;
  /** of those: any approver may answer */
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
  /** default 1, maximum 64: ask only for what can start at once */
  limit?: number;
  /** to which rules route calls; the token has to name it */
  subject?: string;
  tool_name: string;
  /** how long the request is held at most; default and maximum 30000 */
  wait_ms?: number;
}

/** NextTasksReply has the tasks; none came if it is empty. */
export interface NextTasksReply {
  tasks: OfferedTask[];
}

/** Note records something that changed nothing: a late result, a stale attempt. */
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

/** OfferedTask is a task for a worker that has 10 seconds to start it. */
export interface OfferedTask {
  /** how often it was handed out, this time included */
  delivered?: number;
  /** the submitted event record, with the call and its grant */
  record: unknown;
  /** names it in an AckTaskRequest */
  task: string;
}

/** Parent is the call within which another one was made, as it was then. */
export interface Parent {
  agent?: string;
  /** of the call that has this parent; 1: its parent has none */
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

/** Part is one circle of people that has to agree. */
export interface Part {
  /** names of those who did */
  approved?: string[];
  groups?: string[];
  /** how many more must */
  missing: number;
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
  /** Text is absent if the texts of all files together exceed MaxPolicyText: ask for single rules then. */
  text?: string;
}

/** PolicyRuleCount is what one rule has done since it came into force as it is. */
export interface PolicyRuleCount {
  /** absent of the rules of sessions */
  behavior?: "allow" | "deny" | "ask" | "passthrough";
  /** calls that it decided */
  decided: number;
  /** times that it could not be evaluated */
  failed: number;
  /** where the rule stands */
  file?: string;
  /** from 1 */
  line?: number;
  rule: string;
  since?: string;
  /** matches while it only warned or audited */
  watched: number;
}

/** PolicyRuleText is a rule with its place. */
export interface PolicyRuleText {
  behavior: "allow" | "deny" | "ask" | "passthrough";
  /** the last line */
  end: number;
  file: string;
  line: number;
  rule: string;
  /** Text is the rule as its file has it; absent unless the request names a rule. */
  text?: string;
  tools: string[];
}

/** PolicyStatusReply is how the policy of one engine is doing: what is in force, and what it has decided. */
export interface PolicyStatusReply {
  /** Alarm says why the newest policy was refused, "" when it is in force; AlarmSince is when reloads began to fail. */
  alarm: string;
  alarm_since?: string;
  /** the hash of the policy in force */
  bundle: string;
  by_rule: PolicyRuleCount[];
  /** decisions */
  calls: number;
  engine: string;
  /** Failures counts what could not be evaluated and is not of one rule, such as bad input. */
  failures: number;
  /** Files are those of the policy in force, Ignored what else is in their folders. */
  files: PolicyFile[];
  ignored: string[];
  /** Loaded is when the policy came into force; zero before the first good one. */
  loaded: string;
  /** policies that came into force */
  loads: number;
  /** reloads that failed */
  refused: number;
  rules: number;
  /** Shadow is absent where there is no shadow policy. */
  shadow?: ShadowPolicyStatus;
  /** Versions are the last policies, whose text PolicyText has, the newest first. An engine with a data folder knows those from before its start. */
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

/** PreviewBody has calls as they would be proposed or, instead of them, an edit. */
export interface PreviewBody {
  agent?: string;
  /** Edit is how the caller would edit the arguments of an open call of the reply. */
  edit?: PreviewEdit;
  /** External names tools of these calls that the engine need not know, because the runtime or its frontend runs them: the policy decides about such a call as about any other, and once it is allowed it waits for a Report. A tool that the engine knows to run elsewhere is refused. */
  external_tools?: string[];
  /** Parent is the call within which these calls are made, such as the one that started a sub-agent. Their reply is another one. */
  parent?: ParentKey;
  tool_calls: Array<{
    created_at?: string;
    /** end of the model's output, not of the call */
    finished_at?: string | null;
    id: string;
    input: string;
    name: string;
    /** ToolCallState is where a tool call stands. */
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
  /** Tools defines tools that the runtime or its frontend runs, and names them as External does. A definition holds for the session: later proposals need not repeat it. A tool that the engine knows keeps the engine's definition. */
  tools?: ToolDefinition[];
}

/** PreviewEdit is an edit that is not sent. */
export interface PreviewEdit {
  /** of the approval request that is open; "": any */
  digest?: string;
  input: string;
  tool_call_id: string;
}

/** PreviewReply has the decision about each call, in the order of the request. */
export interface PreviewReply {
  /** the policy that decides */
  bundle: string;
  calls: PreviewedCall[];
}

/** PreviewedCall is the decision about a call that is not proposed. */
export interface PreviewedCall {
  /** Decision is absent of a refused call. */
  decision?: Decision;
  /** Definition is what the runtime declared of the tool. */
  definition?: DefinitionRef;
  /** Edit is what the edit of the request would do; absent where none was given. */
  edit?: string;
  /** Needs is who would have to approve the edited call. */
  needs?: Tally;
  /** Refused says why the call never reaches the policy: an unknown tool, or input that does not fit it. */
  refused?: string;
  risk?: string[];
  /** Summary and Risk are those that the call would have. */
  summary?: string;
  tool_call_id: string;
  tool_name: string;
  /** Trace is the explanation of the decision, as in toolcall.ExplainReply. Only approvers, operators and auditors get it, for a request of one call. */
  trace?: unknown;
}

/** Principal is who acts. */
export interface Principal {
  /** Auth says how the name was established: "in-process" (by the program that the engine is part of), "nats-jwt" (the NATS server demands a signed login, which names the subjects that it may use), "nats-subject" (by a NATS subject alone: whether the server guards it, the engine does not know), "http-token" and "oidc:<issuer>" (a bearer token, or an identity provider's word, over HTTP), "unix-peer:<uid>" (the kernel named the user who connected to a Unix socket), "http-loopback" (not authenticated: any process of the machine). It is kept with each vote. */
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

/** ProgressBody carries a line of progress. */
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

/** ProgressReply says that the line was passed on. */
export interface ProgressReply {
}

/** ProofStatusReply says how far the journal is signed, and what is damaged. */
export interface ProofStatusReply {
  /** Anchor names the checkpoint: keep it elsewhere, and askance audit verify --anchor requires it. */
  anchor?: string;
  checkpoint?: number;
  /** Damage is what the journal lacks by its checkpoints and the engine's anchor. */
  damage: string[];
  engine?: string;
  /** of the journal */
  first_seq: number;
  key_id?: string;
  last_seq: number;
  /** Losses are losses of records that operators accepted, in words. */
  losses: string[];
  signed_at?: string;
  /** Signed is the last sequence that a signed checkpoint covers; 0: nothing is signed. What follows are that checkpoint's number, time, engine, key and hash. */
  signed_seq: number;
  /** the last one of this engine */
  verification?: Verification;
}

/** ProposeBody hands over the tool calls of one model turn, in the model's order. */
export interface ProposeBody {
  agent?: string;
  /** External names tools of these calls that the engine need not know, because the runtime or its frontend runs them: the policy decides about such a call as about any other, and once it is allowed it waits for a Report. A tool that the engine knows to run elsewhere is refused. */
  external_tools?: string[];
  /** Parent is the call within which these calls are made, such as the one that started a sub-agent. Their reply is another one. */
  parent?: ParentKey;
  tool_calls: Array<{
    created_at?: string;
    /** end of the model's output, not of the call */
    finished_at?: string | null;
    id: string;
    input: string;
    name: string;
    /** ToolCallState is where a tool call stands. */
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
  /** Tools defines tools that the runtime or its frontend runs, and names them as External does. A definition holds for the session: later proposals need not repeat it. A tool that the engine knows keeps the engine's definition. */
  tools?: ToolDefinition[];
}

/** ProposeReply has the present state of each proposed call, in order. */
export interface ProposeReply {
  calls: Call[];
}

/** ReceiptBody asks for the receipt of a call. */
export interface ReceiptBody {
}

/** ReceiptReply has a receipt, which proves the history of a call without a server. */
export interface ReceiptReply {
  receipt: unknown;
}

/** RecentDecision is one decision about a call. */
export interface RecentDecision {
  agent?: string;
  at: string;
  /** the person; empty: the policy, or time */
  by?: string;
  reply_id?: string;
  rule?: string;
  session_id: string;
  space: string;
  /** empty once the engine has forgotten the call */
  summary: string;
  /** since the request for approval */
  took_ms?: number;
  tool_call_id?: string;
  tool_name: string;
  verdict: "allow" | "ask" | "deny" | "refuse" | "approve" | "reject" | "respond" | "expire";
}

/** RememberLimits is how far the rules that ask let an answer be remembered. */
export interface RememberLimits {
  /** Same are paths into the call, such as args.customer_id: a later call is answered only if it has the same value at each. */
  same?: string[];
  /** how long at most, from the approval on */
  ttl_ms: number;
  /** how many further calls at most; 0: any number */
  uses?: number;
}

/** ReportBody brings the result of an external call. */
export interface ReportBody {
  result: {
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
  /** Unasked reports a call that ran although it is not decided yet: the agent's own prompt was faster, or its hook failed. The call ends, and its record says so. */
  unasked?: boolean;
}

/** Requester is what the credentials of a proposal, or the directory, say of the user on whose behalf it is made. */
export interface Requester {
  groups: string[];
  /** where they come from, as in a Vote */
  groups_from: string;
}

/** Requirement says who must agree and until when. */
export interface Requirement {
  /** Approvers are sets of people; each set must agree. */
  approvers?: ApproverSet[];
  /** Deadline is the instant at which the approval request expires; zero: it waits for ever. */
  deadline?: string;
  editors?: string[];
  /** ExcludeEditor: the approvals of Editors, who changed the arguments since they were proposed, do not count. */
  exclude_editor?: boolean;
  /** ExcludeRequester keeps Requester, on whose behalf the call is made, from answering. Without a known requester no answer is accepted. */
  exclude_requester?: boolean;
  final_deadline?: string;
  /** OnExpiry is what happens at Deadline; with escalate the approval request ends at FinalDeadline. */
  on_expiry?: "deny" | "escalate";
  /** Quorum is how many distinct people of each part must approve; 0 is one. */
  quorum?: number;
  /** Remember is how far the answer may be remembered on terms. Nil: not at all where rules ask; where no rule does, suggested rules may, for the session. */
  remember?: RememberLimits;
  requester?: string;
  /** Signed: an approval counts only with the approver's own signature. */
  signed?: boolean;
  /** Users may answer; empty means that no list of people is required. */
  users: string[];
}

/** ResolveBody ends the wait of a blocked call. */
export interface ResolveBody {
  /** the attempt that is being resolved: a fence */
  attempt: number;
  note?: string;
  outcome: "happened" | "did_not_happen" | "run_again";
  output?: string;
}

/** ResponseBody decides an open approval request. */
export interface ResponseBody {
  digest: string;
  /** Feedback, with kind reject, reaches the model in the result text. */
  feedback?: string;
  /** Input, with kind approve, replaces the arguments; the policy decides again. */
  input?: string;
  kind: "approve" | "reject" | "respond" | "skip" | "delegate";
  /** Note, with kind skip or delegate, is for the people who look next. */
  note?: string;
  /** Output, with kind answer, becomes the tool's result. */
  output?: string;
  /** Remember, with kind approve, lets rules be remembered on terms: they are counted, bounded and can be revoked. With input they are held against the edited call. */
  remember?: StandingTerms;
  /** ID, if the sender gives one, is the same when the same answer is sent again: what has been taken already is then answered with the present call. At most 128 bytes, random. */
  response_id?: string;
  /** Rules to remember for the session; only suggested ones are accepted, and with input only such as cover the edited call. */
  rules?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
  /** Signature, with kind approve and without input, is by the approver's own key. */
  signature?: ApproverSignature;
  /** To, with kind delegate, is who should answer: a name. */
  to?: string;
}

/** ResultBody brings the result of an attempt; it is sent again until answered. */
export interface ResultBody {
  attempt: number;
  claim: string;
  /** NotBegun, if set, says why the owner never began to run the attempt and never will. There is no Result then: the call is offered as a new attempt. */
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

/** ResultReply says that the result is durable (Stored), or that it came too late and was only noted. */
export interface ResultReply {
  state: "pending" | "asking" | "allowed" | "submitted" | "finished";
  stored: boolean;
}

/** ReviewerLimits bound what one reviewer does and is given; zero: no limit. */
export interface ReviewerLimits {
  /** MaxOpen is how many open approval requests may wait for one reviewer by name: no further one is handed over to them, and no call is taken from a runtime whose approval request only people with so many could answer. */
  max_open?: number;
  /** PerHour is the same within sixty minutes. */
  per_hour?: number;
  /** PerMinute is how many answers of one reviewer, of any kind, are taken within sixty seconds. */
  per_minute?: number;
}

/** ReviewerLoad is that of one person or group. */
export interface ReviewerLoad {
  /** Answered counts approvals, rejections and results given for a tool, in all and by kind. A group's are those of its members, to approval requests that ask it. */
  answered: number;
  approved: number;
  last_hour?: number;
  /** LastMinute and LastHour are how many answers of any kind came within the last sixty seconds, and minutes, before At, for any window; 0 for groups. */
  last_minute: number;
  /** MedianMS is the median time from the approval request to the answer, to within 5%. */
  median_ms: number;
  name: string;
  /** Open approval requests that name the person or group, or were handed over to the person, and wait for their word. */
  open: number;
  /** left to others or handed over; not among Answered */
  passed: number;
  rejected: number;
  responded: number;
  /** TotalMS is the sum of those times. */
  total_ms: number;
  /** Within2S of the answers came within two seconds: too soon to have read. */
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

/** SequencedEvent is an event with the sequence of the record it came from. */
export interface SequencedEvent {
  event: unknown;
  seq: number;
}

/** ShadowPolicyStatus is what a shadow policy would have done. */
export interface ShadowPolicyStatus {
  alarm: string;
  bundle: string;
  compared: number;
  /** the most frequent first */
  differences: PolicyDifference[];
  differing: number;
  rules: number;
  /** calls of kinds beyond the first 200 */
  unlisted: number;
}

/** ShowReply has the call and its event records, oldest first. */
export interface ShowReply {
  call: Call;
  /** Definition is what the runtime declared of the tool. */
  definition?: DeclaredTool;
  history: HistoryEntry[];
  /** Waiting says what the open approval request waits for, as in ListReply. */
  waiting?: Waiting;
}

/** ShowStandingApprovalReply has a standing approval, and the last hundred calls for which counted uses were spent, oldest first. */
export interface ShowStandingApprovalReply {
  standing_approval: StandingApproval;
  uses: StandingUse[];
}

/** StandingApproval is a rule that an approver let remember with an answer: it answers for later calls, within its terms, until it ends or is revoked. */
export interface StandingApproval {
  agent?: string;
  arguments: string;
  /** Definition is the hash of what the runtime had declared of the tool: under another definition it is another tool. */
  definition_hash?: string;
  /** of the approval request that was answered */
  digest: string;
  /** the call whose approval gave it */
  from: Key;
  granted_at: string;
  granted_by: Vote[];
  /** Left is what is left of the budget. */
  left?: string;
  /** Plain: suggested rules that were accepted as they are. The policy counts them among the rules of the session; they have no end but a revocation, and no uses are counted. */
  plain?: boolean;
  reason: string;
  revoked?: Revocation;
  /** Rule, Source and Reason are those of the approval request that was answered: only the same approval request is answered again. */
  rule?: string;
  /** Same has the value of the approved call at each path of the limits. */
  same?: Record<string, string>;
  /** Seq is the journal sequence of its last event record, 0 before the first. It is not part of the record. */
  seq?: number;
  /** Session, User, Agent and Arguments are those of the approved call. Which of them count follows from the scope. Arguments is a digest. */
  session_id: string;
  source: string;
  space: string;
  /** Spent names the calls whose uses are counted, each by a hash: the same call is counted once. */
  spent?: string[];
  standing_approval_id: string;
  /** complete */
  terms: StandingTerms;
  tool_name: string;
  /** the one that this event record counts */
  use?: StandingUse;
  user: string;
  /** Within are the suggested rules that an edited one narrows: they must cover a call as well. */
  within?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
}

/** StandingApprovalsReply has standing approvals in the order of their ids. */
export interface StandingApprovalsReply {
  /** "": that was all */
  next?: string;
  standing_approvals: StandingApproval[];
}

/** StandingStatus is a standing approval and how it stands at the moment. */
export interface StandingStatus {
  standing_approval: StandingApproval;
  state: "active" | "used_up" | "expired" | "revoked";
  /** UsesLeft is for how many further calls it can answer; absent if its uses are not counted. */
  uses_left?: number;
}

/** StandingTerms are what an approver wants remembered, and how far. */
export interface StandingTerms {
  /** Budget bounds what the calls may add up to. */
  budget?: Budget;
  /** Rules are allow rules for the tool of the call, which must cover the call and be no wider than those that the approval request suggested. Empty: the suggested ones. */
  rules?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
  /** Scope is session if empty. */
  scope?: "call_like" | "session" | "agent" | "user" | "space";
  /** Until is when it ends; zero: as late as the policy lets it. */
  until?: string;
  /** Uses is for how many further calls it answers; 0: as many as the policy lets it. At most 1000. */
  uses?: number;
}

/** StandingUse is one call for which a standing approval answered. */
export interface StandingUse {
  /** taken from the budget */
  amount?: string;
  at: string;
  call: Key;
}

/** StartBody claims the present attempt of a submitted call. */
export interface StartBody {
  attempt: number;
  claim: string;
  /** Nonce is that of the grant that the worker checked: a start that arrives after the attempt was offered again with another grant is superseded. */
  grant_nonce?: string;
  /** Refuse, if set, says why the worker cannot run it, such as an engine key that it does not know. The call stays open: its task is returned and offered again. */
  refuse?: string;
  reply_id: string;
  /** Request names this sending: the signed reply repeats it, so that no reply answers another sending. At most 128 bytes, random. */
  request?: string;
  session_id: string;
  /** Task is the task that brought the attempt: the engine takes it off the queue with the reply. If that is lost, the task comes again and its start is superseded. */
  task?: string;
  tool_call_id: string;
}

/** StartReply is the engine's signed permission to run one attempt now. */
export interface StartReply {
  /** the engine's clock when it answered, UTC */
  at: string;
  attempt: number;
  claim: string;
  deadline?: string;
  /** Fresh: this very sending stored the start, so the lease began after it was sent. Otherwise an earlier sending of the same claim may have stored it. */
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

/** Step is one arrow of the state machine that an event record took. */
export interface Step {
  cause: string;
  from: "" | "pending" | "asking" | "allowed" | "submitted" | "finished";
  to: "pending" | "asking" | "allowed" | "submitted" | "finished";
}

/** Tally is how the votes on an approval request stand against its requirement. */
export interface Tally {
  /** every part has its people */
  agreed: boolean;
  parts: Part[];
  /** how many people of each part must approve */
  quorum: number;
}

/** TaskReturn says that a worker did not begin an attempt, for a reason of its own such as a missing engine key. */
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

/** ToolDefinition is what a runtime declares of a tool that it runs itself. */
export interface ToolDefinition {
  annotations?: ToolAnnotations;
  description?: string;
  /** InputSchema is a JSON Schema (2020-12) of the input; without it any object fits. */
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
  /** why it could not end */
  error?: string;
  findings: VerifiedFinding[];
  /** findings; the first ones follow */
  found: number;
  ok: boolean;
  /** how far it has come */
  read_seq: number;
  records?: number;
  running: boolean;
  through_seq: number;
  uncovered?: number;
}

/** VerifiedFinding is a deviation of the journal from what was signed. */
export interface VerifiedFinding {
  call?: string;
  /** changed, removed, …: see PROOF.md */
  kind: string;
  seq?: number;
  through_seq?: number;
  what: string;
}

/** Vote is an answer as event records keep it. */
export interface Vote {
  at: string;
  by: Principal;
  /** of the approval request that was answered */
  digest: string;
  edited?: boolean;
  feedback?: string;
  /** Groups are those groups of the person that the requirement names, when they answered, and GroupsFrom is the directory that knew them. */
  groups?: string[];
  groups_from?: string;
  kind: "approve" | "reject" | "respond" | "skip" | "delegate";
  /** Made, of an edit, is the digest of the approval request with the new arguments, if the edit counts as an approval of it. */
  made?: string;
  /** of skip and delegate, for people */
  note?: string;
  /** Remember is what this approval wants remembered on terms. */
  remember?: StandingTerms;
  /** of the answer, if its sender gave one */
  response_id?: string;
  /** Rules that this approval wants remembered. */
  rules?: Array<{
    /** Behavior is what a permission rule or a decision says about a tool call. */
    behavior: "allow" | "deny" | "ask" | "passthrough";
    rule_content: string | null;
    source: string;
    tool_name: string;
  }>;
  /** Signature of an approval with the person's own key, which the engine has checked. */
  signature?: ApproverSignature;
  /** Step is how many instants of the requirement's plan had come. */
  step?: number;
  /** of delegate: who should answer */
  to?: string;
}

/** WaitReply has the present state; Done says whether the wait is over. */
export interface WaitReply {
  calls: Call[];
  done: boolean;
}

/** Waiting says what an open approval request waits for: who has approved, who must still, what time does next. */
export interface Waiting {
  /** every part has its people */
  agreed: boolean;
  digest: string;
  /** Ends is when the approval request denies; zero: never. */
  ends?: string;
  next_groups?: string[];
  next_only?: boolean;
  /** NextStep is when the plan asks other people: NextUsers and NextGroups besides those who may answer already, or alone if NextOnly is set. */
  next_step?: string;
  next_users?: string[];
  parts: Part[];
  /** how many people of each part must approve */
  quorum: number;
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

/** The method and path of each operation. */
export const operations = {
  activity: { method: "GET", path: "/v1/activity" },
  listCalls: { method: "GET", path: "/v1/calls" },
  watchCalls: { method: "GET", path: "/v1/calls/stream" },
  showCall: { method: "GET", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}" },
  explainCall: { method: "GET", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/explain" },
  makeReceipt: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/receipt" },
  resolveCall: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/resolve" },
  submitResponse: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/response" },
  reportResult: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/result" },
  revokeCall: { method: "POST", path: "/v1/calls/{session_id}/{reply_id}/{tool_call_id}/revoke" },
  info: { method: "GET", path: "/v1/info" },
  reviewerLoad: { method: "GET", path: "/v1/load" },
  policyStatus: { method: "GET", path: "/v1/policy" },
  policyText: { method: "GET", path: "/v1/policy/text" },
  proofStatus: { method: "GET", path: "/v1/proof" },
  checkReceipt: { method: "POST", path: "/v1/receipts/check" },
  readEvents: { method: "GET", path: "/v1/sessions/{session_id}/events" },
  proposeCalls: { method: "POST", path: "/v1/sessions/{session_id}/replies/{reply_id}/calls" },
  emitEvents: { method: "POST", path: "/v1/sessions/{session_id}/replies/{reply_id}/events" },
  interruptReply: { method: "POST", path: "/v1/sessions/{session_id}/replies/{reply_id}/interrupt" },
  previewCalls: { method: "POST", path: "/v1/sessions/{session_id}/replies/{reply_id}/preview" },
  waitForCalls: { method: "GET", path: "/v1/sessions/{session_id}/replies/{reply_id}/wait" },
  listStandingApprovals: { method: "GET", path: "/v1/standing-approvals" },
  showStandingApproval: { method: "GET", path: "/v1/standing-approvals/{standing_approval_id}" },
  revokeStandingApproval: { method: "POST", path: "/v1/standing-approvals/{standing_approval_id}/revoke" },
  listTools: { method: "GET", path: "/v1/tools" },
  listDeadLetters: { method: "GET", path: "/v1/webhooks/dead" },
  dropDeadLetter: { method: "DELETE", path: "/v1/webhooks/dead/{destination}/{seq}" },
  retryDeadLetter: { method: "POST", path: "/v1/webhooks/dead/{destination}/{seq}/retry" },
  whoami: { method: "GET", path: "/v1/whoami" },
  ackTask: { method: "POST", path: "/v1/work/ack" },
  sendHeartbeat: { method: "POST", path: "/v1/work/heartbeat" },
  engineKeys: { method: "GET", path: "/v1/work/keys" },
  takeTasks: { method: "POST", path: "/v1/work/next" },
  sendProgress: { method: "POST", path: "/v1/work/progress" },
  sendResult: { method: "POST", path: "/v1/work/result" },
  startTask: { method: "POST", path: "/v1/work/start" },
} as const;
