package message

import "encoding/json"

// Invocation is one attempt of an allowed call as it reaches what runs it: a
// Go function in the engine's process, or the same function inside a worker.
type Invocation struct {
	// Call is the call's full state; read only. Its Attempt.Number says which
	// attempt this is, Attempt.Claim who owns it.
	Call *Call
	// Input is the raw JSON to run with, byte for byte what was decided.
	Input json.RawMessage
	// IdempotencyKey is the same for every attempt of the call, see
	// [Key.IdempotencyKey].
	IdempotencyKey string
}
