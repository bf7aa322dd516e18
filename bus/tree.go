package bus

import (
	"github.com/askance-dev/askance/message"
)

// Tree is the filter over all facts of one call, reply, session or lease. It is the
// subject of every compare-and-swap on that tree, always byte for byte the
// same: two filters over the same facts let two writers win.
type Tree string

// TreeOf gives the filter of a key's tree.
func TreeOf(k message.Key) (Tree, error) {
	s, err := factSubject(k, message.Queue{})
	if err != nil {
		return "", err
	}
	return s.tree(), nil
}

// factSubject is the subject of a fact of the tree. queue is set for tasks
// only.
func factSubject(k message.Key, queue message.Queue) (Subject, error) {
	if k.Lease != "" {
		return leaseSubject(k, queue)
	}
	s := Subject{Space: k.Space, Kind: KindFact, Session: Encode(string(k.Session)), Reply: Encode(string(k.Reply)), Call: Encode(string(k.Call)), Tool: EncodeQueue(queue)}
	work := queue != (message.Queue{})
	switch {
	case k.Session == "" || k.Reply == "" && k.Call != "" || work && k.Call == "":
		return Subject{}, &message.Error{Code: message.CodeInvalid, Op: "name fact", What: "the key " + quote(k.String()) + " names no tree", Hint: "set session, reply and call from left to right"}
	case k.Reply == "":
		s.Kind = KindSessionFact
	case k.Call == "":
		s.Kind = KindReplyFact
	case work:
		s.Kind = KindWork
	}
	return s, CheckSpace(k.Space)
}

func leaseSubject(k message.Key, queue message.Queue) (Subject, error) {
	s := Subject{Space: k.Space, Kind: KindLeaseFact, Lease: Encode(string(k.Lease))}
	if queue != (message.Queue{}) || k != (message.Key{Space: k.Space, Lease: k.Lease}) {
		return Subject{}, &message.Error{Code: message.CodeInvalid, Op: "name fact", What: "the key " + quote(k.String()) + " names no tree", Hint: "a lease's key has only the space besides"}
	}
	return s, CheckSpace(k.Space)
}

// tree is the filter that all facts of the subject's tree match.
func (s Subject) tree() Tree {
	if s.Kind == KindLeaseFact {
		return Tree(root + string(s.Space) + ".record.-.-." + string(s.Lease) + ".>")
	}
	reply, call := s.Reply, s.Call
	if reply == "" {
		reply = "-"
	}
	if call == "" {
		call = "-"
	}
	return Tree(root + string(s.Space) + ".record." + string(s.Session) + "." + string(reply) + "." + string(call) + ".>")
}

// isFact reports whether the subject is one of a tree.
func (s Subject) isFact() bool {
	switch s.Kind {
	case KindFact, KindWork, KindReplyFact, KindSessionFact, KindLeaseFact:
		return true
	}
	return false
}

// names reports whether the subject is the one of a fact with this key and
// queue: what a body claims must agree with where it was stored.
func (s Subject) names(k message.Key, queue message.Queue) bool {
	want, err := factSubject(k, queue)
	return err == nil && want == s
}

// The filters of a space.

func factsFilter(space message.SpaceID) string  { return root + string(space) + ".record.>" }
func eventsFilter(space message.SpaceID) string { return root + string(space) + ".event.>" }

// sessionFactsFilter covers all trees of a session.
func sessionFactsFilter(space message.SpaceID, session Token) string {
	return root + string(space) + ".record." + string(session) + ".>"
}

// sessionEventsFilter covers the events of a session from any runtime.
func sessionEventsFilter(space message.SpaceID, session Token) string {
	return Subject{Space: space, Kind: KindEvent, Session: session}.String()
}

// workFilter covers the tasks of a queue.
func workFilter(space message.SpaceID, queue message.Queue) string {
	return Subject{Space: space, Kind: KindWork, Tool: EncodeQueue(queue)}.String()
}

// StreamName is the name of a space's stream.
func StreamName(space message.SpaceID) string { return "ASKANCE_" + string(space) }

// InboxPrefix is what every connection of a principal has to use as its inbox
// prefix. Requests with a reply subject elsewhere are dropped.
func InboxPrefix(principal string) string { return "_INBOX_" + string(Encode(principal)) }
