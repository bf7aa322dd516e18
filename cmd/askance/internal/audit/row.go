package audit

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

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
	row.Session, row.Reply, row.Call = idOf(s.Session), idOf(s.Reply), idOf(s.Call)
	if s.Kind == bus.KindEvent {
		row.Kind, row.Runtime = "event", idOf(s.Who)
		return row, nil
	}
	if !r.BodyHash.IsZero() && string(r.Body()) == proof.RedactedWhole {
		return row, nil
	}
	f, err := in.Expand(r)
	if errors.Is(err, proof.ErrBaseUnread) {
		return row, err
	}
	if err != nil || bus.EntityIn(r.Subject) == "" {
		return row, nil //nolint:nilerr // the row says that it is unreadable
	}
	key := f.Key()
	row.Kind, row.At = f.Kind(), f.At
	row.Session, row.Reply, row.Call = string(key.Session), string(key.Reply), string(key.Call)
	row.ByRole, row.ByName, row.ByAuth = string(f.By.Role), f.By.Name, f.By.Auth
	for _, step := range f.Path {
		row.Causes = append(row.Causes, step.Cause)
	}
	if f.Call != nil {
		row.call(f.Call)
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

// idOf returns a name, or its hash if the subject has only that.
func idOf(t bus.Token) string {
	if id, ok := t.ID(); ok {
		return id
	}
	return string(t)
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
