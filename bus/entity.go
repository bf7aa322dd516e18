package bus

import (
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Entity is the filter over all event records of one call, reply, session or lease. It is the
// subject of every compare-and-swap on that entity, always byte for byte the
// same: two filters over the same event records let two writers win.
type Entity string

// EntityOf gives the filter of a key's entity.
func EntityOf(k toolcall.Key) (Entity, error) {
	s, err := recordSubject(k, toolcall.Queue{})
	if err != nil {
		return "", err
	}
	return s.entity(), nil
}

// recordSubject is the subject of an event record of the entity. queue is set for tasks
// only.
func recordSubject(k toolcall.Key, queue toolcall.Queue) (Subject, error) {
	if k.Standing != "" {
		return standingApprovalSubject(k, queue)
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

func standingApprovalSubject(k toolcall.Key, queue toolcall.Queue) (Subject, error) {
	s := Subject{Space: k.Space, Kind: KindStandingRecord, Standing: Encode(string(k.Standing))}
	if queue != (toolcall.Queue{}) || k != (toolcall.Key{Space: k.Space, Standing: k.Standing}) {
		return Subject{}, &message.Error{Code: message.CodeInvalid, Op: "name event record", What: "the key " + errtext.Quote(k.String()) + " names no entity", Hint: "a lease's key has only the space besides"}
	}
	return s, CheckSpace(k.Space)
}

// entity is the filter that all event records of the subject's entity match.
func (s Subject) entity() Entity {
	if s.Kind == KindStandingRecord {
		return Entity(root + string(s.Space) + ".record.-.-." + string(s.Standing) + ".>")
	}
	reply, call := s.Reply, s.Call
	if reply == "" {
		reply = "-"
	}
	if call == "" {
		call = "-"
	}
	return Entity(root + string(s.Space) + ".record." + string(s.Session) + "." + string(reply) + "." + string(call) + ".>")
}

// isRecord reports whether the subject is one of an entity.
func (s Subject) isRecord() bool {
	switch s.Kind {
	case KindRecord, KindWork, KindReplyRecord, KindSessionRecord, KindStandingRecord:
		return true
	}
	return false
}

// names reports whether the subject is the one of an event record with this key and
// queue: what a body claims must agree with where it was stored.
func (s Subject) names(k toolcall.Key, queue toolcall.Queue) bool {
	want, err := recordSubject(k, queue)
	return err == nil && want == s
}

// The filters of a space.

func recordsFilter(space toolcall.SpaceID) string { return root + string(space) + ".record.>" }
func eventsFilter(space toolcall.SpaceID) string  { return root + string(space) + ".event.>" }

// sessionRecordsFilter covers all entities of a session.
func sessionRecordsFilter(space toolcall.SpaceID, session Token) string {
	return root + string(space) + ".record." + string(session) + ".>"
}

// sessionEventsFilter covers the events of a session from any runtime.
func sessionEventsFilter(space toolcall.SpaceID, session Token) string {
	return Subject{Space: space, Kind: KindEvent, Session: session}.String()
}

// workFilter covers the tasks of a queue.
func workFilter(space toolcall.SpaceID, queue toolcall.Queue) string {
	return Subject{Space: space, Kind: KindWork, Tool: EncodeQueue(queue)}.String()
}

// StreamName is the name of a space's stream.
func StreamName(space toolcall.SpaceID) string { return "ASKANCE_" + string(space) }

// InboxPrefix is what every connection of a principal has to use as its inbox
// prefix. Requests with a reply subject elsewhere are dropped.
func InboxPrefix(principal string) string { return "_INBOX_" + string(Encode(principal)) }
