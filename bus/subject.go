package bus

import (
	"strings"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Kind says what a subject is for.
type Kind int

// The kinds of subject. The protocol page has their layouts, writers and readers.
const (
	KindInvalid Kind = iota
	KindRecord
	KindWork
	KindReplyRecord
	KindSessionRecord
	KindNamedRecord
	KindEvent
	KindPropose
	KindInterrupt
	KindQuery
	KindDecide
	KindOperate
	KindAsk
	KindProgress
	KindStart
	KindHeartbeat
	KindWorkProgress
	KindResult
	KindCancel
	KindNext
	KindAck
	KindAudit
	KindCheckpoint
	KindPresence
)

// root is the first part of every subject: name and protocol version.
const root = "askance.v1."

// ProtocolVersion is the version of subjects, headers and request shapes.
const ProtocolVersion = 1

// Row is one line of the subject table.
type Row struct {
	Kind Kind
	// Layout follows "askance.v1.<space>."; <x> stands for a token.
	Layout string
	Writer string // who may publish
	Reader string // who may subscribe
	// Payload is the body: a type of package message or toolcall, or "request" for an
	// operation of [Operations]. Only requests get replies.
	Payload string
	What    string
	// As is the role for which requests on the subject are executed.
	As toolcall.Role
}

const request = "request"

// table has every subject of the protocol. Permissions and filters depend on the
// order of tokens. Rows with a literal come before rows with a token in its place.
var table = []Row{
	{KindNamedRecord, "record.-.-.<name>.f", "engines", "engines", "EventRecord", "event records of a standing approval (its uses, its revocation) or of a budget (what calls have taken from it)", ""},
	{KindSessionRecord, "record.<session>.-.-.f", "engines", "engines", "EventRecord", "event records of the session itself: which runtime it is bound to", ""},
	{KindReplyRecord, "record.<session>.<reply>.-.f", "engines", "engines", "EventRecord", "event records of the reply itself: interrupted, ended, completed", ""},
	{KindRecord, "record.<session>.<reply>.<call>.f", "engines", "engines", "EventRecord", "event records of a call, except tasks", ""},
	{KindWork, "record.<session>.<reply>.<call>.w.<tool>", "engines", "engines, which hand it to a worker", "EventRecord", "the submitted event record of a remote attempt: the task; `<tool>` is the queue", ""},
	{KindEvent, "event.<runtime>.<session>.<reply>", "engines, for the runtime", "engines", "AgentScope event", "streamed events, which are not event records", ""},
	{KindPropose, "propose.<runtime>", "that runtime", "engines", request, "requests of a runtime about its own sessions", toolcall.RoleRuntime},
	{KindInterrupt, "interrupt.<runtime>", "that runtime", "engines", request, "ends the open calls of one of its replies", toolcall.RoleRuntime},
	{KindQuery, "query.<principal>", "that approver, operator or auditor", "engines", request, "reading the whole space", toolcall.RoleAuditor},
	{KindAudit, "audit.<auditor>", "that auditor", "engines", request, "reading the stored records and their proofs", toolcall.RoleAuditor},
	{KindCheckpoint, "proof.checkpoint", "engines", "engines", "Sealed", "the checkpoints of the journal, in order", ""},
	{KindDecide, "decide.<approver>", "that approver", "engines", request, "responses to approval requests; the token is the identity", toolcall.RoleApprover},
	{KindOperate, "operate.<operator>", "that operator", "engines", request, "resolving, and other work of operators", toolcall.RoleOperator},
	{KindAsk, "ask.<session>.<reply>.<call>", "engines", "people", "Hint", "an approval request was opened, changed or closed, or its call finished; best effort", ""},
	{KindPresence, "presence.<engine>", "engines", "engines", "Presence", "says that an engine runs, and in which queue group it takes requests; `<engine>` is the name with which it connects", ""},
	{KindProgress, "progress.<session>.<reply>.<call>", "engines", "people", "ProgressRequest", "a line of progress of a running call, without its claim; best effort", ""},
	{KindNext, "work.<tool>.<worker>.next", "that worker", "engines", request, "asks for one task of the queue; answered by several messages", toolcall.RoleWorker},
	{KindAck, "work.<tool>.<worker>.ack", "that worker", "engines", request, "acknowledges a task, or returns it to the queue", toolcall.RoleWorker},
	{KindStart, "work.<tool>.<worker>.start", "that worker", "engines", request, "claims or refuses an attempt", toolcall.RoleWorker},
	{KindHeartbeat, "work.<tool>.<worker>.heartbeat", "that worker; an engine for its local attempts", "engines, each of them", request, "the attempt is still running; the reply has cancel and stale", toolcall.RoleWorker},
	{KindWorkProgress, "work.<tool>.<worker>.progress", "that worker", "engines", request, "a line of progress; the reply is empty", toolcall.RoleWorker},
	{KindResult, "work.<tool>.<worker>.result", "that worker", "engines", request, "the result of an attempt", toolcall.RoleWorker},
	{KindCancel, "work.<tool>.<worker>.cancel", "engines", "that worker", "HeartbeatRequest and reason", "stop this attempt; faster than the heartbeat's reply, which says the same", ""},
}

var layouts = func() map[Kind][]string {
	m := map[Kind][]string{}
	for _, row := range table {
		m[row.Kind] = strings.Split(row.Layout, ".")
	}
	return m
}()

// Subject is a decoded subject. Kind decides which fields are set.
type Subject struct {
	Space   toolcall.SpaceID
	Kind    Kind
	Session Token
	Reply   Token
	Call    Token
	Tool    Token // of the queue: the tool, or the tool and a route
	Name    Token // of a standing approval or a budget
	Who     Token // the runtime, approver, operator, worker or other principal
}

func (s *Subject) fieldNamed(name string) *Token {
	switch name {
	case "<session>":
		return &s.Session
	case "<reply>":
		return &s.Reply
	case "<call>":
		return &s.Call
	case "<tool>":
		return &s.Tool
	case "<name>":
		return &s.Name
	case "<runtime>", "<principal>", "<approver>", "<operator>", "<auditor>", "<worker>", "<engine>":
		return &s.Who
	}
	return nil
}

// String returns the subject. A missing token becomes "*", so the result is a filter
// for a subscription.
func (s Subject) String() string {
	var b strings.Builder
	b.Grow(192)
	b.WriteString(root)
	b.WriteString(string(s.Space))
	for _, part := range layouts[s.Kind] {
		b.WriteByte('.')
		f := s.fieldNamed(part)
		switch {
		case f == nil:
			b.WriteString(part)
		case *f == "":
			b.WriteByte('*')
		default:
			b.WriteString(string(*f))
		}
	}
	return b.String()
}

// isComplete reports whether every token is set: only then can a message be published
// on String.
func (s Subject) isComplete() bool {
	for _, part := range layouts[s.Kind] {
		if f := s.fieldNamed(part); f != nil && *f == "" {
			return false
		}
	}
	return s.Kind != KindInvalid
}

// ParseSubject decodes a subject. It accepts exactly what String returns for a
// valid space and complete tokens.
func ParseSubject(text string) (Subject, error) {
	rest, ok := strings.CutPrefix(text, root)
	if !ok {
		return Subject{}, badSubject(text, "it must begin with "+strings.TrimSuffix(root, "."))
	}
	space, rest, _ := strings.Cut(rest, ".")
	if err := CheckSpace(toolcall.SpaceID(space)); err != nil {
		return Subject{}, err
	}
	var arr [8]string
	parts := splitDots(arr[:0], rest)
	for i := range table {
		s := Subject{Space: toolcall.SpaceID(space), Kind: table[i].Kind}
		if s.match(layouts[s.Kind], parts) {
			return s, nil
		}
	}
	return Subject{}, badSubject(text, "it matches no subject of the protocol")
}

// splitDots appends the parts of s, but at most one more than any layout has.
func splitDots(parts []string, s string) []string {
	for len(parts) < cap(parts)-1 {
		part, rest, more := strings.Cut(s, ".")
		parts = append(parts, part)
		if !more {
			return parts
		}
		s = rest
	}
	return append(parts, s)
}

// match reports whether parts follow the layout, and sets the tokens.
func (s *Subject) match(layout, parts []string) bool {
	if len(parts) != len(layout) {
		return false
	}
	for i, l := range layout {
		f := s.fieldNamed(l)
		if f == nil {
			if parts[i] != l {
				return false
			}
			continue
		}
		parse := ParseToken
		if f == &s.Tool {
			parse = parseQueue
		}
		t, err := parse(parts[i])
		if err != nil {
			return false
		}
		*f = t
	}
	return true
}

func badSubject(text, why string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "parse subject", What: errtext.Quote(text) + ": " + why, Hint: "see bus/PROTOCOL.md for the subjects"}
}

// Permissions are the NATS subjects that a principal can publish and subscribe to.
// They make the name in a subject trustworthy as an identity.
type Permissions struct {
	Publish, Subscribe []string
}

// PermissionsFor returns the minimal permissions of a principal. A worker can serve
// only the given queues.
//
// Only engines can use JetStream: a client that chooses where JetStream replies
// could make it purge a stream. Hints and progress cover every session, so only
// people read them. An unknown role or an invalid name gets empty lists, which the
// embedded server reads as "nothing", but the configuration of another as "everything".
func PermissionsFor(space toolcall.SpaceID, p toolcall.Principal, queues ...toolcall.Queue) Permissions {
	if CheckName("principal", p.Name) != nil || CheckSpace(space) != nil {
		return Permissions{} // an empty token would be a wildcard
	}
	who := Encode(p.Name)
	at := func(k Kind) string { return Subject{Space: space, Kind: k, Who: who}.String() }
	perms := Permissions{Subscribe: []string{InboxPrefix(p.Name) + ".>"}}
	if p.Role == toolcall.RoleEngine {
		return EnginePermissions
	}
	if p.Role == toolcall.RoleWorker {
		for _, queue := range queues {
			if checkQueue(queue) != nil {
				return Permissions{}
			}
			perms = perms.withQueue(space, who, queue)
		}
		return perms
	}
	for _, k := range kindsFor(p.Role) {
		perms.Publish = append(perms.Publish, at(k))
	}
	switch p.Role {
	case toolcall.RoleRuntime:
	case toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor:
		perms.Subscribe = append(perms.Subscribe, Subject{Space: space, Kind: KindAsk}.String(), Subject{Space: space, Kind: KindProgress}.String())
	default:
		return Permissions{}
	}
	return perms
}

// EnginePermissions cover all subjects, because NATS has no wildcard that matches
// only the inboxes of principals.
var EnginePermissions = Permissions{Publish: []string{">"}, Subscribe: []string{">"}}

func (p Permissions) withQueue(space toolcall.SpaceID, who Token, queue toolcall.Queue) Permissions {
	at := func(k Kind) string {
		return Subject{Space: space, Kind: k, Who: who, Tool: EncodeQueue(queue)}.String()
	}
	for _, k := range kindsFor(toolcall.RoleWorker) {
		p.Publish = append(p.Publish, at(k))
	}
	p.Subscribe = append(p.Subscribe, at(KindCancel))
	return p
}

// nextSubject is where an engine asks for a queue's next task. A worker must not: the
// server's reply goes, in the server's name, to any subject that the request names.
func nextSubject(space toolcall.SpaceID, queue toolcall.Queue) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + StreamName(space) + "." + ConsumerName(queue)
}
