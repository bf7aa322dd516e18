package bus

import (
	"context"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/nats-io/nats.go"
)

// AuditOf is the stream that an auditor reads.
type AuditOf string

// The streams that can be read.
const (
	AuditJournal     AuditOf = "journal"     // event records and events
	AuditCheckpoints AuditOf = "checkpoints" // the ledger
)

// RecordsRequest reads stored messages byte for byte.
type RecordsRequest struct {
	V     int     `json:"v,omitzero"`
	Of    AuditOf `json:"of,omitzero"`    // default: journal
	After uint64  `json:"after,omitzero"` // only records after this sequence
	// With all three set, only the event records of this call; only of the journal.
	Session message.SessionID `json:"session_id,omitzero"`
	Reply   message.ReplyID   `json:"reply_id,omitzero"`
	Call    message.CallID    `json:"tool_call_id,omitzero"`
	Limit   int               `json:"limit,omitzero"` // default and maximum 1000; fewer come if they are large
}

// RecordsReply has records in order.
type RecordsReply struct {
	First   uint64         `json:"first_seq"` // the first sequence that is still there
	Last    uint64         `json:"last_seq"`  // the last sequence of the stream
	Records []proof.Record `json:"records"`
	Next    uint64         `json:"next"` // continue after this sequence, unless it has reached last_seq
}

// CheckpointRequest asks an engine to sign everything that is not signed.
type CheckpointRequest struct {
	V int `json:"v,omitzero"`
}

// CheckpointReply has the last checkpoint, unless the journal is empty.
type CheckpointReply struct {
	Checkpoint *proof.Checkpoint `json:"checkpoint,omitzero"`
}

// AuditLedger is what a service needs from the ledger of its space.
type AuditLedger interface {
	// RecordsWithin returns stored messages unredacted, with bodies of at most room bytes,
	// but at least one record.
	RecordsWithin(ctx context.Context, r RecordsRequest, room int) (RecordsReply, error)
	// Checkpoint signs what is not signed yet, and returns the last checkpoint.
	Checkpoint(ctx context.Context) (*proof.Checkpoint, error)
}

func (s *Service) ownLedger() (AuditLedger, error) {
	if s.o.Ledger == nil {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "audit", What: "this engine has no checkpoints", Hint: "ask another engine, or start this one with a ledger"}
	}
	return s.o.Ledger, nil
}

// auditRecords sends stored records without the values that rules redact, and with the
// hash of the whole body.
func (s *Service) auditRecords(ctx context.Context, _ caller, r RecordsRequest, m *nats.Msg) error {
	l, err := s.ownLedger()
	if err != nil {
		return err
	}
	for room := s.maxReply() / 2; ; room /= 2 { // JSON inside a JSON string grows
		rep, err := l.RecordsWithin(ctx, r, room)
		if err != nil {
			return err
		}
		for i := range rep.Records {
			RedactRecord(&rep.Records[i])
		}
		if err = s.sendReply(m, opRecords.Name, rep); err == nil || len(rep.Records) <= 1 {
			return err
		}
	}
}

func (s *Service) auditCheckpoint(ctx context.Context, _ caller, _ CheckpointRequest, m *nats.Msg) error {
	l, err := s.ownLedger()
	if err != nil {
		return err
	}
	c, err := l.Checkpoint(ctx)
	if err != nil {
		return err
	}
	return s.sendReply(m, opCheckpoint.Name, CheckpointReply{c})
}

// Records reads stored messages through an engine, which redacts them. Only an
// auditor can call it.
func (c *Client) Records(ctx context.Context, r RecordsRequest) (RecordsReply, error) {
	rep, err := opRecords.Call(ctx, c, r)
	for i := range rep.Records {
		rep.Records[i].Entity, rep.Records[i].Final = EntityIn(rep.Records[i].Subject), true
	}
	return rep, err
}

// Checkpoint asks an engine to sign what is not signed yet: see
// [AuditLedger]. Only an auditor can call it.
func (c *Client) Checkpoint(ctx context.Context) (*proof.Checkpoint, error) {
	rep, err := opCheckpoint.Call(ctx, c, CheckpointRequest{V: 1})
	return rep.Checkpoint, err
}

func (c *Client) checkpoint(ctx context.Context, r CheckpointRequest) (CheckpointReply, error) {
	rep, _, err := sendTyped(ctx, c, opCheckpoint, r, requestTimeout)
	return rep, err
}

// RedactRecord removes from a record the values that the engine that wrote it marked as
// hidden: see [proof.Record.Redact].
func RedactRecord(r *proof.Record) {
	r.Entity = EntityIn(r.Subject)
	r.Redact()
}
