package bus

import (
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// NextRequest asks for one task. It is answered by several messages, each
// a NextReply, until one says something else than waiting.
type NextRequest struct {
	V      int   `json:"v,omitzero"`
	WaitMS int64 `json:"wait_ms,omitzero"` // how long to wait for one; default and maximum 25 s
}

// TaskState says what a NextReply brings.
type TaskState string

// The states of a request for a task.
const (
	TaskWaiting TaskState = "waiting"  // none yet, the engine still waits; every two seconds
	TaskNone    TaskState = "none"     // none came: ask again
	TaskNoQueue TaskState = "no_queue" // no engine has offered the tool so far: ask again later
	TaskHere    TaskState = "task"     // here it is
)

// NextReply is one answer to a request for a task.
type NextReply struct {
	State     TaskState       `json:"state"`
	Subject   string          `json:"subject,omitzero"`   // where the task stands in the journal
	Task      string          `json:"task,omitzero"`      // names it in an AckRequest
	Delivered int             `json:"delivered,omitzero"` // how often it was handed out, this time included
	Record    message.RawJSON `json:"record,omitzero"`    // the submitted event record
}

// KeysRequest asks for the engines' signing keys.
type KeysRequest struct {
	V int `json:"v,omitzero"`
}

// KeysReply has them, oldest first. A worker believes of it what a key that it
// trusts already vouches for: see toolcall.KeyRing.
type KeysReply struct {
	Keys toolcall.KeyRing `json:"keys,omitzero"`
}

// AckVerb is what becomes of a task.
type AckVerb string

// The verbs.
const (
	AckDone    AckVerb = "ack"  // take it off the queue
	AckRelease AckVerb = "nak"  // give it back
	AckDrop    AckVerb = "term" // take it off: it is no task
)

// AckRequest says what becomes of a task. The reply comes when the queue has
// confirmed it.
type AckRequest struct {
	V       int     `json:"v,omitzero"`
	Task    string  `json:"task"`
	Verb    AckVerb `json:"verb"`
	DelayMS int64   `json:"delay_ms,omitzero"` // with nak: not again before
}
