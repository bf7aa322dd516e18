package bus

import (
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// NextRequest asks for tasks, each of which is sent in a separate reply. Replies with the
// state waiting arrive in between. The request ends with the last task that it asked for,
// or with any state other than waiting and task.
type NextRequest struct {
	V      int   `json:"v,omitzero"`
	WaitMS int64 `json:"wait_ms,omitzero"` // how long to wait for tasks; default and maximum 25 s
	Batch  int   `json:"batch,omitzero"`   // how many; default 1, maximum 256: ask only for what can start at once
}

// maxBatch is how many tasks one request can get.
const maxBatch = 256

// TaskState is what a NextReply reports.
type TaskState string

// The states of a request for a task.
const (
	TaskWaiting TaskState = "waiting"  // no task yet, the engine still waits; sent every two seconds
	TaskNone    TaskState = "none"     // no task arrived in time: ask again
	TaskNoQueue TaskState = "no_queue" // no engine has offered the tool so far: ask again later
	TaskHere    TaskState = "task"     // the reply has a task
)

// NextReply is one reply to a request for a task.
type NextReply struct {
	State     TaskState       `json:"state"`
	Subject   string          `json:"subject,omitzero"`   // of the task in the journal
	Task      string          `json:"task,omitzero"`      // names the task in an AckRequest
	Delivered int             `json:"delivered,omitzero"` // how often it was delivered, including this time
	Record    message.RawJSON `json:"record,omitzero"`    // the submitted event record
}

// KeysRequest asks for the engines' signing keys.
type KeysRequest struct {
	V int `json:"v,omitzero"`
}

// KeysReply has the keys, oldest first. A worker accepts only keys that a trusted key
// vouches for: see toolcall.KeyRing.
type KeysReply struct {
	Keys toolcall.KeyRing `json:"keys,omitzero"`
}

// AckVerb is what happens to a task in the queue.
type AckVerb string

// The verbs.
const (
	AckDone    AckVerb = "ack"  // remove it from the queue
	AckRelease AckVerb = "nak"  // return it to the queue
	AckDrop    AckVerb = "term" // remove it: it is not a task
)

// AckRequest acknowledges, returns or drops a task. The reply is sent when the queue has
// confirmed it.
type AckRequest struct {
	V       int     `json:"v,omitzero"`
	Task    string  `json:"task"`
	Verb    AckVerb `json:"verb"`
	DelayMS int64   `json:"delay_ms,omitzero"` // with nak: how long not to deliver it again
}
