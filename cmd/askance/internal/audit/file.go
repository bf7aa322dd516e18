package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
)

const maxLine = 3 * maxBody / 2

// OpenFile opens an export in JSON Lines as a source, which reads the file line by line.
func OpenFile(path string) (*Source, error) {
	f, _, err := plainfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	head, err := readLine(bufio.NewReader(f), 1)
	if err == nil {
		err = head.head()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, orCut(err))
	}
	s := &Source{Space: head.Space, First: head.First, Last: head.Last, Partial: head.Filter != nil, filter: head.Filter}
	s.load = func(seq uint64) (*proof.Record, error) { return copyBase(s.bases, seq), nil }
	s.Records = func(uint64) iter.Seq2[proof.Record, error] { return s.lines(path, "record") }
	s.Checkpoints = func(uint64) iter.Seq2[proof.Record, error] { return s.lines(path, "checkpoint") }
	return s, nil
}

var errEnd = errors.New("the file ended")

// lines yields the records of a type. Reading records checks every line, and keeps what
// is wrong with the end of the file for Verify.
func (s *Source) lines(path, kind string) iter.Seq2[proof.Record, error] {
	return func(yield func(proof.Record, error) bool) {
		f, _, err := plainfile.Open(path)
		if err != nil {
			yield(proof.Record{}, err)
			return
		}
		defer func() { _ = f.Close() }() // it was only read
		in := bufio.NewReaderSize(f, 1<<16)
		count := map[string]uint64{}
		bases := map[uint64]*proof.Record{} // since the last record
		read := proof.Expander{Load: func(seq uint64) (*proof.Record, error) { return copyBase(bases, seq), nil }}
		records, damage := kind == "record", ""
		if records {
			s.bases = bases
			defer func() { s.damage = damage }()
		}
		for n := 1; ; n++ {
			l, err := readLine(in, n)
			if errors.Is(err, errEnd) {
				damage = "the export is cut short"
				return
			}
			if err == nil {
				count[l.Type]++
				if records || l.Type != "record" {
					err = s.check(l, n, &read)
				}
			}
			if err == nil && l.Type == "end" {
				err = checkEnd(in, n)
			}
			if err != nil {
				yield(proof.Record{}, fmt.Errorf("%s: %w", path, err))
				return
			}
			if l.Type == "end" {
				if l.Records != count["record"] || l.Checkpoints != count["checkpoint"] {
					damage = fmt.Sprintf("the export counts %d records and %d checkpoints, there are %d and %d", l.Records, l.Checkpoints, count["record"], count["checkpoint"])
				}
				return
			}
			if l.Type == "base" {
				bases[l.Record.Seq] = l.Record
				continue
			}
			if l.Type == kind && !yield(*l.Record, nil) {
				return
			}
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

// orCut returns the error of a file that ends without its last line.
func orCut(err error) error {
	if errors.Is(err, errEnd) {
		return &message.Error{Code: message.CodeInvalid, Op: "read export", What: "the file is cut short", Hint: "export it again"}
	}
	return err
}

func badLine(n int, what string) error {
	return &message.Error{Code: message.CodeInvalid, Op: fmt.Sprintf("read line %d of an export", n), What: what}
}

// checkEnd makes sure that nothing follows the last line.
func checkEnd(in *bufio.Reader, n int) error {
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return badLine(n+1, "something follows the end of the export")
	}
	return nil
}

// head makes sure that a line is the first one of an export.
func (l *line) head() error {
	switch {
	case l.Type != "export" || l.V != 1:
		return badLine(1, "it is not the first line of an export of version 1")
	case bus.CheckSpace(l.Space) != nil:
		return badLine(1, "it names no space")
	case l.Filter != nil && (l.Filter.isEmpty() || l.First != 0 || l.Last != 0):
		return badLine(1, "it is the head of a selection with a missing or wrong filter or range")
	case *l != line{Type: l.Type, V: l.V, Space: l.Space, First: l.First, Last: l.Last, Filter: l.Filter}:
		return badLine(1, "it has members that a head does not have")
	}
	return nil
}

// check makes sure that a line has the right form. A record whose summary does not match
// it is marked as changed.
func (s *Source) check(l *line, n int, read *proof.Expander) error {
	own := line{Type: l.Type, Record: l.Record}
	switch l.Type {
	case "export":
		if n != 1 {
			return badLine(n, "an export begins within another")
		}
		return nil
	case "end":
		own = line{Type: l.Type, Records: l.Records, Checkpoints: l.Checkpoints}
	case "record":
		own.EventRecord = l.EventRecord
	case "checkpoint", "base":
	default:
		return badLine(n, "it has an unknown type")
	}
	switch {
	case *l != own:
		return badLine(n, "it has members that a line of its type does not have")
	case l.Type == "end":
		return nil
	case l.Record == nil:
		return badLine(n, "it has no record")
	case l.Type == "base":
		l.Record.Entity = bus.EntityIn(l.Record.Subject)
		return nil
	case l.Type == "checkpoint":
		return checkBare(l.Record, n)
	}
	return s.record(l, n, read)
}

// record compares a record with its summary and with the head of the export.
func (s *Source) record(l *line, n int, read *proof.Expander) error {
	r := l.Record
	r.Entity = bus.EntityIn(r.Subject)
	row, err := RowOf(r, read)
	if err != nil {
		return err
	}
	if l.EventRecord == nil {
		return badLine(n, "it has no summary of the record")
	}
	want, err := strictjson.Marshal(&row)
	if err != nil {
		return badLine(n, err.Error())
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
func checkBare(r *proof.Record, n int) error {
	if r.Text != "" && r.Binary != nil || r.Header != nil || r.Redacted != nil ||
		r.Seq != 0 || !r.Time.IsZero() || r.Subject != "" || !r.BodyHash.IsZero() || r.Invalid != "" || r.Altered {
		return badLine(n, "it has members that a checkpoint does not have")
	}
	return nil
}

func readLine(in *bufio.Reader, n int) (*line, error) {
	raw, err := readBytes(in)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, badLine(n, "it is too long")
	}
	var l line
	if err := strictjson.Unmarshal(raw, &l, strictjson.MaxBytes(maxLine)); err != nil {
		return nil, badLine(n, err.Error())
	}
	return &l, nil
}

// readBytes reads a line of at most maxLine bytes; nil if it is longer.
func readBytes(in *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(out)+len(part) > maxLine {
			return nil, nil
		}
		out = append(out, part...)
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, io.EOF):
			return nil, errEnd
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
