package audit

import (
	"context"
	"iter"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
)

// Source is a journal to look at. Records and Checkpoints may be called again
// and begin anew.
type Source struct {
	Space       message.SpaceID
	First, Last uint64 // as the store says; see proof.Options
	Partial     bool   // a selection
	Records     func() iter.Seq2[proof.Record, error]
	Checkpoints func() iter.Seq2[proof.Record, error]

	filter *Filter // of a selection in a file
	damage string  // what is wrong with the end of a file, once it was read
}

// Open looks at a journal through an engine, or in a folder. What is stored
// after Open is not seen: the checkpoints are counted before the records, so
// that what they cover is there.
func Open(ctx context.Context, a bus.Auditing, space message.SpaceID) (*Source, error) {
	signed, err := a.Records(ctx, bus.RecordsRequest{V: 1, Of: bus.AuditCheckpoints, Limit: 1})
	if err != nil {
		return nil, err
	}
	journal, err := a.Records(ctx, bus.RecordsRequest{V: 1, Limit: 1})
	if err != nil {
		return nil, err
	}
	return &Source{
		Space: space, First: journal.First, Last: journal.Last,
		Records:     func() iter.Seq2[proof.Record, error] { return bus.Walk(ctx, a, bus.AuditJournal, journal.Last) },
		Checkpoints: func() iter.Seq2[proof.Record, error] { return bus.Walk(ctx, a, bus.AuditCheckpoints, signed.Last) },
	}, nil
}

// Verify holds the records against the checkpoints. o needs the keys; what the
// source knows itself is filled in.
func (s *Source) Verify(o proof.Options) (*proof.Report, error) {
	o.Space, o.First, o.Last, o.Partial, o.Name = s.Space, s.First, s.Last, s.Partial, bus.NameOf
	r, err := proof.Verify(bus.Bodies(s.Checkpoints()), s.Records(), o)
	if err == nil && s.damage != "" && r.OK {
		r.OK, r.Found = false, 1
		r.Findings = append(r.Findings, proof.Finding{Kind: proof.Truncated, Seq: r.Last, What: s.damage})
	}
	return r, err
}
