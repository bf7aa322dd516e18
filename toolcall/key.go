package toolcall

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/askance-dev/askance/message"
	"golang.org/x/text/unicode/norm"
)

// Key is the identity of a call: call ids come from models and repeat across replies, so
// only all four parts together identify one. A Key without Call identifies the reply's own
// entity of event records; without Reply too, the session's. A Key with only Space and
// Entity identifies a standing approval or a budget.
type Key struct {
	Space   SpaceID           `json:"space"`
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id,omitzero"`
	Call    message.CallID    `json:"tool_call_id,omitzero"`
	Entity  EntityName        `json:"-"` // never part of a call's key, and not sent
}

// EntityName names an entity that belongs to no session: a StandingID or a BudgetID, which
// have different prefixes.
type EntityName string

// IsBudget reports whether the entity is a budget.
func (n EntityName) IsBudget() bool { return strings.HasPrefix(string(n), budgetPrefix) }

// MaxIDBytes bounds each part of a Key. Longer ids are refused, not cut: two
// different ids must never become one.
const MaxIDBytes = 10_000

// ReplyKey is the key of the reply that the call belongs to.
func (k Key) ReplyKey() Key { k.Call = ""; return k }

// SessionKey is the key of the session that the call belongs to.
func (k Key) SessionKey() Key { k.Call, k.Reply = "", ""; return k }

// Compare orders the calls of a space by session, reply and call.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Session, other.Session), cmp.Compare(k.Reply, other.Reply), cmp.Compare(k.Call, other.Call))
}

// IdempotencyKey is passed to tools. It is a hash of all four parts, each prefixed with its
// length, so no two calls share it and all attempts of one call do.
func (k Key) IdempotencyKey() string {
	b := append(make([]byte, 0, 256), "askance-idempotency-v1\x00"...)
	for _, part := range [...]string{string(k.Space), string(k.Session), string(k.Reply), string(k.Call)} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return string(hex.AppendEncode(append(make([]byte, 0, 3+2*len(sum)), "ak_"...), sum[:]))
}

// Validate reports which part of a call's key is missing or too long.
func (k Key) Validate() error {
	for _, p := range []struct{ name, value string }{
		{"space", string(k.Space)}, {"session_id", string(k.Session)},
		{"reply_id", string(k.Reply)}, {"tool_call_id", string(k.Call)},
	} {
		if p.value == "" {
			return &message.Error{Code: message.CodeInvalid, What: p.name + " is empty", Hint: "name the call by session_id, reply_id and tool_call_id"}
		}
		if len(p.value) > MaxIDBytes {
			return &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("%s has %d bytes, the limit is %d", p.name, len(p.value), MaxIDBytes), Hint: "use a shorter id, for example a UUID"}
		}
	}
	return nil
}

// String is for people and logs; it cannot be parsed.
func (k Key) String() string {
	if k.Entity != "" {
		return string(k.Space) + "/" + string(k.Entity)
	}
	s := string(k.Space) + "/" + string(k.Session)
	if k.Reply != "" {
		s += "/" + string(k.Reply)
	}
	if k.Call != "" {
		s += "/" + string(k.Call)
	}
	return s
}

// SpaceID identifies a space: one journal, one set of keys, one set of people.
type SpaceID string

// Role determines what an authenticated principal may do in a space.
type Role string

// The roles of a space. A person or program may have several, but a connection acts in
// exactly one.
const (
	RoleRuntime  Role = "runtime"  // proposes calls, streams events, reports external results
	RoleApprover Role = "approver" // responds to approval requests
	RoleWorker   Role = "worker"   // runs submitted calls
	RoleOperator Role = "operator" // resolves, retries, reloads
	RoleAuditor  Role = "auditor"  // reads
	RoleEngine   Role = "engine"   // timers, recovery and policy: the engine itself
)

// Principal is the acting person or program. It always comes from the transport (a NATS
// subject token guarded by permissions, an in-process caller), never from the body of a
// request.
type Principal struct {
	Role Role   `json:"role"`
	Name string `json:"name"`
	// Auth says how the name was established: "in-process" (by the program that the engine
	// is part of), "nats-jwt" (the NATS server demands a signed login, which names the
	// subjects that it may use), "nats-subject" (only by a NATS subject; the engine does not
	// know whether the server guards it), "http-token" and "oidc:<issuer>" (a bearer token,
	// or an identity provider, over HTTP), "unix-peer:<uid>" (the kernel named the user who
	// connected to a Unix socket), "http-loopback" (not authenticated: any process of the
	// machine). It is stored with each vote.
	Auth string `json:"auth"`
}

// String returns role and name, for messages to people.
func (p Principal) String() string { return string(p.Role) + " " + p.Name }

// HashIDs hashes ids for uses where a collision costs little. It is the same in every process
// (FNV-1a), so it can be stored.
func HashIDs(ids ...string) uint64 {
	const basis, prime = 14695981039346656037, 1099511628211
	h := uint64(basis)
	for _, id := range ids {
		for i := range len(id) {
			h = (h ^ uint64(id[i])) * prime
		}
		h = (h ^ uint64(len(id))) * prime
	}
	return h
}

// IsSamePerson reports whether two names are of one person. Names that differ only in case or in
// their Unicode form count as one: a person can have both, and must not count twice or approve their
// own request.
func IsSamePerson(a, b string) bool { return a == b || PersonKey(a) == PersonKey(b) }

// PersonKey returns what all names of one person have in common.
func PersonKey(name string) string {
	folded := strings.Map(func(r rune) rune {
		if r == '\u0131' {
			return 'I' // its upper case, which has another lower case
		}
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, norm.NFKD.String(name)) // decomposed, because some letters have no other case of their own
	onI := false
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u0307' && onI:
			return -1 // the dot of the Turkish capital I, which its lower case loses or keeps
		case !unicode.Is(unicode.M, r):
			onI = r == 'I'
		}
		return r
	}, norm.NFKD.String(folded)) // last, so that the marks of a letter are in one order
}

// People returns one name of each person, sorted.
func People(names []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool {
		key := PersonKey(name)
		known := seen[key]
		seen[key] = true
		return known
	})
}

// GatewayName is the name under which the gateway's runners act for users, see gateway/agent. No
// login has it.
const GatewayName = "askance-gateway"

// GatewaySessions begins the ids of the sessions that belong to GatewayName, see gateway/agent.
const GatewaySessions = "askance.turns/"

// CheckName refuses names that a reader could mistake for others.
func CheckName(name string) error {
	switch {
	case IsSamePerson(name, GatewayName):
		return fmt.Errorf("the name %s is reserved for askance", name)
	case name == "" || len(name) > MaxIDBytes:
		return fmt.Errorf("a name has 1 to %d bytes", MaxIDBytes)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isUnseen) || strings.TrimSpace(name) != name:
		return fmt.Errorf("the name %.60q has invisible characters, or space around it", name)
	case !norm.NFC.IsNormalString(name):
		return fmt.Errorf("the name %.60q has accents as separate characters: write it in Unicode form NFC", name)
	}
	return nil
}

// isUnseen reports whether a character is invisible, looks like a space, or changes
// how others are shown: two names could look the same.
func isUnseen(r rune) bool {
	return r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar ||
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point))
}

// MaxRouteBytes bounds a route.
const MaxRouteBytes = 256

// Queue identifies where tasks wait: all remote calls of a tool that no rule routes, or
// those that rules route to one subject. A worker serves queues and does not see other
// queues. The zero Queue means none.
type Queue struct {
	Tool  string
	Route string // the executor.subject of the matching rules, if any
}

// String is for people and logs.
func (q Queue) String() string {
	if q.Route == "" {
		return strconv.Quote(q.Tool)
	}
	return strconv.Quote(q.Tool) + " on " + strconv.Quote(q.Route)
}

// Queues returns the queue of every tool with every route, or without a route if there are
// none.
func Queues(tools, routes []string) []Queue {
	if len(routes) == 0 {
		routes = []string{""}
	}
	var out []Queue
	for _, t := range tools {
		for _, r := range routes {
			out = append(out, Queue{Tool: t, Route: r})
		}
	}
	return out
}

// CheckRoute checks that calls can be routed to a subject of that name: 1 to 256 bytes of
// UTF-8. The error has CodeInvalid.
func CheckRoute(route string) error {
	if route == "" || len(route) > MaxRouteBytes || !utf8.ValidString(route) {
		return &message.Error{Code: message.CodeInvalid, Op: "check route", What: fmt.Sprintf("calls cannot be routed to the subject %.80q", route), Hint: "use a subject of at most 256 bytes, for example exec.payments"}
	}
	return nil
}

// Queue is the queue from which workers take the call if it runs remotely.
func (c *Call) Queue() Queue {
	l := Queue{Tool: c.Tool}
	if c.Decision != nil {
		l.Route = c.Decision.Route
	}
	return l
}

// Task is a submitted event record that was handed to a worker. It is delivered at least
// once: a task that is neither acknowledged nor released in time goes to another worker,
// or to the same one again. Acknowledging proves nothing; only the engine's answer to a
// start says whose attempt it is.
type Task struct {
	Record    *EventRecord
	ID        string // for StartRequest.Task; "" if only Ack removes the task
	Delivered int    // how often it was delivered, including this time; 1, 2, …
	// Ack removes the task from the queue. It returns once the queue has confirmed that.
	Ack func(context.Context) error
	// Release returns the task to the queue, to be delivered again after delay at the earliest.
	Release func(delay time.Duration) error
	// End, if set, is called after the last request with the claim of this task.
	End func(claim string)
}

// Invocation is one attempt of an allowed call as passed to what runs it: a Go function in
// the engine's process, or the same function in a worker.
type Invocation struct {
	// Call is the call's full state; read only. Its Attempt.Number says which attempt this
	// is, and Attempt.Claim who owns it.
	Call *Call
	// Input is the raw JSON to run with, byte for byte as decided.
	Input json.RawMessage
	// IdempotencyKey is the same for every attempt of the call, see
	// [Key.IdempotencyKey].
	IdempotencyKey string
}
