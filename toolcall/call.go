package toolcall

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Placement says where an allowed call runs.
type Placement string

// The placements.
const (
	PlaceLocal    Placement = "local"    // a Go function in the engine's process
	PlaceRemote   Placement = "remote"   // a worker over NATS
	PlaceExternal Placement = "external" // outside askance: the runtime reports the result (AgentScope's external tools)
)

// Blocked is why a submitted or started call makes no progress until an operator resolves
// it.
type Blocked string

// The reasons for being blocked. A blocked call is listed until an operator resolves it.
const (
	NotBlocked        Blocked = ""
	BlockedUnknown    Blocked = "unknown"     // it may have run: its owner died after the start and the tool is not idempotent, its owner lives and did not stop at its deadline, or its runtime reported this
	BlockedDeadLetter Blocked = "dead_letter" // all permitted attempts were lost
	BlockedNoWorker   Blocked = "no_worker"   // no worker started it within the queue timeout
	BlockedReturned   Blocked = "returned"    // workers returned its task MaxReturns times in a row
	// BlockedClock is shown and never stored: a worker's clock is so wrong that the grant is
	// not valid there. It ends once the clock is corrected.
	BlockedClock Blocked = "clock"
	// BlockedKey is shown and never stored: this engine does not know the key with which an
	// approver signed. It ends once the key is known, or with the signature.
	BlockedKey Blocked = "approver_key"
)

// NeedsOperator reports whether only a person can end it. A wrong clock or an unknown key ends
// otherwise, and the call has not begun.
func (b Blocked) NeedsOperator() bool {
	return b != NotBlocked && b != BlockedClock && b != BlockedKey
}

// Call is the full state of one tool call. Every event record of a call contains it; the
// journal stores what changed. It is a value: Clone it before changing it.
type Call struct {
	Key
	Runtime string `json:"runtime"`        // the runtime that proposed it
	Agent   string `json:"agent,omitzero"` // the agent's name, as the runtime gave it
	// Cwd is the folder in which the runtime runs the call, as it said; "" means the engine's.
	Cwd string `json:"cwd,omitzero"`
	// Trace is the trace of the proposal, for monitoring; no decision or digest depends on it.
	Trace Trace `json:"traceparent,omitzero"`
	// Requester is what is known about the runtime's user, or nil if nothing is or no rule reads it.
	Requester *Requester            `json:"requester,omitzero"`
	Tool      string                `json:"tool_name"`      // never changes
	Input     string                `json:"input"`          // raw JSON as it will run, after an approver's edit
	State     message.ToolCallState `json:"state"`          // AgentScope's state
	InPhase   Phase                 `json:"phase,omitzero"` // set in replies and never stored; Phase computes it
	// Summary describes in one line what would run, as people may see it; Risk lists warnings
	// from the tool's annotations. Like InPhase, both are set in replies and never stored.
	Summary string   `json:"summary,omitzero"`
	Risk    []string `json:"risk,omitzero"`
	Cause   string   `json:"cause"`          // the last transition
	Order   Order    `json:"order,omitzero"` // which calls of its reply it waits for
	// Batch is in records that are older than Order. Such a call is exclusive.
	Batch  message.RawJSON `json:"batch,omitzero"`
	Behind message.CallID  `json:"behind,omitzero"` // pending behind the open approval request of this call
	// Definition is what the runtime declared about the tool; nil if it declared nothing or
	// the engine has its own configuration of the tool.
	Definition *DefinitionRef `json:"definition,omitzero"`
	// Parent is the call within which this one was made, or nil.
	Parent *Parent `json:"parent,omitzero"`
	// Proposal is the digest of what was proposed (tool and raw input). The same ids with
	// another digest are a conflict.
	Proposal string `json:"proposal"`

	// Redact are the paths that rules hide in a call for which no approval request exists
	// (yet).
	Redact []string `json:"redact,omitzero"`

	Decision *Decision        `json:"decision,omitzero"` // the policy's latest decision
	Request  *ApprovalRequest `json:"request,omitzero"`  // what was asked, or would have been
	Digest   string           `json:"digest,omitzero"`   // of Request
	Votes    []Vote           `json:"votes,omitzero"`
	// Step is how many steps of the approval request's plan have been recorded.
	Step              int                      `json:"step,omitzero"`
	Suggested         []message.PermissionRule `json:"suggested_rules,omitzero"`
	Remember          []message.PermissionRule `json:"remember,omitzero"`           // rules that an approver accepted with the response
	StandingApprovals []StandingApproval       `json:"standing_approvals,omitzero"` // what the approval remembered with terms, as of then

	Placement Placement `json:"placement,omitzero"`
	Attempt   Attempt   `json:"attempt,omitzero"`
	Begun     int       `json:"begun,omitzero"` // attempts that started and were not returned, or have an unknown outcome; each may have had its effect
	Blocked   Blocked   `json:"blocked,omitzero"`
	// BlockedReason explains a Blocked that is shown but not stored.
	BlockedReason string    `json:"blocked_reason,omitzero"`
	RetryAt       time.Time `json:"retry_at,omitzero"` // when the next attempt is offered
	// Returned says which worker returned the last task, and why.
	Returned *TaskReturn `json:"returned,omitzero"`

	Result *message.ToolResultBlock `json:"result,omitzero"`
	// Denial tells the agent why the call did not run; nil if it may have run.
	Denial *Denial `json:"denial,omitzero"`
	// ResultDigest is the SHA-256 of the result as its sender sent it, without ids and times
	// of blocks: the same result sent again gets the same answer, and a different one is
	// refused. For a call that hides arguments it is an HMAC of that (see SealResult), because
	// a result may repeat a short secret that could be guessed from a plain hash.
	ResultDigest string `json:"result_digest,omitzero"`

	ProposedAt time.Time `json:"proposed_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	Records    int       `json:"records"` // number of event records of this call, including this one

	// First is the journal sequence of the call's first event record, by which calls are
	// ordered. The first event record itself cannot contain it (see At).
	First uint64 `json:"first_seq,omitzero"`
	// Seq is the journal sequence of the call's last record. It is not part of the event
	// record; readers set it (see At).
	Seq uint64 `json:"seq,omitzero"`
}

// MaxReturns is how often workers may return the tasks of a call before the call is blocked
// for an operator.
const MaxReturns = 8

// TaskReturn records that a worker did not begin an attempt, for a reason of its own such
// as a missing engine key.
type TaskReturn struct {
	Worker string    `json:"worker"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Times  int       `json:"times"` // in a row, this one included
}

// TimesReturned is how often in a row workers returned the call's tasks.
func (c *Call) TimesReturned() int {
	if c.Returned == nil {
		return 0
	}
	return c.Returned.Times
}

// ReturnText says who returned the last task and why, while that prevents the call from
// running; otherwise "".
func (c *Call) ReturnText() string {
	switch c.Phase() {
	case PhaseQueued, PhaseRetrying, PhaseBlocked:
	default:
		return ""
	}
	if c.Returned == nil {
		return ""
	}
	return fmt.Sprintf("worker %s returned the task (%d of %d times): %s", c.Returned.Worker, c.Returned.Times, MaxReturns, c.Returned.Reason)
}

// Requester describes the user on whose behalf a call is proposed, from the credentials of
// the proposal or from the directory.
type Requester struct {
	Groups []string `json:"groups"`
	From   string   `json:"groups_from"` // where they come from, as in a Vote
}

// At sets the sequence of the event record that contains c.
func (c *Call) At(seq uint64) {
	if c.Seq == seq {
		return // others may be reading it
	}
	c.Seq = seq
	if c.Records == 1 {
		c.First = seq
	}
}

// Clone returns a copy that may be changed. Pointers and slices are shared: replace them,
// but do not write through them.
func (c *Call) Clone() *Call { d := *c; return &d }

// DecidingRule is the rule that decided about the call, or "".
func (c *Call) DecidingRule() string {
	if c.Decision == nil {
		return ""
	}
	return c.Decision.Rule
}

// Groups are the requester's groups, or nil if unknown.
func (c *Call) Groups() []string {
	if c.Requester == nil {
		return nil
	}
	return c.Requester.Groups
}

// CheckCwd refuses a working folder that policies cannot read. "" is none.
func CheckCwd(cwd string) error {
	refuse := func(what string) error {
		return &message.Error{Code: message.CodeInvalid, What: "the working folder (cwd) " + what, Hint: "send the absolute path of the folder in which the tool runs"}
	}
	switch isWindows := windowsPath.MatchString(cwd); {
	case cwd == "":
		return nil
	case len(cwd) > MaxCwdBytes:
		return refuse(fmt.Sprintf("has %d bytes, the limit is %d", len(cwd), MaxCwdBytes))
	case !utf8.ValidString(cwd) || strings.ContainsFunc(cwd, IsHidden):
		return refuse("has a control or hidden character or is not UTF-8")
	case !isWindows && !strings.HasPrefix(cwd, "/"):
		return refuse("is not an absolute path: " + cwd)
	case slices.Contains(strings.FieldsFunc(cwd, func(r rune) bool { return r == '/' || isWindows && r == '\\' }), ".."):
		return refuse("contains ..: " + cwd)
	}
	return nil
}

// IsHidden reports whether people do not see a character of a path, or see others differently.
func IsHidden(r rune) bool {
	if r < 0x80 {
		return r < ' ' || r == 0x7f
	}
	return r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// windowsPath matches the beginning of an absolute path of Windows.
var windowsPath = regexp.MustCompile(`^([A-Za-z]:[\\/]|\\\\)`)

// ProposedIn is the part of a proposal's digest that stands for the working folder.
func ProposedIn(cwd string) string { return "cwd " + cwd }

// ProposalDigest tells a repeated proposal of a call from another call under the same ids.
// more is anything else that distinguishes them.
func ProposalDigest(tool, input string, more ...string) string {
	b, err := strictjson.AppendString(append(make([]byte, 0, 512), '['), tool) // the RFC 8785 form of a list
	if err == nil {
		b, err = strictjson.AppendString(append(b, ','), input)
	}
	for i := 0; i < len(more) && err == nil; i++ {
		b, err = strictjson.AppendString(append(b, ','), more[i])
	}
	b = append(b, ']')
	if err != nil { // invalid UTF-8: hash the parts as they are
		b = fmt.Appendf(nil, "%d:%s%s", len(tool), tool, input)
		for _, part := range more {
			b = fmt.Appendf(b, "\x00%d:%s", len(part), part)
		}
	}
	return message.Digest(b)
}

// Open reports whether the call can still change.
func (c *Call) Open() bool { return c.State != message.ToolCallFinished }

// Started reports whether the current attempt has an owner.
func (c *Call) Started() bool { return c.Attempt.Claim != "" }

// Decision is the policy's decision about the call, as event records store it.
type Decision struct {
	Behavior message.Behavior `json:"behavior"`
	Rule     string           `json:"rule,omitzero"`
	Source   string           `json:"source,omitzero"`
	Reason   string           `json:"reason"`
	Message  string           `json:"message,omitzero"`
	// Headline is set if the first line of Message is the rule's message about this call.
	Headline bool   `json:"headline,omitzero"`
	Bundle   string `json:"bundle"`
	// Denial is what agents are told if the call is denied.
	Denial *DenialHint `json:"denial,omitzero"`
	Errors []string    `json:"errors,omitzero"` // rule errors; each failed closed
	// TimeoutMS is the longest run of an attempt that the rules permit, in milliseconds; 0 if
	// they set none.
	TimeoutMS int64 `json:"timeout_ms,omitzero"`
	// Route is the subject on which workers take the call, if rules name one: only workers
	// of that route may run it.
	Route string `json:"route,omitzero"`
	// Recheck names rules whose conditions must hold again when the call begins.
	Recheck []string `json:"recheck,omitzero"`
	// Budget is what the call has taken from the budget of the rule that allowed it.
	Budget *BudgetUse `json:"budget,omitzero"`
	// Standing is the standing approval that allowed what the policy asks about.
	Standing StandingID `json:"standing_approval_id,omitzero"`
	// Besides are further standing approvals without which the call would not have been
	// allowed: each covers a part of the call.
	Besides []StandingID `json:"further_standing_approval_ids,omitzero"`
}

// StandingApprovals are the standing approvals that the decision relies on. d may be nil.
func (d *Decision) StandingApprovals() []StandingID {
	if d == nil || d.Standing == "" {
		return nil
	}
	return append([]StandingID{d.Standing}, d.Besides...)
}

// Order says how a call waits for others of its reply, like a readers-writer lock. A call
// that has an order waits for every earlier one that has one, if either is exclusive.
// Earlier means that its first event record comes earlier in the journal.
type Order string

// The orders of a call.
const (
	OrderNone      Order = ""          // waits for no call, and none waits for it
	OrderShared    Order = "shared"    // waits for exclusive calls
	OrderExclusive Order = "exclusive" // runs alone
)

// Turn is the call's order, including older records that stored a batch instead.
func (c *Call) Turn() Order {
	if len(c.Batch) > 0 {
		return OrderExclusive
	}
	return c.Order
}

// WaitsFor reports whether the call has to wait for another open call of its reply.
func (c *Call) WaitsFor(other *Call) bool {
	mine, its := c.Turn(), other.Turn()
	return mine != OrderNone && its != OrderNone && other.First < c.First && (mine == OrderExclusive || its == OrderExclusive)
}

// Attempt is one attempt to run the call. Number is the fence: a message with an older
// number is recorded but changes nothing.
type Attempt struct {
	Number     int       `json:"number,omitzero"` // 1, 2, …; 0 if there is none yet
	Grant      *Grant    `json:"grant,omitzero"`  // remote attempts only
	Worker     string    `json:"worker,omitzero"` // the authenticated owner, once started
	Claim      string    `json:"claim,omitzero"`  // the owner's own id for this start; "" until started
	OfferedAt  time.Time `json:"offered_at,omitzero"`
	OfferUntil time.Time `json:"offer_until,omitzero"` // offered again if no worker has started it by then
	StartedAt  time.Time `json:"started_at,omitzero"`
	LeaseMS    int64     `json:"lease_ms,omitzero"` // silence after which the owner counts as dead
	Deadline   time.Time `json:"deadline,omitzero"` // when the run is cancelled; zero if never
	Offers     int       `json:"offers,omitzero"`   // how often this attempt was offered, including this time
}

// HasResponse reports whether the call has the response to which its sender gave this id.
func (c *Call) HasResponse(name, id string) bool {
	return id != "" && slices.ContainsFunc(c.Votes, func(v Vote) bool { return v.ID == id && v.By.Name == name })
}
