package audit

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// Exporting says what to write. No export contains what rules redact.
type Exporting struct {
	Filter   Filter
	CSV      bool // for people; JSON Lines otherwise
	Progress func(seq uint64)

	read proof.Expander // reads every record of the source
}

// line is one line of an export. Each type has its own members and no others.
type line struct {
	n           int              // its number in a file that is read
	Type        string           `json:"type"` // export, base, record, checkpoint, end
	V           int              `json:"v,omitzero"`
	Space       toolcall.SpaceID `json:"space,omitzero"`
	First       uint64           `json:"first_seq,omitzero"`
	Last        uint64           `json:"last_seq,omitzero"`
	Filter      *Filter          `json:"filter,omitzero"`
	Record      *proof.Record    `json:"record,omitzero"`
	EventRecord *Row             `json:"event_record,omitzero"`
	Records     uint64           `json:"records,omitzero"`
	Checkpoints uint64           `json:"checkpoints,omitzero"`
}

// Export writes a source to w and returns how many records it wrote.
func Export(w io.Writer, s *Source, e Exporting) (uint64, error) {
	buffered := bufio.NewWriterSize(w, 1<<16)
	e.read.Load = s.load
	n, err := e.write(buffered, s)
	if ferr := buffered.Flush(); err == nil {
		err = ferr
	}
	return n, err
}

func (e *Exporting) write(w *bufio.Writer, s *Source) (uint64, error) {
	if e.CSV {
		return e.table(w, s)
	}
	head := line{Type: "export", V: 1, Space: s.Space, First: s.First, Last: s.Last}
	if !e.Filter.isEmpty() { // nothing proves where a selection begins and ends
		head.Filter, head.First, head.Last = &e.Filter, 0, 0
	}
	end := line{Type: "end"}
	err := put(w, &head)
	reader := proof.Expander{Load: func(seq uint64) (*proof.Record, error) { return putBase(w, s, seq) }}
	for r, rerr := range mergeRecords(s) {
		if err == nil {
			err = rerr
		}
		if err != nil {
			return 0, err
		}
		if r.checkpoint {
			end.Checkpoints++
			err = put(w, &line{Type: "checkpoint", Record: &proof.Record{Text: r.Text, Binary: r.Binary}}) // it proves itself
			continue
		}
		row, ok, rerr := e.row(&r.Record)
		if rerr != nil {
			return 0, rerr
		}
		if ok {
			end.Records++
			copied := r.Record
			if _, err := reader.Expand(&copied); err != nil && row.isDecoded() { // writes the bases that a reader of the file lacks
				return 0, err
			}
			err = put(w, &line{Type: "record", Record: &r.Record, EventRecord: &row})
		}
	}
	if err == nil {
		err = put(w, &end)
	}
	return end.Records, err
}

func (e *Exporting) table(w io.Writer, s *Source) (uint64, error) {
	out := csv.NewWriter(w)
	n := uint64(0)
	err := out.Write(columns)
	for r, rerr := range s.Records(0) {
		if err == nil {
			err = rerr
		}
		if err != nil {
			return n, err
		}
		row, ok, rerr := e.row(&r)
		if rerr != nil {
			return n, rerr
		}
		if ok {
			n++
			err = out.Write(row.cells())
		}
	}
	out.Flush()
	if err == nil {
		err = out.Error()
	}
	return n, err
}

func (e *Exporting) row(r *proof.Record) (Row, bool, error) {
	if e.Progress != nil {
		e.Progress(r.Seq)
	}
	bus.RedactRecord(r)
	row, err := RowOf(r, &e.read)
	return row, e.Filter.match(&row), err
}

// putBase writes a record on which the next one builds and that the file lacks.
func putBase(w *bufio.Writer, s *Source, seq uint64) (*proof.Record, error) {
	if s.load == nil {
		return nil, nil
	}
	r, err := s.load(seq)
	if err == nil && r != nil {
		err = put(w, &line{Type: "base", Record: r})
	}
	return r, err
}

func put(w *bufio.Writer, l *line) error {
	b, err := strictjson.Marshal(l)
	if err != nil {
		return &message.Error{Code: message.CodeInternal, Op: "export", What: "a record has no JSON form", Err: err}
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.WriteByte('\n')
}

// stored is a record of either stream.
type stored struct {
	proof.Record
	checkpoint bool
}

// lastOf returns the last sequence that a checkpoint covers; 0 if c is not a checkpoint.
func lastOf(c *proof.Record) uint64 {
	s, err := proof.DecodeSealed(c.Body())
	if err != nil {
		return 0
	}
	return s.Checkpoint.To
}

// mergeRecords yields each checkpoint after the records that it covers.
func mergeRecords(s *Source) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		next, stop := iter.Pull2(s.Checkpoints(0))
		defer stop()
		c, err, more := next()
		through := lastOf(&c)
		for r, rerr := range s.Records(0) {
			for more && err == nil && rerr == nil && through < r.Seq {
				if !yield(stored{c, true}, nil) {
					return
				}
				c, err, more = next()
				through = lastOf(&c)
			}
			if err != nil {
				yield(stored{}, err)
				return
			}
			if !yield(stored{r, false}, rerr) || rerr != nil {
				return
			}
		}
		for ; more; c, err, more = next() {
			if !yield(stored{c, true}, err) || err != nil {
				return
			}
		}
	}
}

// Filter selects records. An empty condition selects all. Events have only a session,
// a reply and a time: any other condition excludes them.
type Filter struct {
	Session  string    `json:"session_id,omitzero"`
	Reply    string    `json:"reply_id,omitzero"`
	Call     string    `json:"tool_call_id,omitzero"`
	Tool     string    `json:"tool_name,omitzero"`
	Approver string    `json:"approver,omitzero"` // has voted on the call by then
	States   []string  `json:"states,omitzero"`
	Causes   []string  `json:"causes,omitzero"` // of a step that the event record took
	Since    time.Time `json:"since,omitzero"`  // when it was stored, this instant included
	Until    time.Time `json:"until,omitzero"`  // this instant excluded
	NoEvents bool      `json:"no_events,omitzero"`
}

func (f *Filter) isEmpty() bool {
	return f.Session == "" && f.Reply == "" && f.Since.IsZero() && f.Until.IsZero() && !f.NoEvents && !f.records()
}

// records reports whether there is a condition that only event records can meet.
func (f *Filter) records() bool {
	return f.Call != "" || f.Tool != "" || f.Approver != "" || len(f.States) > 0 || len(f.Causes) > 0
}

func (f *Filter) match(row *Row) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	switch {
	case row.Kind == "event" && (f.NoEvents || f.records()):
		return false
	case !is(f.Session, row.Session), !is(f.Reply, row.Reply), !is(f.Call, row.Call), !is(f.Tool, row.Tool):
		return false
	case f.Approver != "" && !slices.Contains(row.approvers, f.Approver):
		return false
	case len(f.States) > 0 && !slices.Contains(f.States, row.State):
		return false
	case len(f.Causes) > 0 && !slices.ContainsFunc(row.Causes, func(c string) bool { return slices.Contains(f.Causes, c) }):
		return false
	case !f.Since.IsZero() && row.StoredAt.Before(f.Since), !f.Until.IsZero() && !row.StoredAt.Before(f.Until):
		return false
	}
	return true
}

// maxBody bounds the decoded body of a record.
const maxBody = 64 << 20

// Row is the summary of a record: a line of CSV.
type Row struct {
	Seq          uint64    `json:"seq"`
	StoredAt     time.Time `json:"stored_at,omitzero"` // by the server
	At           time.Time `json:"at,omitzero"`        // by the engine
	Kind         string    `json:"kind"`               // of the event record; "event"; "unreadable"
	Session      string    `json:"session_id,omitzero"`
	Reply        string    `json:"reply_id,omitzero"`
	Call         string    `json:"tool_call_id,omitzero"`
	Tool         string    `json:"tool_name,omitzero"`
	State        string    `json:"state,omitzero"`
	Causes       []string  `json:"causes,omitzero"` // of the steps that the event record took
	ByRole       string    `json:"by_role,omitzero"`
	ByName       string    `json:"by_name,omitzero"`
	ByAuth       string    `json:"by_auth,omitzero"`
	Runtime      string    `json:"runtime,omitzero"`
	Agent        string    `json:"agent,omitzero"`
	Rule         string    `json:"rule,omitzero"`
	Bundle       string    `json:"bundle,omitzero"`
	Digest       string    `json:"digest,omitzero"`
	Votes        []string  `json:"votes,omitzero"` // kind, name and how it was authenticated
	Attempt      int       `json:"attempt,omitzero"`
	Worker       string    `json:"worker,omitzero"`
	ResultState  string    `json:"result_state,omitzero"`
	ResultDigest string    `json:"result_digest,omitzero"`
	Leaf         string    `json:"leaf"`
	Redacted     []string  `json:"redacted,omitzero"`
	Invalid      string    `json:"invalid,omitzero"`

	approvers []string
}

// RowOf reads a record. in has read the records before it, on which it builds. An error
// means that those could not be read.
func RowOf(r *proof.Record, in *proof.Expander) (Row, error) {
	row := Row{Seq: r.Seq, StoredAt: r.Time, Kind: "unreadable", Leaf: r.Leaf().String(), Redacted: r.Redacted, Invalid: r.Invalid}
	s, err := bus.ParseSubject(r.Subject)
	if err != nil {
		return row, nil //nolint:nilerr // the row says that it is unreadable
	}
	row.Session, row.Reply, row.Call = s.Session.Text(), s.Reply.Text(), s.Call.Text()
	if s.Kind == bus.KindEvent {
		row.Kind, row.Runtime = "event", s.Who.Text()
		return row, nil
	}
	if !r.BodyHash.IsZero() && string(r.Body()) == proof.RedactedWhole {
		return row, nil
	}
	rec, err := in.Expand(r)
	if errors.Is(err, proof.ErrBaseUnread) {
		return row, err
	}
	if err != nil || bus.EntityIn(r.Subject) == "" {
		return row, nil //nolint:nilerr // the row says that it is unreadable
	}
	key := rec.Key()
	row.Kind, row.At = rec.Kind(), rec.At
	row.Session, row.Reply, row.Call = string(key.Session), string(key.Reply), string(key.Call)
	row.ByRole, row.ByName, row.ByAuth = string(rec.By.Role), rec.By.Name, rec.By.Auth
	for _, step := range rec.Path {
		row.Causes = append(row.Causes, step.Cause)
	}
	if rec.Call != nil {
		row.call(rec.Call)
	}
	return row, nil
}

// isDecoded reports whether the row has the content of an event record.
func (row *Row) isDecoded() bool { return row.Kind != "event" && row.Kind != "unreadable" }

func (row *Row) call(c *toolcall.Call) {
	row.Tool, row.State, row.Runtime, row.Agent, row.Digest = c.Tool, string(c.State), c.Runtime, c.Agent, c.Digest
	if d := c.Decision; d != nil {
		row.Rule, row.Bundle = d.Rule, d.Bundle
	}
	for _, v := range c.Votes {
		row.Votes = append(row.Votes, string(v.Kind)+" "+asked.Who(v.By))
		row.approvers = append(row.approvers, v.By.Name)
	}
	row.Attempt, row.Worker = c.Attempt.Number, c.Attempt.Worker
	if c.Result != nil {
		row.ResultState = string(c.Result.State)
	}
	row.ResultDigest = c.ResultDigest
}

var columns = []string{
	"seq", "stored_at", "at", "kind", "session_id", "reply_id", "tool_call_id", "tool_name", "state", "causes",
	"by_role", "by_name", "by_auth", "runtime", "agent", "rule", "bundle", "digest", "votes", "attempt", "worker",
	"result_state", "result_digest", "leaf", "redacted", "invalid",
}

func (row *Row) cells() []string {
	cells := []string{
		strconv.FormatUint(row.Seq, 10), stamp(row.StoredAt), stamp(row.At), row.Kind, row.Session, row.Reply, row.Call, row.Tool, row.State, strings.Join(row.Causes, " "),
		row.ByRole, row.ByName, row.ByAuth, row.Runtime, row.Agent, row.Rule, row.Bundle, row.Digest, strings.Join(row.Votes, "; "), attempt(row.Attempt), row.Worker,
		row.ResultState, row.ResultDigest, row.Leaf, strings.Join(row.Redacted, " "), row.Invalid,
	}
	for i, c := range cells {
		cells[i] = reveal.Cell(c)
	}
	return cells
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func attempt(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
