// Package audit reads journals for auditors: a live one, one in a folder, or one
// that was exported to a file; and it writes exports.
//
// A [Source] gives stored records and checkpoints in their order. [Source.Verify]
// compares the two for any source. [Export] writes a source as
// JSON Lines, which are a source again ([OpenFile]), or as CSV for people:
//
//	{"type":"export","v":1,"space":"default","first_seq":1,"last_seq":42}
//	{"type":"base","record":{…}}
//	{"type":"record","record":{"seq":1,…,"body":"…"},"event_record":{"tool_name":"pay",…}}
//	{"type":"checkpoint","record":{…}}
//	{"type":"end","records":42,"checkpoints":1}
//
// A record's body is its exact text; event record repeats in short what it says, for
// those who read the file with other tools. A base is a record on which the next one
// builds and that the file does not have nearby. A selection ([Filter]) leaves
// records out and keeps all checkpoints: each record can still be proved, only
// not that none is missing. Memory is constant for any size.
package audit

import (
	"context"
	"errors"
	"iter"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// Source is a journal to look at. Records and Checkpoints may be called again
// and start again.
type Source struct {
	Space       toolcall.SpaceID
	First, Last uint64 // as the store says; see proof.Options
	Partial     bool   // a selection
	Records     func() iter.Seq2[proof.Record, error]
	Checkpoints func() iter.Seq2[proof.Record, error]

	// Flaws are what the journal lacks by an anchor that the auditor can read.
	Flaws []bus.Flaw

	load   func(seq uint64) (*proof.Record, error) // reads one record again; nil: it cannot
	filter *Filter                                 // of a selection in a file
	damage string                                  // what is wrong with the end of a file, once it was read
}

// Open looks at a journal through an engine, or in a folder. What is stored
// after Open is not seen: the checkpoints are counted before the records, so
// that what they cover is there.
func Open(ctx context.Context, a bus.Auditing, space toolcall.SpaceID) (*Source, error) {
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
		load:        func(seq uint64) (*proof.Record, error) { return loadRecord(ctx, a, seq) },
	}, nil
}

var errNoBase = errors.New("a record on which another one builds is missing")

func loadRecord(ctx context.Context, a bus.Auditing, seq uint64) (*proof.Record, error) {
	rep, err := a.Records(ctx, bus.RecordsRequest{V: 1, After: seq - 1, Limit: 1})
	if err == nil && (len(rep.Records) == 0 || rep.Records[0].Seq != seq) {
		err = errNoBase
	}
	if err != nil {
		return nil, err
	}
	bus.RedactRecord(&rep.Records[0])
	return &rep.Records[0], nil
}

// Verify holds the records against the checkpoints. o needs the keys; what the
// source knows itself is filled in.
func (s *Source) Verify(o proof.Options) (*proof.Report, error) {
	o.Space, o.First, o.Last, o.Partial, o.Name = s.Space, s.First, s.Last, s.Partial, bus.NameOf
	var err error
	if o.Losses, err = proof.Losses(bus.Bodies(s.Checkpoints()), o.Keys); err != nil {
		return nil, err
	}
	r, err := proof.Verify(bus.Bodies(s.Checkpoints()), s.Records(), o)
	if err == nil && s.damage != "" && r.OK {
		r.OK, r.Found = false, 1
		r.Findings = append(r.Findings, proof.Finding{Kind: proof.Truncated, Seq: r.Last, What: s.damage})
	}
	if err == nil {
		s.addFlaws(r)
	}
	return r, err
}

// addFlaws reports what only the anchor knows: records that were lost before a
// checkpoint signed them, and checkpoints that are gone.
func (s *Source) addFlaws(r *proof.Report) {
	for _, f := range s.Flaws {
		kind := proof.RolledBack
		switch f.Kind {
		case bus.FlawTail, bus.FlawJournalGone:
		case bus.FlawProof, bus.FlawBadAnchor:
			kind = proof.LostCheckpoint
		default:
			continue // the records themselves tell
		}
		r.OK = false
		r.Found++
		r.Findings = append(r.Findings, proof.Finding{Kind: kind, Seq: f.From, Through: f.Through, What: f.What + ", by the anchor file"})
	}
}
