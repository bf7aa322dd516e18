package api

import (
	"time"

	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
)

// ProposeBody hands over the tool calls of one model turn, in the model's
// order. Proposing the same calls again is harmless and returns their state.
type ProposeBody struct {
	Agent string                  `json:"agent,omitzero"` // the agent's name
	Calls []message.ToolCallBlock `json:"tool_calls"`
}

// AnswerBody decides an open question. Digest names exactly what the approver
// saw: the digest member of the call that was shown.
type AnswerBody struct {
	Digest string             `json:"digest"`
	Kind   message.AnswerKind `json:"kind"`
	// Input, with kind approve, replaces the arguments: JSON as text. The policy
	// decides again.
	Input *string `json:"input,omitzero"`
	// Feedback, with kind reject, reaches the model in the result text.
	Feedback string `json:"feedback,omitzero"`
	// Output, with kind answer, becomes the tool's result.
	Output string `json:"output,omitzero"`
	// Note, with kind abstain or hand_over, is for the people who look next.
	Note string `json:"note,omitzero"`
	// To, with kind hand_over, is who should answer: a name.
	To string `json:"to,omitzero"`
	// Signature, with kind approve and without input, is by the approver's own key.
	Signature *message.ApproverSignature `json:"signature,omitzero"`
	// Rules to remember for the session; only suggested ones are accepted.
	Rules []message.PermissionRule `json:"rules,omitzero"`
	// Remember, with kind approve, lets rules be remembered on terms.
	Remember *message.LeaseTerms `json:"remember,omitzero"`
}

// SettleBody ends the wait of a held call.
type SettleBody struct {
	Attempt int             `json:"attempt"` // the attempt that is being settled: a fence
	Outcome message.Outcome `json:"outcome"`
	Output  string          `json:"output,omitzero"` // of what happened
	Note    string          `json:"note,omitzero"`
}

// ReasonBody says why something is ended.
type ReasonBody struct {
	Reason string `json:"reason,omitzero"`
}

// ResultBody brings the result of an external call.
type ResultBody struct {
	Result message.ToolResultBlock `json:"result"`
}

// EventsBody has AgentScope events to stream.
type EventsBody struct {
	Events []message.RawJSON `json:"events"`
}

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
	Wait *message.Waiting  `json:"waiting,omitzero"` // what its open question waits for
}

// LettersReply lists webhook messages that were given up.
type LettersReply struct {
	Letters []message.Letter `json:"letters"`
}

// FateReply is what became of a webhook message that had been given up.
type FateReply struct {
	Fate webhook.Fate `json:"fate" jsonschema:"enum=delivered,enum=stale,enum=dropped"`
}
