// Package decide turns a call and the policy's word on it into an event of the
// state machine. It is pure: a [Snapshot] goes in, an event comes out; it reads no
// clock, no journal and no view.
//
// [Judge.Event] decides about a pending call: refused, denied, allowed, asked, left
// pending behind the approval request of another call, or not to be decided yet
// ([ErrUndecided]). Every doubt asks or denies.
package decide
