package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
)

// maxLine bounds a line of an export.
const maxLine = 3 * maxBody / 2

// OpenFile looks at an export in JSON Lines. The file is read when the source
// is, line by line.
func OpenFile(path string) (*Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	head, err := readLine(bufio.NewReader(f), 1)
	if err == nil && (head.Type != "export" || head.V != 1) {
		err = badLine(1, "it is not the first line of an export of version 1")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, orCut(err))
	}
	s := &Source{Space: head.Space, First: head.First, Last: head.Last, Partial: head.Filter != nil}
	s.Records = func() iter.Seq2[proof.Record, error] { return s.lines(path, "record") }
	s.Checkpoints = func() iter.Seq2[proof.Record, error] { return s.lines(path, "checkpoint") }
	return s, nil
}

// errEnd: the file ended.
var errEnd = errors.New("the file ended")

// lines gives the records of a type. What is wrong with the end of the file is
// kept for Verify.
func (s *Source) lines(path, kind string) iter.Seq2[proof.Record, error] {
	return func(yield func(proof.Record, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(proof.Record{}, err)
			return
		}
		defer func() { _ = f.Close() }() // it was only read
		in := bufio.NewReaderSize(f, 1<<16)
		count := map[string]uint64{}
		for n := 1; ; n++ {
			l, err := readLine(in, n)
			if errors.Is(err, errEnd) {
				s.damage = "the export is cut short"
				return
			}
			if err == nil {
				count[l.Type]++
				err = l.check(n)
			}
			if err != nil {
				yield(proof.Record{}, fmt.Errorf("%s: %w", path, err))
				return
			}
			if l.Type == "end" {
				if l.Records != count["record"] || l.Checkpoints != count["checkpoint"] {
					s.damage = fmt.Sprintf("the export counts %d records and %d checkpoints, there are %d and %d", l.Records, l.Checkpoints, count["record"], count["checkpoint"])
				}
				return
			}
			if l.Type == kind && !yield(*l.Record, nil) {
				return
			}
		}
	}
}

// orCut says that a file which ends without its last line was cut short.
func orCut(err error) error {
	if errors.Is(err, errEnd) {
		return &message.Error{Code: message.CodeInvalid, Op: "read export", What: "the file is cut short", Hint: "export it again"}
	}
	return err
}

func badLine(n int, what string) error {
	return &message.Error{Code: message.CodeInvalid, Op: fmt.Sprintf("read line %d of an export", n), What: what}
}

// check makes sure that a line is one of ours. A record about which it does not
// say in short what the record says is marked as changed.
func (l *line) check(n int) error {
	switch l.Type {
	case "export":
		if n != 1 {
			return badLine(n, "an export begins within another")
		}
		return nil
	case "end":
		return nil
	case "record", "checkpoint":
	default:
		return badLine(n, "it has an unknown type")
	}
	if l.Record == nil {
		return badLine(n, "it has no record")
	}
	l.Record.Tree = bus.TreeIn(l.Record.Subject)
	if l.Type == "checkpoint" || l.Fact == nil {
		return nil
	}
	row := RowOf(l.Record)
	want, err := strictjson.Marshal(&row)
	if err != nil {
		return badLine(n, err.Error())
	}
	if have, err := strictjson.Marshal(l.Fact); err != nil || !bytes.Equal(want, have) {
		l.Record.Invalid, l.Record.Altered = "what the export says of it in short is not what it says", true
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

// readBytes reads a line of at most maxLine bytes; nil: it is longer.
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
