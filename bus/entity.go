package bus

import (
	"cmp"
	"strings"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Entity is the filter over all event records of one call, reply, session, standing
// approval or budget. Every compare-and-swap on it must use exactly this text: with
// two filters, two writers could win.
type Entity string

// EntityOf returns the filter of a key's entity.
func EntityOf(k toolcall.Key) (Entity, error) {
	s, err := RecordSubject(k, toolcall.Queue{})
	if err != nil {
		return "", err
	}
	return s.Entity(), nil
}

// RecordSubject returns the subject of an event record; only tasks have a queue.
func RecordSubject(k toolcall.Key, queue toolcall.Queue) (Subject, error) {
	if k.Entity != "" {
		return namedSubject(k, queue)
	}
	s := Subject{Space: k.Space, Kind: KindRecord, Session: Encode(string(k.Session)), Reply: Encode(string(k.Reply)), Call: Encode(string(k.Call)), Tool: EncodeQueue(queue)}
	work := queue != (toolcall.Queue{})
	switch {
	case k.Session == "" || k.Reply == "" && k.Call != "" || work && k.Call == "":
		return Subject{}, &message.Error{Code: message.CodeInvalid, Op: "name event record", What: "the key " + errtext.Quote(k.String()) + " names no entity", Hint: "set session, reply and call from left to right"}
	case k.Reply == "":
		s.Kind = KindSessionRecord
	case k.Call == "":
		s.Kind = KindReplyRecord
	case work:
		s.Kind = KindWork
	}
	return s, CheckSpace(k.Space)
}

func namedSubject(k toolcall.Key, queue toolcall.Queue) (Subject, error) {
	s := Subject{Space: k.Space, Kind: KindNamedRecord, Name: Encode(string(k.Entity))}
	if queue != (toolcall.Queue{}) || k != (toolcall.Key{Space: k.Space, Entity: k.Entity}) {
		return Subject{}, &message.Error{Code: message.CodeInvalid, Op: "name event record", What: "the key " + errtext.Quote(k.String()) + " names no entity", Hint: "set only the space and the standing approval or budget"}
	}
	return s, CheckSpace(k.Space)
}

// Entity returns the entity of an event record's subject.
func (s Subject) Entity() Entity {
	if s.Kind == KindNamedRecord {
		return Entity(root + string(s.Space) + ".record.-.-." + string(s.Name) + ".>")
	}
	reply, call := cmp.Or(s.Reply, "-"), cmp.Or(s.Call, "-")
	return Entity(root + string(s.Space) + ".record." + string(s.Session) + "." + string(reply) + "." + string(call) + ".>")
}

// IsRecord reports whether the subject is that of an event record.
func (s Subject) IsRecord() bool {
	switch s.Kind {
	case KindRecord, KindWork, KindReplyRecord, KindSessionRecord, KindNamedRecord:
		return true
	}
	return false
}

// BelongsTo reports whether the subject belongs to this key and queue: a body must
// agree with the subject that it is stored on.
func (s Subject) BelongsTo(k toolcall.Key, queue toolcall.Queue) bool {
	want, err := RecordSubject(k, queue)
	return err == nil && want == s
}

// RecordsFilter matches all event records of a space.
func RecordsFilter(space toolcall.SpaceID) string { return root + string(space) + ".record.>" }

// SessionFilter matches the event records of a session and of its replies and calls.
func SessionFilter(space toolcall.SpaceID, session Token) string {
	return root + string(space) + ".record." + string(session) + ".>"
}

// EventsFilter matches all streamed events of a space.
func EventsFilter(space toolcall.SpaceID) string { return root + string(space) + ".event.>" }

// StreamName returns the name of a space's stream.
func StreamName(space toolcall.SpaceID) string { return "ASKANCE_" + string(space) }

// InboxPrefix returns the inbox prefix that every connection of a principal must use.
// Engines drop requests with any other reply subject.
func InboxPrefix(principal string) string { return "_INBOX_" + string(Encode(principal)) }

// EntityIn returns the entity in the subject of an event record, or "" for any other
// subject.
func EntityIn(subject string) string {
	s, err := ParseSubject(subject)
	if err != nil || !s.IsRecord() {
		return ""
	}
	return string(s.Entity())
}

// NameOf returns session, reply and call of a subject, for people to read. Long names
// stay hashes.
func NameOf(subject string) string {
	s, err := ParseSubject(subject)
	if err != nil {
		return ""
	}
	var parts []string
	for _, t := range []Token{s.Session + s.Name, s.Reply, s.Call} {
		if t == "" {
			break
		}
		parts = append(parts, t.Text())
	}
	return strings.Join(parts, "/")
}
