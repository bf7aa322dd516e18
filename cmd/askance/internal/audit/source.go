// Package audit reads journals for auditors: a live one, one in a folder, or one
// that was exported to a file; and it writes exports.
//
// A [Source] yields stored records and checkpoints in order. [Source.Verify] compares
// the two for any source. [Export] writes a source as JSON Lines, which can be a source
// again ([OpenFile]), or as CSV for people:
//
//	{"type":"export","v":1,"space":"default","first_seq":1,"last_seq":42}
//	{"type":"base","record":{…}}
//	{"type":"record","record":{"seq":1,…,"body":"…"},"event_record":{"tool_name":"pay",…}}
//	{"type":"checkpoint","record":{…}}
//	{"type":"end","records":42,"checkpoints":1}
//
// A record's body is its exact text; event_record is a summary for people who read the
// file with other tools. A base is a record on which the next one builds and that the
// file does not have nearby. A selection ([Filter]) omits records and keeps all
// checkpoints: each record can still be proved, but not that none is missing. Memory
// use is constant.
package audit

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// Source is a journal to read. Records and Checkpoints can be called several times.
// They yield what follows a sequence; for a file they always start at the beginning.
type Source struct {
	Space       toolcall.SpaceID
	First, Last uint64 // as the store reports; see proof.Options
	Partial     bool   // a selection
	Records     func(after uint64) iter.Seq2[proof.Record, error]
	Checkpoints func(after uint64) iter.Seq2[proof.Record, error]

	// Flaws are what the journal lacks according to an anchor that the auditor can read.
	Flaws []bus.Flaw
	// Verified records verifications; nil: they are not recorded.
	Verified *bus.Verified

	// load reads one record again. It returns nil without an error if there is none, or if it
	// is not near the last record of the file.
	load   func(seq uint64) (*proof.Record, error)
	bases  map[uint64]*proof.Record // of a file: since its last record
	filter *Filter                  // of a selection in a file
	damage string                   // what is wrong with the end of a file, once it was read
}

// Open opens a journal through an engine, or in a folder. It does not see what is stored after
// Open. It counts the checkpoints before the records, so that the records that they cover exist.
func Open(ctx context.Context, a bus.Auditing, space toolcall.SpaceID) (*Source, error) {
	signed, err := a.Records(ctx, bus.RecordsRequest{V: 1, Of: bus.AuditCheckpoints, Limit: 1})
	if err != nil {
		return nil, err
	}
	journal, err := a.Records(ctx, bus.RecordsRequest{V: 1, Limit: 1})
	if err != nil {
		return nil, err
	}
	walk := func(of bus.AuditOf, last uint64) func(uint64) iter.Seq2[proof.Record, error] {
		return func(after uint64) iter.Seq2[proof.Record, error] { return bus.Walk(ctx, a, of, after, last) }
	}
	return &Source{
		Space: space, First: journal.First, Last: journal.Last,
		Records: walk(bus.AuditJournal, journal.Last), Checkpoints: walk(bus.AuditCheckpoints, signed.Last),
		load: func(seq uint64) (*proof.Record, error) { return loadRecord(ctx, a, seq) },
	}, nil
}

func loadRecord(ctx context.Context, a bus.Auditing, seq uint64) (*proof.Record, error) {
	rep, err := a.Records(ctx, bus.RecordsRequest{V: 1, After: seq - 1, Limit: 1})
	if err != nil || len(rep.Records) == 0 || rep.Records[0].Seq != seq {
		return nil, err
	}
	bus.RedactRecord(&rep.Records[0])
	return &rep.Records[0], nil
}

// Continue makes Verify begin where the last verification ended. An error says why Verify
// reads everything, although an earlier verification is recorded.
func (s *Source) Continue(ctx context.Context, o *proof.Options) error {
	if s.Verified == nil {
		return nil
	}
	if len(s.Flaws) > 0 {
		return errors.New("the journal lacks records")
	}
	o.First = s.First
	var err error
	o.Earlier, err = s.Verified.Load(ctx, *o)
	return err
}

// Remember makes later verifications begin where this one ended, or forgets earlier ones if
// it has findings.
func (s *Source) Remember(ctx context.Context, r *proof.Report, o proof.Options) error {
	if s.Verified == nil {
		return nil
	}
	return s.Verified.Save(ctx, r, o, time.Now().UTC().Round(0))
}

// Verify compares the records with the checkpoints. o needs the keys; Verify fills in
// what the source has.
func (s *Source) Verify(o proof.Options) (*proof.Report, error) {
	o.Space, o.First, o.Last, o.Partial, o.Name = s.Space, s.First, s.Last, s.Partial, bus.NameOf
	var after, place, lossesAfter, archivesAfter uint64
	if e := o.Earlier; e != nil {
		after, place = e.Checkpoint.To, e.Place
		if e.Checkpoint.Losses == 0 {
			lossesAfter = place
		}
		if e.Checkpoint.Archives == 0 {
			archivesAfter = place
		}
	}
	var err error
	if o.Losses, err = proof.Losses(bus.Bodies(s.Checkpoints(lossesAfter)), o.Keys); err != nil {
		return nil, err
	}
	if o.Archives, err = proof.Archives(bus.Bodies(s.Checkpoints(archivesAfter)), o.Keys); err != nil {
		return nil, err
	}
	r, err := proof.Verify(bus.Bodies(s.Checkpoints(place)), s.Records(after), o)
	if err == nil && s.damage != "" && r.OK {
		r.OK, r.Found = false, 1
		r.Findings = append(r.Findings, proof.Finding{Kind: proof.Truncated, Seq: r.Last, What: s.damage})
	}
	if err == nil {
		s.addFlaws(r)
	}
	return r, err
}

// addFlaws reports what only the anchor can show: records that were lost before a
// checkpoint signed them, and lost checkpoints.
func (s *Source) addFlaws(r *proof.Report) {
	for _, f := range s.Flaws {
		kind := proof.RolledBack
		switch f.Kind {
		case bus.FlawTail, bus.FlawJournalGone:
		case bus.FlawProof, bus.FlawBadAnchor:
			kind = proof.LostCheckpoint
		default:
			continue // the records themselves show it
		}
		if f.From > 0 { // the others say it
			f.What += ", according to the anchor file"
		}
		r.OK = false
		r.Found++
		r.Findings = append(r.Findings, proof.Finding{Kind: kind, Seq: f.From, Through: f.Through, What: f.What})
	}
}
