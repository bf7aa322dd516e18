package bus

import (
	"context"
	"slices"

	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// CallRecords reads the event records of one call as they are stored, oldest first. What
// no engine wrote is left out.
func CallRecords(ctx context.Context, a Auditing, key toolcall.Key) ([]proof.Record, error) {
	var out []proof.Record
	for after := uint64(0); ; {
		rep, err := a.Records(ctx, RecordsRequest{V: 1, After: after, Session: key.Session, Reply: key.Reply, Call: key.Call})
		if err != nil {
			return nil, err
		}
		for _, r := range rep.Records {
			if r.Invalid == "" {
				out = append(out, r)
			}
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

// Covering reads the stored checkpoints that cover these sequences, in their
// order. Sequences that none covers are passed over.
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

// coveringOne looks for the checkpoint that covers seq among the messages first
// to last, by halves: later checkpoints cover later sequences.
func coveringOne(ctx context.Context, a Auditing, seq, first, last uint64) (*proof.Sealed, error) {
	for low, high := max(1, first), last; low <= high; {
		middle := low + (high-low)/2
		at, s, err := checkpointFrom(ctx, a, middle, high)
		switch {
		case err != nil:
			return nil, err
		case s == nil, s.Checkpoint.From > seq: // s nil: only rubbish from there on
			high = middle - 1
		case s.Checkpoint.To < seq:
			low = at + 1
		default:
			return s, nil
		}
	}
	return nil, nil //nolint:nilnil // not signed yet
}

// checkpointFrom reads the first checkpoint at or behind a message, passing over
// what is none.
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
