package message

// Role is what an authenticated principal may do in a space.
type Role string

// The roles of a space. One person or program may hold several, one
// connection acts in exactly one.
const (
	RoleRuntime  Role = "runtime"  // proposes calls, streams events, reports external results
	RoleApprover Role = "approver" // answers approval requests
	RoleWorker   Role = "worker"   // runs submitted calls
	RoleOperator Role = "operator" // resolves, retries, reloads
	RoleAuditor  Role = "auditor"  // reads
	RoleEngine   Role = "engine"   // timers, recovery and policy: the engine itself
)

// Principal is who acts. It always comes from the transport (a NATS subject
// token guarded by permissions, an in-process caller), never from the body of
// a request.
type Principal struct {
	Role Role   `json:"role"`
	Name string `json:"name"`
	// Auth says how the name was established: "in-process" (by the program that
	// the engine is part of), "nats-jwt" (the NATS server lets in nobody without a
	// signed login, which names the subjects that it may use), "nats-subject" (by
	// a NATS subject alone: whether the server guards it, the engine does not
	// know), "http-token" and "oidc:<issuer>" (a bearer token, or an identity
	// provider's word, over HTTP), "unix-peer:<uid>" (the kernel named the user who
	// connected to a Unix socket), "http-loopback" (not authenticated: any process
	// of the machine). It is kept with each vote.
	Auth string `json:"auth"`
}

// String gives role and name, for messages to people.
func (p Principal) String() string { return string(p.Role) + " " + p.Name }
