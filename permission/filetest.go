package permission

import (
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/rulefile"
)

// Test is a call with the decision that the policy must give it. Tests stand in
// rule files, decide nothing and are no part of a bundle's hash.
type Test struct {
	Name        string
	Description string
	Call        TestCall
	Expect      Expect

	at *rulefile.Origin
}

// Place is where the test begins.
func (t *Test) Place() Place { return placeOf(t.at) }

// TestCall is the call of a test.
type TestCall struct {
	Tool         string
	Args         []byte // JSON text, meant to be an object
	Caller       Caller
	Mode         Mode
	Now          time.Time
	Cwd          string
	WorkingDirs  []string
	Attempt      int
	CallsThisRun int
	SessionRules []message.PermissionRule
}

// Request is the call as a policy is asked about it.
func (c TestCall) Request() Request {
	return Request{Tool: c.Tool, Input: c.Args, Caller: c.Caller, Mode: c.Mode, Now: c.Now, Cwd: c.Cwd,
		WorkingDirs: c.WorkingDirs, Attempt: c.Attempt, CallsThisRun: c.CallsThisRun, SessionRules: c.SessionRules}
}

// Expect is what a test expects. A nil or empty field is not looked at.
type Expect struct {
	Behavior message.Behavior
	// Rule is the name of the rule that decides; "" (null in the file): none.
	Rule     *string
	Step     Step
	Message  *string
	Quorum   *int
	Expiry   *time.Duration
	OnExpiry OnExpiry
	Users    []string
	Groups   []string
	Redact   []string
	// Errors is whether something could not be evaluated.
	Errors *bool
}
