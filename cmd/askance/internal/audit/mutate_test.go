package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/audit"
	"github.com/askance-dev/askance/internal/mutatetest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

var (
	signer = ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", 32)))
	keys   = toolcall.NewKeySet(signer.Public().(ed25519.PublicKey))
	at     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// stored is a journal in memory with its checkpoints, as an engine sends them to auditors.
type stored struct {
	records, checkpoints []proof.Record
	fails                error // the error of a read that begins after the first record
}

func (s *stored) Records(_ context.Context, r bus.RecordsRequest) (bus.RecordsReply, error) {
	from := s.records
	if r.Of == bus.AuditCheckpoints {
		from = s.checkpoints
	}
	last := uint64(len(from))
	if s.fails != nil && r.Limit == 1 && r.After > 0 {
		return bus.RecordsReply{}, s.fails
	}
	from = from[min(r.After, last):]
	if r.Limit > 0 && len(from) > r.Limit {
		from = from[:r.Limit]
	}
	return bus.RecordsReply{First: 1, Last: last, Records: slices.Clone(from), Next: min(r.After, last) + uint64(len(from))}, nil
}

// newStored returns a journal with an open call, a call with hidden arguments and an event. Its
// first records are signed. If compact is set, records contain only what changed in their calls.
func newStored(t testing.TB, through int, compact bool) *stored {
	t.Helper()
	var records []proof.Record
	last, bases := map[string]proof.Record{}, map[string]*toolcall.RecordBase{}
	add := func(subject, tree string, body []byte, base *toolcall.RecordBase) {
		r := proof.Record{Seq: uint64(len(records) + 1), Time: at, Subject: "askance.v1.test." + subject, Entity: tree, Header: map[string][]string{"Nats-Msg-Id": {fmt.Sprint("f", len(records))}}, Base: base}
		if mark := proof.MarkOf(proof.Shown(body, tree != "", base)); !compact || tree == "" || mark != proof.ShownWhole {
			r.Header[proof.HeaderShown] = []string{mark}
		}
		r.SetBody(body)
		records, last[tree] = append(records, r), r
	}
	for i := range 2 {
		for _, id := range []message.CallID{"open", "hidden"} {
			rec := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: fmt.Sprint("f", len(records)), At: at, Engine: "e", Prev: &toolcall.Link{}, By: toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot", Auth: "nats-jwt"}}
			rec.Path = []toolcall.Step{{Cause: "ask", From: message.ToolCallPending, To: message.ToolCallAsking}}
			rec.Call = &toolcall.Call{Key: toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: id}, Tool: "pay", Input: `{"cents":5,"secret":"hush"}`, State: message.ToolCallAsking, Records: i + 1}
			if id == "hidden" {
				rec.Call.Redact = []string{"args.secret"}
			}
			if before, ok := last[string(id)]; ok {
				rec.Prev = proof.LinkTo(before.Seq, before.Leaf())
				rec.Call.Votes = []toolcall.Vote{{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann", Auth: "nats-jwt"}, At: at}}
			}
			var base *toolcall.RecordBase
			b, err := strictjson.Marshal(rec)
			if compact {
				base = toolcall.BaseFor(rec, bases[string(id)])
				b, err = toolcall.EncodeStored(rec, base)
			}
			if err != nil {
				t.Fatal(err)
			}
			add("record.s1.r1."+string(id)+".f", string(id), b, base)
			r := last[string(id)]
			bases[string(id)] = toolcall.NewRecordBase(r.Seq, r.Leaf().String(), rec, base)
		}
	}
	add("event.bot.s1.r1", "", []byte(`{"type":"TOOL_CALL_DELTA","delta":"hush"}`), nil)
	add("event.bot.s1.r1", "", []byte(`{"type":"TEXT"}`), nil)
	entries := make([]proof.Entry, through)
	for i := range entries {
		entries[i] = proof.Entry{Subject: records[i].Subject, Content: records[i].Content()}
	}
	s, err := proof.Seal(proof.Checkpoint{Space: "test", Number: 1, From: 1, To: uint64(through), At: at, Engine: "e"}, entries, signer)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	checkpoint := proof.Record{Seq: 1, Time: at, Subject: "askance.v1.test.proof.checkpoint", Header: map[string][]string{"Askance-Kind": {"checkpoint 1"}}}
	checkpoint.SetBody(b)
	for i := range records {
		bus.RedactRecord(&records[i])
	}
	return &stored{records: records, checkpoints: []proof.Record{checkpoint}}
}

func open(t testing.TB, a journal.Auditing) *audit.Source {
	t.Helper()
	s, err := audit.Open(t.Context(), a, "test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func all(records ...proof.Record) func(uint64) iter.Seq2[proof.Record, error] {
	return func(uint64) iter.Seq2[proof.Record, error] {
		return func(yield func(proof.Record, error) bool) {
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// verifyText returns everything that an export tells a verifier: the report and the records,
// without the time at which the server stored them, which is not proved.
func verifyText(t testing.TB, path string, lines [][]byte) (text string, found bool) {
	t.Helper()
	if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := audit.OpenFile(path)
	if err != nil {
		return err.Error(), true
	}
	report, err := s.Verify(proof.Options{Keys: keys})
	if err != nil || !report.OK {
		return fmt.Sprintf("%v %+v", err, report), true
	}
	var out []any
	for r, err := range s.Records(0) {
		if err != nil {
			return err.Error(), true
		}
		out = append(out, string(r.Body()))
	}
	var table bytes.Buffer
	if _, err := audit.Export(&table, s, audit.Exporting{CSV: true}); err != nil {
		return err.Error(), true
	}
	cells, err := csv.NewReader(&table).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range cells {
		out = append(out, slices.Delete(row, 1, 2))
	}
	b, err := strictjson.Marshal(append(out, report))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), false
}

// Every change, removal, addition or move in an export is found, unless the export still tells
// the same.
func TestExportMutations(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		through int // the last signed record
		compact bool
		filter  audit.Filter
		lines   []int // each member of these lines is changed; each kind of line once
	}{
		"signed":               {6, false, audit.Filter{}, []int{0, 3, 4, 5, 6, 7, 8}},
		"in part":              {3, false, audit.Filter{}, []int{0, 5, 7, 8}},
		"a selection":          {6, false, audit.Filter{Session: "s1", Call: "hidden"}, []int{0, 1, 4}},
		"compact, signed":      {6, true, audit.Filter{}, []int{1, 2, 3, 4}},
		"compact, a selection": {6, true, audit.Filter{Approver: "ann"}, []int{1, 2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var file bytes.Buffer
			if _, err := audit.Export(&file, open(t, newStored(t, tc.through, tc.compact)), audit.Exporting{Filter: tc.filter}); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			lines := bytes.SplitAfter(bytes.TrimSuffix(file.Bytes(), []byte("\n")), []byte("\n"))
			lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
			want, found := verifyText(t, path, lines)
			if found {
				t.Fatalf("findings in the unchanged export: %s", want)
			}
			tried, caught := 0, 0
			try := func(what string, changed [][]byte) {
				got, found := verifyText(t, path, changed)
				tried++
				if found {
					caught++
				} else if got != want {
					t.Errorf("%s is not found, but the export tells\n%s", what, got)
				}
			}
			for i, l := range lines {
				if slices.Contains(tc.lines, i) {
					for what, b := range mutatetest.Each(l) {
						changed := slices.Clone(lines)
						changed[i] = append(b, '\n')
						try(fmt.Sprintf("line %d: %s", i+1, what), changed)
					}
				}
				try(fmt.Sprintf("line %d left out", i+1), slices.Delete(slices.Clone(lines), i, i+1))
				try(fmt.Sprintf("line %d twice", i+1), slices.Insert(slices.Clone(lines), i, l))
				if i > 0 {
					swapped := slices.Clone(lines)
					swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
					try(fmt.Sprintf("line %d moved up", i+1), swapped)
				}
			}
			try("a line behind the end", append(slices.Clone(lines), lines[1]))
			if caught < 500 || tried-caught > caught/3 {
				t.Errorf("tried %d mutations, found %d", tried, caught)
			}
		})
	}
}

// forge returns an export whose unredacted records are changed as if they were redacted.
// summarize changes their summaries.
func forge(t *testing.T, export []byte, change func(r *proof.Record), summarize func(r *proof.Record, row message.RawJSON) message.RawJSON) [][]byte {
	t.Helper()
	var out [][]byte
	for l := range bytes.Lines(export) {
		var members map[string]message.RawJSON
		if err := strictjson.Unmarshal(l, &members); err != nil {
			t.Fatal(err)
		}
		if kind := string(members["type"]); kind == `"base"` || kind == `"record"` {
			var r proof.Record
			if err := strictjson.Unmarshal(members["record"], &r); err != nil {
				t.Fatal(err)
			}
			if r.Entity = bus.EntityIn(r.Subject); r.Entity != "" && r.BodyHash.IsZero() {
				hash := proof.BodyHash(r.Body())
				if change(&r); proof.BodyHash(r.Body()) != hash {
					r.BodyHash = hash
				}
			}
			b, err := strictjson.Marshal(&r)
			if err != nil {
				t.Fatal(err)
			}
			if members["record"] = b; kind == `"record"` {
				members["event_record"] = summarize(&r, members["event_record"])
			}
		}
		b, err := strictjson.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, append(b, '\n'))
	}
	return out
}

// No one can hide an unredacted record, or change one on which another builds, and claim that its
// engine redacted it.
func TestOpenRecordCannotPassAsRedacted(t *testing.T) {
	export := func(f audit.Filter) []byte {
		var file bytes.Buffer
		if _, err := audit.Export(&file, open(t, newStored(t, 6, true)), audit.Exporting{Filter: f}); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	blank := forge(t, export(audit.Filter{}), func(r *proof.Record) {
		r.SetBody([]byte(proof.RedactedWhole))
		r.Redacted = []string{"*"}
	}, func(r *proof.Record, row message.RawJSON) message.RawJSON {
		if r.Text != proof.RedactedWhole {
			return row
		}
		short, err := audit.RowOf(r, &proof.Expander{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := strictjson.Marshal(&short)
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	if text, found := verifyText(t, path, blank); !found || !strings.Contains(text, "withheld") {
		t.Errorf("open records were blanked, and verify reports %s", text)
	}
	forged := forge(t, export(audit.Filter{Call: "open", Approver: "ann"}), func(r *proof.Record) {
		r.SetBody(bytes.ReplaceAll(r.Body(), []byte(`"pay"`), []byte(`"look"`)))
	}, func(_ *proof.Record, row message.RawJSON) message.RawJSON {
		return bytes.ReplaceAll(row, []byte(`"pay"`), []byte(`"look"`))
	})
	if !bytes.Contains(bytes.Join(forged, nil), []byte(`look`)) {
		t.Fatal("nothing was changed")
	}
	if text, found := verifyText(t, path, forged); !found {
		t.Errorf("a base was changed, and verify reports %s", text)
	}
}

// An export fails if a record's base cannot be read. It must not leave the record out of a
// selection.
func TestExportReportsUnreadBase(t *testing.T) {
	journal := newStored(t, 6, true)
	journal.fails = errors.New("no answer")
	s := open(t, journal)
	for name, e := range map[string]audit.Exporting{"for the file": {Filter: audit.Filter{Approver: "ann"}}, "for the filter": {Filter: audit.Filter{Tool: "pay"}}, "for the table": {CSV: true}} {
		if name != "for the file" { // the base is not remembered
			s.Records = all(journal.records[3])
		}
		if n, err := audit.Export(io.Discard, s, e); !errors.Is(err, journal.fails) {
			t.Errorf("%s: Export = %d, %v", name, n, err)
		}
	}
}
