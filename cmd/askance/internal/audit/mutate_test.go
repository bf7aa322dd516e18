package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// newSigned is a journal of an open call, one with hidden arguments and an event,
// whose first records are signed.
func newSigned(t testing.TB, through int) *audit.Source {
	t.Helper()
	var records []proof.Record
	last := map[string]proof.Record{}
	add := func(subject, tree string, body []byte) {
		r := proof.Record{Seq: uint64(len(records) + 1), Time: at, Subject: "askance.v1.test." + subject, Entity: tree, Header: map[string][]string{"Nats-Msg-Id": {fmt.Sprint("f", len(records))}}}
		r.Header[proof.HeaderShown] = []string{proof.MarkOf(proof.Shown(body, tree != "", nil))}
		r.SetBody(body)
		records, last[tree] = append(records, r), r
	}
	for i := range 2 {
		for _, id := range []message.CallID{"open", "hidden"} {
			f := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: fmt.Sprint("f", len(records)), At: at, Engine: "e", Prev: &toolcall.Link{}, By: toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot", Auth: "nats-jwt"}}
			f.Path = []toolcall.Step{{Cause: "ask", From: message.ToolCallPending, To: message.ToolCallAsking}}
			f.Call = &toolcall.Call{Key: toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: id}, Tool: "pay", Input: `{"cents":5,"secret":"hush"}`, State: message.ToolCallAsking, Records: i + 1}
			if id == "hidden" {
				f.Call.Redact = []string{"args.secret"}
			}
			if before, ok := last[string(id)]; ok {
				f.Prev = proof.LinkTo(before.Seq, before.Leaf())
				f.Call.Votes = []toolcall.Vote{{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann", Auth: "nats-jwt"}, At: at}}
			}
			b, err := strictjson.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			add("record.s1.r1."+string(id)+".f", string(id), b)
		}
	}
	add("event.bot.s1.r1", "", []byte(`{"type":"TOOL_CALL_DELTA","delta":"hush"}`))
	add("event.bot.s1.r1", "", []byte(`{"type":"TEXT"}`))
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
	return &audit.Source{Space: "test", First: 1, Last: uint64(len(records)), Records: all(records...), Checkpoints: all(checkpoint)}
}

func all(records ...proof.Record) func() iter.Seq2[proof.Record, error] {
	return func() iter.Seq2[proof.Record, error] {
		return func(yield func(proof.Record, error) bool) {
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// verifyText is everything that an export tells a verifier: the report, and
// the records but for when the server stored them, which nothing proves.
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
	var read proof.Expander
	for r, err := range s.Records() {
		if err != nil {
			return err.Error(), true
		}
		row := audit.RowOf(&r, &read)
		row.StoredAt, r.Time = time.Time{}, time.Time{}
		out = append(out, row, string(r.Body()))
	}
	b, err := strictjson.Marshal(append(out, report))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), false
}

// Any change, removal, addition or move in an export is found, or the
// export tells what it told.
func TestExportMutations(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		through int // is signed
		filter  audit.Filter
		lines   []int // every member of them is changed; each kind of line once
	}{
		"signed":      {6, audit.Filter{}, []int{0, 3, 4, 5, 6, 7, 8}},
		"in part":     {3, audit.Filter{}, []int{0, 5, 7, 8}},
		"a selection": {6, audit.Filter{Session: "s1", Call: "hidden"}, []int{0, 1, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var file bytes.Buffer
			if _, err := audit.Export(&file, newSigned(t, tc.through), audit.Exporting{Filter: tc.filter}); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			lines := bytes.SplitAfter(bytes.TrimSuffix(file.Bytes(), []byte("\n")), []byte("\n"))
			lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
			want, found := verifyText(t, path, lines)
			if found {
				t.Fatalf("the export itself: %s", want)
			}
			tried, caught := 0, 0
			try := func(what string, changed [][]byte) {
				got, found := verifyText(t, path, changed)
				tried++
				if found {
					caught++
				} else if got != want {
					t.Errorf("%s is not found, and the export tells\n%s", what, got)
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
				t.Errorf("of %d mutations %d were found", tried, caught)
			}
		})
	}
}
