package bus

import (
	"context"
	"errors"
	"iter"
	"math"
	"runtime"
	"slices"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

// Records returns stored messages unredacted; see [RedactRecord]. Each record of the
// journal says whether this space's engines accept it.
func (l *Ledger) Records(ctx context.Context, r RecordsRequest) (RecordsReply, error) {
	return l.recordsWithin(ctx, r, math.MaxInt)
}

// recordsWithin is Records with bodies of at most room bytes, but at least one record.
func (l *Ledger) recordsWithin(ctx context.Context, r RecordsRequest, room int) (RecordsReply, error) {
	from := l.j.store
	switch r.Of {
	case "", AuditJournal:
	case AuditCheckpoints:
		from = l.kept.store
	default:
		return RecordsReply{}, &message.Error{Code: message.CodeInvalid, Op: "records", What: "unknown record stream " + errtext.Quote(string(r.Of)), Hint: "use journal or checkpoints"}
	}
	filter, entity := ">", Entity("")
	if r.Call != "" {
		var err error
		if entity, err = EntityOf(toolcall.Key{Space: l.j.space, Session: r.Session, Reply: r.Reply, Call: r.Call}); err != nil {
			return RecordsReply{}, err
		}
		filter = string(entity)
	}
	if r.Limit <= 0 || r.Limit > maxPage {
		r.Limit = maxPage
	}
	info, err := from.leaderInfo(ctx)
	if from == l.kept.store && l.o.Existing && errors.Is(err, jetstream.ErrStreamNotFound) {
		return RecordsReply{Records: []proof.Record{}, Next: r.After}, nil // nothing was signed yet
	}
	if err != nil {
		return RecordsReply{}, err
	}
	state := info.State
	out := RecordsReply{First: state.FirstSeq, Last: state.LastSeq, Records: []proof.Record{}, Next: max(r.After, state.LastSeq)}
	if r.After >= state.LastSeq {
		return out, nil
	}
	found, through, err := from.readPage(ctx, filter, r.After, r.Limit)
	if err != nil {
		return RecordsReply{}, apiError("records", "stream "+from.stream, err)
	}
	out.Next = min(through, max(r.After, state.LastSeq))
	if from == l.j.store {
		if first := l.j.guard.archives.firstSequence(); first > 0 {
			out.First = min(out.First, first)
		}
		if found, out.Next, err = l.j.guard.archives.merge(ctx, entity, found, r.After, out.Next, r.Limit); err != nil {
			return RecordsReply{}, err
		}
	}
	for i, m := range found {
		if room -= len(m.data) + len(m.subject) + 256; m.seq > state.LastSeq || room < 0 && i > 0 {
			out.Next, found = m.seq-1, found[:i]
			break
		}
	}
	out.Records = make([]proof.Record, len(found))
	workers := 1
	if l.o.Existing { // this process runs no engine that needs the other processors
		workers = runtime.GOMAXPROCS(0)
	}
	err = eachAtOnce(ctx, workers, len(found), func(ctx context.Context, i int) (err error) {
		out.Records[i], err = l.j.codec.toProofRecord(ctx, found[i])
		return err
	})
	if err != nil {
		return RecordsReply{}, apiError("records", "stream "+from.stream, err)
	}
	return out, nil
}

// toProofRecord fails if the record's base could not be read: then nothing could be shown.
func (c codec) toProofRecord(ctx context.Context, m stored) (proof.Record, error) {
	r := proof.Record{Seq: m.seq, Time: m.time, Subject: m.subject, Header: provedHeader(m.header)}
	r.SetBody(m.data)
	s, err := ParseSubject(m.subject)
	if err == nil && s.isRecord() {
		r.Entity = string(s.entity())
		err = c.checkStored(ctx, s, m, &r)
		switch {
		case errors.Is(err, errBaseUnread):
			return r, err
		case errors.Is(err, errUnreadable): // a newer engine wrote it
			err = nil
		}
	}
	if err != nil {
		r.Invalid, r.Altered = err.Error(), errors.Is(err, errMisfit)
	}
	return r, nil
}

// checkStored verifies that an engine wrote an event record. It expands the record only if
// some of it has to be redacted.
func (c codec) checkStored(ctx context.Context, s Subject, m stored, r *proof.Record) error {
	if err := c.checkMAC(s, m); err != nil {
		return err
	}
	d, err := toolcall.DecodeStored(m.data)
	if err != nil || !d.IsCompact() || d.Hides() || len(m.header[HeaderKind]) > 0 {
		rec, below, err := c.decodeGenuine(ctx, s, m)
		if rec != nil {
			r.Base = below
			c.rememberBase(m, rec, below)
		}
		return err
	}
	r.Prev = d.Prev()
	return checkID(m, d.ID())
}

func (s *Service) ownLedger() (*Ledger, error) {
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
		rep, err := l.recordsWithin(ctx, r, room)
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
// [Ledger.Checkpoint]. Only an auditor can call it.
func (c *Client) Checkpoint(ctx context.Context) (*proof.Checkpoint, error) {
	rep, err := opCheckpoint.Call(ctx, c, CheckpointRequest{V: 1})
	return rep.Checkpoint, err
}

func (c *Client) checkpoint(ctx context.Context, r CheckpointRequest) (CheckpointReply, error) {
	rep, _, err := sendTyped(ctx, c, opCheckpoint, r, requestTimeout)
	return rep, err
}

// Auditing reads stored records. A [Ledger] and an auditor's [Client] implement it.
type Auditing interface {
	Records(ctx context.Context, r RecordsRequest) (RecordsReply, error)
}

// Walk yields, in order, the records after one sequence and up to another. It reads a page
// at a time and ends at the first error.
func Walk(ctx context.Context, a Auditing, of AuditOf, after, through uint64) iter.Seq2[proof.Record, error] {
	return func(yield func(proof.Record, error) bool) {
		for after := after; after < through; {
			rep, err := a.Records(ctx, RecordsRequest{V: 1, Of: of, After: after})
			if err == nil && rep.Next <= after && len(rep.Records) == 0 && rep.Last > after {
				err = &message.Error{Code: message.CodeInternal, Op: "records", What: "the engine returned no further records", Hint: "try again"}
			}
			if err != nil {
				yield(proof.Record{}, err)
				return
			}
			for _, r := range rep.Records {
				if r.Seq > through || !yield(r, nil) {
					return
				}
			}
			if after = rep.Next; after >= rep.Last {
				return
			}
		}
	}
}

// Bodies yields the bodies of records, such as checkpoints to verify.
func Bodies(records iter.Seq2[proof.Record, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for r, err := range records {
			if !yield(r.Body(), err) || err != nil {
				return
			}
		}
	}
}

// CallRecords reads the stored event records of one call, oldest first. It skips void
// records and messages that no engine wrote.
func CallRecords(ctx context.Context, a Auditing, key toolcall.Key) ([]proof.Record, error) {
	var out []proof.Record
	var so succession
	for after := uint64(0); ; {
		rep, err := a.Records(ctx, RecordsRequest{V: 1, After: after, Session: key.Session, Reply: key.Reply, Call: key.Call})
		if err != nil {
			return nil, err
		}
		for _, r := range rep.Records {
			m := stored{subject: r.Subject, header: r.Header, data: r.Body()}
			link := m.linkedTo
			if r.Prev != nil {
				link = func() uint64 { return r.Prev.Seq }
			}
			if _, prev, ok := basisOf(m); r.Invalid != "" || ok && so.isVoid(r.Seq, prev, link) {
				continue
			}
			out = append(out, r)
		}
		if after = rep.Next; after >= rep.Last {
			break
		}
	}
	if len(out) == 0 {
		return nil, unknownKey("read call", key)
	}
	return out, nil
}

// Covering reads the checkpoints that cover these sequences, in order. It skips sequences
// that no checkpoint covers.
func Covering(ctx context.Context, a Auditing, seqs []uint64) ([]proof.Sealed, error) {
	var out []proof.Sealed
	end, err := a.Records(ctx, RecordsRequest{V: 1, Of: AuditCheckpoints, Limit: 1})
	if err != nil {
		return nil, err
	}
	for _, seq := range slices.Sorted(slices.Values(seqs)) {
		if n := len(out); n > 0 && out[n-1].Checkpoint.To >= seq {
			continue
		}
		s, err := coveringOne(ctx, a, seq, end.First, end.Last)
		if err != nil {
			return nil, err
		}
		if s != nil {
			out = append(out, *s)
		}
	}
	return out, nil
}

// coveringOne finds the checkpoint that covers seq by binary search: later checkpoints
// cover later sequences.
func coveringOne(ctx context.Context, a Auditing, seq, first, last uint64) (*proof.Sealed, error) {
	for low, high := max(1, first), last; low <= high; {
		middle := low + (high-low)/2
		at, s, err := checkpointFrom(ctx, a, middle, high)
		switch {
		case err != nil:
			return nil, err
		case s == nil, s.Checkpoint.From > seq: // s nil: no checkpoint from there on
			high = middle - 1
		case s.Checkpoint.To < seq:
			low = at + 1
		default:
			return s, nil
		}
	}
	return nil, nil //nolint:nilnil // not signed yet
}

// checkpointFrom reads the first checkpoint at or after a message.
func checkpointFrom(ctx context.Context, a Auditing, from, through uint64) (uint64, *proof.Sealed, error) {
	for at := from; at <= through; at++ {
		rep, err := a.Records(ctx, RecordsRequest{V: 1, Of: AuditCheckpoints, After: at - 1, Limit: 1})
		if err != nil || len(rep.Records) == 0 {
			return 0, nil, err
		}
		at = rep.Records[0].Seq
		if s, err := proof.DecodeSealed(rep.Records[0].Body()); err == nil {
			return at, &s, nil
		}
	}
	return 0, nil, nil
}

// RedactRecord removes from a record the values that the engine that wrote it marked as
// hidden: see [proof.Record.Redact].
func RedactRecord(r *proof.Record) {
	r.Entity = EntityIn(r.Subject)
	r.Redact()
}
