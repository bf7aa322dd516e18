package journal

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"runtime"
	"slices"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

// Records returns stored messages unredacted; see [bus.RedactRecord]. Each record of the
// journal says whether this space's engines accept it.
func (l *Ledger) Records(ctx context.Context, r bus.RecordsRequest) (bus.RecordsReply, error) {
	return l.RecordsWithin(ctx, r, math.MaxInt)
}

// RecordsWithin is Records with bodies of at most room bytes, but at least one record.
func (l *Ledger) RecordsWithin(ctx context.Context, r bus.RecordsRequest, room int) (bus.RecordsReply, error) {
	from, entity, err := l.findRecords(r)
	if err != nil {
		return bus.RecordsReply{}, err
	}
	if r.Limit <= 0 || r.Limit > maxPage {
		r.Limit = maxPage
	}
	info, err := from.leaderInfo(ctx)
	if from == l.kept.store && l.o.Existing && errors.Is(err, jetstream.ErrStreamNotFound) {
		return bus.RecordsReply{Records: []proof.Record{}, Next: r.After}, nil // nothing was signed yet
	}
	if err != nil {
		return bus.RecordsReply{}, err
	}
	state := info.State
	out := bus.RecordsReply{First: state.FirstSeq, Last: state.LastSeq, Records: []proof.Record{}, Next: max(r.After, state.LastSeq)}
	if r.After >= state.LastSeq {
		return out, nil
	}
	found, through, err := from.readPage(ctx, cmp.Or(string(entity), ">"), r.After, r.Limit)
	if err != nil {
		return bus.RecordsReply{}, jsapi.Error("records", "stream "+from.stream, err)
	}
	out.Next = min(through, max(r.After, state.LastSeq))
	if from == l.j.store {
		if first := l.j.guard.archives.firstSequence(); first > 0 {
			out.First = min(out.First, first)
		}
		if found, out.Next, err = l.j.guard.archives.merge(ctx, entity, found, r.After, out.Next, r.Limit); err != nil {
			return bus.RecordsReply{}, err
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
		if out.Records[i], err = l.j.codec.toProofRecord(ctx, found[i]); err != nil || from == l.j.store {
			return err
		}
		why, err := l.whyInvalid(ctx, found[i])
		out.Records[i].Invalid = cmp.Or(why, out.Records[i].Invalid)
		return err
	})
	if err != nil {
		return bus.RecordsReply{}, jsapi.Error("records", "stream "+from.stream, err)
	}
	return out, nil
}

// findRecords returns where the requested records are, and the entity to which they belong if they
// are of one call.
func (l *Ledger) findRecords(r bus.RecordsRequest) (from reader, entity bus.Entity, err error) {
	switch r.Of {
	case "", bus.AuditJournal:
		from = l.j.store
	case bus.AuditCheckpoints:
		from = l.kept.store
	default:
		return from, "", &message.Error{Code: message.CodeInvalid, Op: "records", What: "unknown record stream " + errtext.Quote(string(r.Of)), Hint: "use journal or checkpoints"}
	}
	if r.Call != "" {
		entity, err = bus.EntityOf(toolcall.Key{Space: l.j.space, Session: r.Session, Reply: r.Reply, Call: r.Call})
	}
	return from, entity, err
}

// whyInvalid says why a message of the ledger is not a valid checkpoint, or "" if it is one.
func (l *Ledger) whyInvalid(ctx context.Context, m stored) (string, error) {
	s, err := l.kept.verify(m)
	if err != nil || s == nil {
		return "no engine of this space signed it", nil //nolint:nilerr // the reader is told
	}
	if late, err := l.kept.isLate(ctx, &s.Checkpoint, m); late || err != nil {
		return "its key was retired before", err
	}
	return "", nil
}

// toProofRecord fails if the record's base could not be read: then nothing could be shown.
func (c codec) toProofRecord(ctx context.Context, m stored) (proof.Record, error) {
	r := proof.Record{Seq: m.seq, Time: m.time, Subject: m.subject, Header: provedHeader(m.header)}
	r.SetBody(m.data)
	s, err := bus.ParseSubject(m.subject)
	if err == nil && s.IsRecord() {
		r.Entity = string(s.Entity())
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
func (c codec) checkStored(ctx context.Context, s bus.Subject, m stored, r *proof.Record) error {
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

// Auditing reads stored records. A [Ledger] and an auditor's [bus.Client] implement it.
type Auditing interface {
	Records(ctx context.Context, r bus.RecordsRequest) (bus.RecordsReply, error)
}

// Walk yields, in order, the records after one sequence and up to another. It reads a page
// at a time and ends at the first error.
func Walk(ctx context.Context, a Auditing, of bus.AuditOf, after, through uint64) iter.Seq2[proof.Record, error] {
	return func(yield func(proof.Record, error) bool) {
		for after := after; after < through; {
			rep, err := a.Records(ctx, bus.RecordsRequest{V: 1, Of: of, After: after})
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
		rep, err := a.Records(ctx, bus.RecordsRequest{V: 1, After: after, Session: key.Session, Reply: key.Reply, Call: key.Call})
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
	end, err := a.Records(ctx, bus.RecordsRequest{V: 1, Of: bus.AuditCheckpoints, Limit: 1})
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
	// A copy of an earlier checkpoint can mislead the search.
	for r, err := range Walk(ctx, a, bus.AuditCheckpoints, max(1, first)-1, last) {
		if err != nil {
			return nil, err
		}
		if s, err := proof.DecodeSealed(r.Body()); err == nil && r.Invalid == "" && s.Checkpoint.Covers(seq) {
			return &s, nil
		}
	}
	return nil, nil //nolint:nilnil // not signed yet
}

// checkpointFrom reads the first checkpoint at or after a message.
func checkpointFrom(ctx context.Context, a Auditing, from, through uint64) (uint64, *proof.Sealed, error) {
	for at := from; at <= through; at++ {
		rep, err := a.Records(ctx, bus.RecordsRequest{V: 1, Of: bus.AuditCheckpoints, After: at - 1, Limit: 1})
		if err != nil || len(rep.Records) == 0 {
			return 0, nil, err
		}
		at = rep.Records[0].Seq
		if s, err := proof.DecodeSealed(rep.Records[0].Body()); err == nil && rep.Records[0].Invalid == "" {
			return at, &s, nil
		}
	}
	return 0, nil, nil
}
