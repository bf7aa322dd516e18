package api

import (
	"time"

	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
)

// Tool is a tool that the space knows.
type Tool struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitzero"`
	Placement   message.Placement `json:"placement"`
	InputSchema message.RawJSON   `json:"input_schema,omitzero"` // JSON Schema of the arguments
}

// ToolsReply lists the tools by name.
type ToolsReply struct {
	Tools []Tool `json:"tools"`
}

// WhoamiReply is who the credentials stand for.
type WhoamiReply struct {
	Name    string          `json:"name"`
	Space   message.SpaceID `json:"space"`
	Roles   []message.Role  `json:"roles"`
	Auth    string          `json:"auth"` // how it was established; votes keep it
	Expires time.Time       `json:"expires,omitzero"`
}

// ChangeEvent is the data of an event of GET /v1/calls/stream.
type ChangeEvent struct {
	Seq  uint64            `json:"seq"`
	Kind string            `json:"kind"`             // the last transition that was taken
	By   message.Principal `json:"by,omitzero"`      // who caused it
	At   time.Time         `json:"at"`               // when
	Call *message.Call     `json:"call"`             // its state after it
	Wait *message.Waiting  `json:"waiting,omitzero"` // what its open approval request waits for
}

// DeadLettersReply lists webhook messages that were given up.
type DeadLettersReply struct {
	DeadLetters []message.DeadLetter `json:"dead_letters"`
}

// FateReply is what became of a webhook message that had been given up.
type FateReply struct {
	Fate webhook.Fate `json:"fate" jsonschema:"enum=delivered,enum=stale,enum=dropped"`
}
