package bus

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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
			if CheckQueue(queue) != nil {
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

// NextSubject is where an engine asks for a queue's next task. A worker must not: the
// server's reply goes, in the server's name, to any subject that the request names.
func NextSubject(space toolcall.SpaceID, queue toolcall.Queue) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + StreamName(space) + "." + ConsumerName(queue)
}

// Token is an id in a subject. Only [Encode], [EncodeQueue] and [ParseToken]
// create one: it has no dot, wildcard or white space and is never "-", the
// placeholder of reply and session entities.
//
// There are three forms, and no two ids share a token:
//
//	abc_1-X     the id itself: 1 to 64 of A-Z a-z 0-9 _ -, not beginning with -
//	~cmVhZA     "~" and unpadded base64url of any other id up to 180 bytes
//	~~5c3e…     "~~" and the hex SHA-256 of a longer id, which cannot be decoded
type Token string

const (
	maxPlainBytes   = 64
	maxEncodedBytes = 180 // 241 characters, so that "w_" and a token fit a consumer name (255)
	hashPrefix      = "~~"
	textPrefix      = "~"
)

// strictBase64 refuses stray bits in the last character, which would be a second
// spelling of the same id.
var strictBase64 = base64.RawURLEncoding.Strict()

// MaxNameBytes limits the names of principals and tools, which must be readable in
// a subject.
const MaxNameBytes = maxEncodedBytes

// Encode returns the token of an id, or "" for an empty id.
func Encode(id string) Token {
	switch {
	case id == "":
		return ""
	case IsPlain(id):
		return Token(id)
	case len(id) <= maxEncodedBytes:
		return Token(textPrefix + strictBase64.EncodeToString([]byte(id)))
	default:
		sum := sha256.Sum256([]byte(id))
		return Token(hashPrefix + hex.EncodeToString(sum[:]))
	}
}

// IsPlain reports whether the id is its own token.
func IsPlain(id string) bool {
	if id == "" || len(id) > maxPlainBytes || id[0] == '-' {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// ID decodes the id. It returns false for a hashed token: in that case, check the id in
// the message with Is.
func (t Token) ID() (id string, ok bool) {
	s := string(t)
	switch {
	case IsPlain(s):
		return s, true
	case strings.HasPrefix(s, hashPrefix), !strings.HasPrefix(s, textPrefix):
		return "", false
	}
	b, err := strictBase64.DecodeString(s[len(textPrefix):])
	if err != nil || Encode(string(b)) != t {
		return "", false
	}
	return string(b), true
}

// Text returns the id, or the token itself if it is a hash.
func (t Token) Text() string {
	if id, ok := t.ID(); ok {
		return id
	}
	return string(t)
}

// Is reports whether t is the token of id.
func (t Token) Is(id string) bool { return t != "" && Encode(id) == t }

// ParseToken accepts exactly what Encode returns.
func ParseToken(s string) (Token, error) {
	t := Token(s)
	if _, ok := t.ID(); ok || isHashed(s) {
		return t, nil
	}
	return "", badToken(s)
}

func badToken(s string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "parse subject token", What: errtext.Quote(s) + " is not the token of an id", Hint: "build subjects as bus/PROTOCOL.md says"}
}

func isHashed(s string) bool {
	hexPart, ok := strings.CutPrefix(s, hashPrefix)
	return ok && len(hexPart) == 2*sha256.Size && strings.Trim(hexPart, "0123456789abcdef") == ""
}

// CheckName returns why a principal or tool cannot be named in a subject. what is
// "runtime", "tool" and so on, for the error.
func CheckName(what, name string) error {
	switch {
	case name == "":
		return &message.Error{Code: message.CodeInvalid, Op: "check name", What: "the " + what + " has no name", Hint: "give it one"}
	case len(name) > MaxNameBytes:
		return &message.Error{Code: message.CodeTooLarge, Op: "check name", What: what + " name " + errtext.Quote(name) + " is too long", Hint: "use at most 180 bytes"}
	}
	return nil
}

// CheckSpace returns why a space cannot have this name: it needs 1 to 32 of a-z 0-9 _ -.
func CheckSpace(space toolcall.SpaceID) error {
	ok := len(space) >= 1 && len(space) <= 32
	for i := range len(space) {
		c := space[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if ok {
		return nil
	}
	return &message.Error{Code: message.CodeInvalid, Op: "check space", What: "space " + errtext.Quote(string(space)) + " is not a valid name", Hint: "use 1 to 32 of a-z, 0-9, _ and -"}
}
