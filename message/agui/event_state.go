package agui

import (
	"github.com/askance-dev/askance/message"
)

// StateSnapshot is STATE_SNAPSHOT: it replaces the state.
type StateSnapshot struct {
	Tagged
	Snapshot message.RawJSON // any JSON, null too
}

// StateDelta is STATE_DELTA: it changes the state. A client that cannot apply it keeps what it has.
type StateDelta struct {
	Tagged
	Delta []PatchOp
}

// MessagesSnapshot is MESSAGES_SNAPSHOT: it restates the conversation.
type MessagesSnapshot struct {
	Base
	Messages []Message
}

// ActivitySnapshot is ACTIVITY_SNAPSHOT: it shows progress that is no conversation.
type ActivitySnapshot struct {
	Tagged
	MessageID    string
	ActivityType string
	Content      message.RawJSON // an object
	Replace      *bool           // nil is true
}

// ActivityDelta is ACTIVITY_DELTA: it changes an activity.
type ActivityDelta struct {
	Tagged
	MessageID    string
	ActivityType string
	Patch        []PatchOp
}

// Raw is RAW: it passes another system's event through.
type Raw struct {
	Tagged
	Event  message.RawJSON // any JSON, null too
	Source *string
}

// Custom is CUSTOM: it is an application's own event.
type Custom struct {
	Tagged
	Name  string
	Value message.RawJSON // any JSON, null too
}

// Type returns TypeStateSnapshot.
func (*StateSnapshot) Type() EventType { return TypeStateSnapshot }

// Type returns TypeStateDelta.
func (*StateDelta) Type() EventType { return TypeStateDelta }

// Type returns TypeMessagesSnapshot.
func (*MessagesSnapshot) Type() EventType { return TypeMessagesSnapshot }

// Type returns TypeActivitySnapshot.
func (*ActivitySnapshot) Type() EventType { return TypeActivitySnapshot }

// Type returns TypeActivityDelta.
func (*ActivityDelta) Type() EventType { return TypeActivityDelta }

// Type returns TypeRaw.
func (*Raw) Type() EventType { return TypeRaw }

// Type returns TypeCustom.
func (*Custom) Type() EventType { return TypeCustom }

func (e *StateSnapshot) fields(s *shape) {
	s.raw("snapshot", &e.Snapshot)
	e.taggedFields(s)
}

func (e *StateDelta) fields(s *shape) {
	list(s, "delta", &e.Delta, (*PatchOp).fields)
	e.taggedFields(s)
}

func (e *MessagesSnapshot) fields(s *shape) {
	list(s, "messages", &e.Messages, (*Message).fields)
	e.base(s)
}

func (e *ActivitySnapshot) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	s.text("activityType", &e.ActivityType)
	s.object("content", &e.Content)
	s.boolOpt("replace", &e.Replace)
	e.taggedFields(s)
}

func (e *ActivityDelta) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	s.text("activityType", &e.ActivityType)
	list(s, "patch", &e.Patch, (*PatchOp).fields)
	e.taggedFields(s)
}

func (e *Raw) fields(s *shape) {
	s.raw("event", &e.Event)
	s.textOpt("source", &e.Source)
	e.taggedFields(s)
}

func (e *Custom) fields(s *shape) {
	s.text("name", &e.Name)
	s.raw("value", &e.Value)
	e.taggedFields(s)
}

// PatchOpType is the discriminator of an operation.
type PatchOpType string

// The operations of JSON Patch.
const (
	PatchAdd     PatchOpType = "add"
	PatchRemove  PatchOpType = "remove"
	PatchReplace PatchOpType = "replace"
	PatchMove    PatchOpType = "move"
	PatchCopy    PatchOpType = "copy"
	PatchTest    PatchOpType = "test"
)

var patchOps = []PatchOpType{PatchAdd, PatchRemove, PatchReplace, PatchMove, PatchCopy, PatchTest}

// PatchOp is one operation of a JSON Patch (RFC 6902). It is checked for its
// form; whether it applies shows where it is applied.
type PatchOp struct {
	Op    PatchOpType
	Path  string          // a JSON pointer
	From  string          // of move and copy: a JSON pointer
	Value message.RawJSON // of add, replace and test: any JSON, null too
}

// fields takes members that the operation does not have for read: RFC 6902 says
// to ignore them.
func (p *PatchOp) fields(s *shape) {
	variant(s, "op", &p.Op, patchOps)
	s.pointer("path", &p.Path)
	switch p.Op {
	case PatchAdd, PatchReplace, PatchTest:
		s.raw("value", &p.Value)
	case PatchMove, PatchCopy:
		s.pointer("from", &p.From)
	case PatchRemove:
	}
	for i := range s.seen {
		s.seen[i] = true
	}
}
