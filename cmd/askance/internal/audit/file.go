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
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

const maxLine = 3 * maxBody / 2

// OpenFile opens an export in JSON Lines as a source, which reads the file line by line.
func OpenFile(path string) (*Source, error) {
	next, stop := iter.Pull2(eachLine(path))
	defer stop()
	head, err, _ := next()
	if err != nil {
		return nil, err
	}
	if err := head.checkHead(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &Source{Space: head.Space, First: head.First, Last: head.Last, Partial: head.Filter != nil, filter: head.Filter}
	s.load = func(seq uint64) (*proof.Record, error) { return copyBase(s.bases, seq), nil }
	s.Records = func(uint64) iter.Seq2[proof.Record, error] { return s.eachOf(path, "record") }
	s.Checkpoints = func(uint64) iter.Seq2[proof.Record, error] { return s.eachOf(path, "checkpoint") }
	return s, nil
}

// errCut means that the file ends without its last line.
var errCut = &message.Error{Code: message.CodeInvalid, Op: "read export", What: "the file is cut short", Hint: "export it again"}

// eachLine yields the lines of an export. The one of type "end" is the last one.
func eachLine(path string) iter.Seq2[*line, error] {
	return func(yield func(*line, error) bool) {
		f, _, err := plainfile.Open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = f.Close() }() // it was only read
		in := bufio.NewScanner(f)
		in.Buffer(make([]byte, 0, 1<<16), maxLine)
		in.Split(splitLine)
		for n := 1; ; n++ {
			l, err := readLine(in, n)
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", path, err))
				return
			}
			if !yield(l, nil) {
				return
			}
			if l.Type == "end" {
				if in.Scan() || in.Err() != nil {
					yield(nil, fmt.Errorf("%s: %w", path, badLine(n+1, "something follows the end of the export")))
				}
				return
			}
		}
	}
}

// splitLine splits a file into lines. A last line without its end is an error.
func splitLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, errCut
	}
	return 0, nil, nil
}

func readLine(in *bufio.Scanner, n int) (*line, error) {
	if !in.Scan() {
		if errors.Is(in.Err(), bufio.ErrTooLong) {
			return nil, badLine(n, "it is too long")
		}
		return nil, cmp.Or[error](in.Err(), errCut)
	}
	l := line{n: n}
	if err := strictjson.Unmarshal(in.Bytes(), &l, strictjson.MaxBytes(maxLine)); err != nil {
		return nil, badLine(n, err.Error())
	}
	return &l, nil
}

type lineCounts struct{ records, checkpoints uint64 }

// add counts a line. At the last one it returns how the file differs from what that counts, or "".
func (c *lineCounts) add(l *line) (damage string) {
	switch l.Type {
	case "record":
		c.records++
	case "checkpoint":
		c.checkpoints++
	case "end":
		if l.Records != c.records || l.Checkpoints != c.checkpoints {
			return fmt.Sprintf("the export counts %d records and %d checkpoints, there are %d and %d", l.Records, l.Checkpoints, c.records, c.checkpoints)
		}
	}
	return ""
}

// eachOf yields the records of a type. Reading records checks every line, and keeps what
// is wrong with the end of the file for Verify.
func (s *Source) eachOf(path, kind string) iter.Seq2[proof.Record, error] {
	return func(yield func(proof.Record, error) bool) {
		var counts lineCounts
		bases := map[uint64]*proof.Record{} // since the last record
		read := proof.Expander{Load: func(seq uint64) (*proof.Record, error) { return copyBase(bases, seq), nil }}
		records, damage := kind == "record", ""
		if records {
			s.bases = bases
			defer func() { s.damage = damage }()
		}
		for l, err := range eachLine(path) {
			if err == nil && (records || l.Type != "record") {
				if err = s.check(l, &read); err != nil {
					err = fmt.Errorf("%s: %w", path, err)
				}
			}
			switch {
			case errors.Is(err, errCut):
				damage = "the export is cut short"
				return
			case err != nil:
				yield(proof.Record{}, err)
				return
			case l.Type == "base":
				bases[l.Record.Seq] = l.Record
				continue
			case l.Type == kind && !yield(*l.Record, nil):
				return
			}
			damage = counts.add(l)
			clear(bases)
		}
	}
}

func copyBase(bases map[uint64]*proof.Record, seq uint64) *proof.Record {
	r := bases[seq]
	if r == nil {
		return nil
	}
	copied := *r
	return &copied
}

func badLine(n int, what string) error {
	return &message.Error{Code: message.CodeInvalid, Op: fmt.Sprintf("read line %d of an export", n), What: what}
}

// checkHead makes sure that a line is the first one of an export.
func (l *line) checkHead() error {
	switch {
	case l.Type != "export" || l.V != 1:
		return badLine(1, "it is not the first line of an export of version 1")
	case bus.CheckSpace(l.Space) != nil:
		return badLine(1, "it names no space")
	case l.Filter != nil && (l.Filter.isEmpty() || l.First != 0 || l.Last != 0):
		return badLine(1, "it is the head of a selection with a missing or wrong filter or range")
	case *l != line{n: l.n, Type: l.Type, V: l.V, Space: l.Space, First: l.First, Last: l.Last, Filter: l.Filter}:
		return badLine(1, "it has members that a head does not have")
	}
	return nil
}

// check makes sure that a line has the right form. A record whose summary does not match
// it is marked as changed.
func (s *Source) check(l *line, read *proof.Expander) error {
	own := line{n: l.n, Type: l.Type, Record: l.Record}
	switch l.Type {
	case "export":
		if l.n != 1 {
			return badLine(l.n, "an export begins within another")
		}
		return nil
	case "end":
		own = line{n: l.n, Type: l.Type, Records: l.Records, Checkpoints: l.Checkpoints}
	case "record":
		own.EventRecord = l.EventRecord
	case "checkpoint", "base":
	default:
		return badLine(l.n, "it has an unknown type")
	}
	switch {
	case *l != own:
		return badLine(l.n, "it has members that a line of its type does not have")
	case l.Type == "end":
		return nil
	case l.Record == nil:
		return badLine(l.n, "it has no record")
	case l.Type == "base":
		l.Record.Entity = bus.EntityIn(l.Record.Subject)
		return nil
	case l.Type == "checkpoint":
		return l.checkBare()
	}
	return s.checkRecord(l, read)
}

// checkRecord compares a record with its summary and with the head of the export.
func (s *Source) checkRecord(l *line, read *proof.Expander) error {
	r := l.Record
	r.Entity = bus.EntityIn(r.Subject)
	row, err := RowOf(r, read)
	if err != nil {
		return err
	}
	if l.EventRecord == nil {
		return badLine(l.n, "it has no summary of the record")
	}
	want, err := strictjson.Marshal(&row)
	if err != nil {
		return badLine(l.n, err.Error())
	}
	have, err := strictjson.Marshal(l.EventRecord)
	switch {
	case err != nil || !bytes.Equal(want, have):
		r.Invalid, r.Altered = "its summary in the export does not match it", true
	case s.filter == nil && (r.Seq < s.First || r.Seq > s.Last):
		r.Invalid, r.Altered = "it is outside the range in the head of the export", true
	case s.filter != nil && !s.filter.match(&row):
		r.Invalid, r.Altered = "it does not match the filter in the head of the export", true
	}
	return nil
}

// checkBare makes sure that a checkpoint has nothing except what it signs.
func (l *line) checkBare() error {
	r := l.Record
	if r.Text != "" && r.Binary != nil || r.Header != nil || r.Redacted != nil ||
		r.Seq != 0 || !r.Time.IsZero() || r.Subject != "" || !r.BodyHash.IsZero() || r.Invalid != "" || r.Altered {
		return badLine(l.n, "it has members that a checkpoint does not have")
	}
	return nil
}

// Source is a journal to read. Records and Checkpoints can be called several times.
// They yield what follows a sequence; for a file they always start at the beginning.
type Source struct {
	Space       toolcall.SpaceID
	First, Last uint64 // as the store reports; see proof.Options
	Partial     bool   // a selection
	Records     func(after uint64) iter.Seq2[proof.Record, error]
	Checkpoints func(after uint64) iter.Seq2[proof.Record, error]

	// Flaws are what the journal lacks according to an anchor that the auditor can read.
	Flaws []journal.Flaw
	// Verified records verifications; nil: they are not recorded.
	Verified *journal.Verified

	// load reads one record again. It returns nil without an error if there is none, or if it
	// is not near the last record of the file.
	load   func(seq uint64) (*proof.Record, error)
	bases  map[uint64]*proof.Record // of a file: since its last record
	filter *Filter                  // of a selection in a file
	damage string                   // what is wrong with the end of a file, once it was read

	missing *journal.MissingCheckpointError // the last verified checkpoint, if the journal lost it
}

// Open opens a journal through an engine, or in a folder. It does not see what is stored after
// Open. It counts the checkpoints before the records, so that the records that they cover exist.
func Open(ctx context.Context, a journal.Auditing, space toolcall.SpaceID) (*Source, error) {
	signed, err := a.Records(ctx, bus.RecordsRequest{V: 1, Of: bus.AuditCheckpoints, Limit: 1})
	if err != nil {
		return nil, err
	}
	written, err := a.Records(ctx, bus.RecordsRequest{V: 1, Limit: 1})
	if err != nil {
		return nil, err
	}
	walk := func(of bus.AuditOf, last uint64) func(uint64) iter.Seq2[proof.Record, error] {
		return func(after uint64) iter.Seq2[proof.Record, error] { return journal.Walk(ctx, a, of, after, last) }
	}
	return &Source{
		Space: space, First: written.First, Last: written.Last,
		Records: walk(bus.AuditJournal, written.Last), Checkpoints: walk(bus.AuditCheckpoints, signed.Last),
		load: func(seq uint64) (*proof.Record, error) { return loadRecord(ctx, a, seq) },
	}, nil
}

func loadRecord(ctx context.Context, a journal.Auditing, seq uint64) (*proof.Record, error) {
	rep, err := a.Records(ctx, bus.RecordsRequest{V: 1, After: seq - 1, Limit: 1})
	if err != nil || len(rep.Records) == 0 || rep.Records[0].Seq != seq {
		return nil, err
	}
	bus.RedactRecord(&rep.Records[0])
	return &rep.Records[0], nil
}

// Continue makes Verify begin where the last verification ended, unless full is set. An error says
// why Verify reads everything, although an earlier verification is recorded. If the journal has lost
// what was verified, Verify reports it.
func (s *Source) Continue(ctx context.Context, o *proof.Options, full bool) error {
	if s.Verified == nil {
		return nil
	}
	o.First = s.First
	earlier, err := s.Verified.Load(ctx, *o)
	s.missing, _ = errors.AsType[*journal.MissingCheckpointError](err)
	if len(s.Flaws) > 0 {
		return errors.New("the journal lacks records")
	}
	if full {
		return nil
	}
	o.Earlier = earlier
	return err
}

// Remember makes later verifications begin where this one ended, or forgets earlier ones if
// it has findings. What shows that the journal lost a checkpoint stays.
func (s *Source) Remember(ctx context.Context, r *proof.Report, o proof.Options) error {
	if s.Verified == nil || s.missing != nil && !r.OK {
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
	if o.Losses, err = proof.Losses(journal.Bodies(s.Checkpoints(lossesAfter)), o.Keys, o.Retired); err != nil {
		return nil, err
	}
	if o.Archives, err = proof.Archives(journal.Bodies(s.Checkpoints(archivesAfter)), o.Keys, o.Retired); err != nil {
		return nil, err
	}
	r, err := proof.Verify(journal.Bodies(s.Checkpoints(place)), s.Records(after), o)
	if err == nil && s.damage != "" && r.OK {
		r.OK, r.Found = false, 1
		r.Findings = append(r.Findings, proof.Finding{Kind: proof.Truncated, Seq: r.Last, What: s.damage})
	}
	if err == nil {
		s.addFlaws(r)
		s.addMissing(r)
	}
	return r, err
}

// addMissing reports a verified checkpoint that is missing, unless an operator accepted that later.
func (s *Source) addMissing(r *proof.Report) {
	if s.missing == nil || slices.ContainsFunc(r.Losses, func(l proof.Loss) bool { return l.At.After(s.missing.At) }) {
		return
	}
	r.OK = false
	r.Found++
	r.Findings = append(r.Findings, proof.Finding{Kind: proof.LostCheckpoint, Checkpoint: s.missing.Anchor.Number, What: s.missing.Error() + ": it was verified on " + s.missing.At.UTC().Format("2006-01-02 15:04 MST") + ". The journal is an older copy, or another one; if that is intended, remove the file"})
}

// addFlaws reports what only the anchor can show: records that were lost before a
// checkpoint signed them, and lost checkpoints.
func (s *Source) addFlaws(r *proof.Report) {
	for _, f := range s.Flaws {
		kind := proof.RolledBack
		switch f.Kind {
		case journal.FlawTail, journal.FlawJournalGone:
		case journal.FlawProof, journal.FlawBadAnchor:
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
