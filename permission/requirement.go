package permission

import "time"

// Approvers says who may answer an approval request: a person who is listed, or who is
// in one of the groups. The zero value is every approver of the space.
type Approvers struct {
	Users  []string
	Groups []string
	// ExcludeRequester keeps the person on whose behalf the call is made from
	// answering.
	ExcludeRequester bool
	// ExcludeEditor: a person who changed the arguments does not count as an
	// approver of them.
	ExcludeEditor bool
}

// isNamed reports whether the approvers are a choice of people.
func (a Approvers) isNamed() bool { return len(a.Users)+len(a.Groups) > 0 }

// Escalation lets further people answer an approval request that has been open for a
// while. Those who could answer before still can.
type Escalation struct {
	After time.Duration
	To    Approvers
}

// OnExpiry is what happens to an approval request that was not answered in time.
type OnExpiry string

// An expired approval request denies, or stays open for the people of its last
// escalation alone, once more for the same time, and then denies. It never
// allows.
const (
	OnExpiryDeny     OnExpiry = "deny"
	OnExpiryEscalate OnExpiry = "escalate"
)

// Remember says what one approval may answer besides its own call: later calls
// of the same tool that match the same rules and whose values at every path of
// Scope are those of the approved call.
type Remember struct {
	// Scope are paths such as args.customer_id, caller.user or ctx.cwd. Empty:
	// any call that the rules match.
	Scope []string
	// TTL is how long it lasts from the approval on.
	TTL time.Duration
	// Uses is how many further calls it answers; 0: any number until TTL.
	Uses int
}

// Executor routes an allowed call. The zero value leaves it to the tool.
type Executor struct {
	// Subject is where workers take the call, a subject without wildcards.
	Subject string
	// Timeout bounds one run; 0: the tool's own.
	Timeout time.Duration
}

// AuditLevel says how much of a call is kept in the record of decisions. The
// zero value is AuditStandard.
type AuditLevel string

// The levels, from the least to the most.
const (
	AuditStandard AuditLevel = "standard" // what event records hold anyway
	AuditFull     AuditLevel = "full"     // besides, the explanation of the decision
)

// Duty is a key of a rule that this package only states: the engine must carry
// it out.
type Duty string

// The duties, by the key that imposes them.
const (
	DutyUsers            Duty = "approvers.users"
	DutyGroups           Duty = "approvers.groups"
	DutyExcludeRequester Duty = "approvers.exclude_requester"
	DutyExcludeEditor    Duty = "approvers.exclude_editor"
	DutyQuorum           Duty = "quorum"
	DutySigned           Duty = "signed"
	DutyExpiry           Duty = "expiry"
	DutyOnExpiry         Duty = "on_expiry" // escalate; an approval request that expires denies anyway
	DutyEscalation       Duty = "escalation"
	DutyRemember         Duty = "remember"
	DutyRedact           Duty = "redact"
	DutyExecutorSubject  Duty = "executor.subject"
	DutyExecutorTimeout  Duty = "executor.timeout"
	DutyAudit            Duty = "audit"
)

// basicDuties are what every engine carries out.
var basicDuties = []Duty{DutyUsers, DutyExpiry}
