package permission

import (
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Request is one tool call to be decided.
type Request struct {
	Tool  string
	Input []byte // the raw JSON object that would run, after every rewrite
	// Caller comes from authenticated event records, never from the input.
	Caller Caller
	// Mode of the session; empty: the bundle's.
	Mode Mode
	// Now is ctx.now for the rules. The package never reads a clock itself,
	// but for its own deadline.
	Now         time.Time
	Cwd         string
	WorkingDirs []string
	// Resolved has, by its text in the input, the absolute path to which each
	// path leads when symbolic links are followed. Who prepares the request
	// fills it in (see Resolve), because deciding looks at no file. Rules read
	// it as ctx.resolved[args.path], which fails for what is not in it.
	Resolved map[string]string
	// Attempt is the number of the try at running the call, from 1;
	// CallsThisRun counts the calls of the caller's run, this one included.
	// 0: not known, and then rules that ask for it cannot be evaluated.
	Attempt      int
	CallsThisRun int
	// SessionRules are rules remembered for this session, of any behavior.
	// They join the bundle's, with the same precedence.
	SessionRules []message.PermissionRule
}

// Caller is who proposes the call. What is empty of Tenant, RunID and
// ParentAgent is not known: rules that ask for it cannot be evaluated, unless
// they guard it with has().
type Caller struct {
	Agent   string
	User    string // on whose behalf
	Space   toolcall.SpaceID
	Session message.SessionID
	Reply   message.ReplyID
	Roles   []string // nil: not known; empty: none
	Tenant  string
	RunID   string
	// ParentAgent is the agent that started this one.
	ParentAgent string
}
