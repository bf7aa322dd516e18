package audit_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/cmd/askance/internal/audit"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// source returns records with these bodies, one call each.
func source(bodies ...string) *audit.Source {
	return &audit.Source{
		Space: "test", First: 1, Last: uint64(len(bodies)),
		Records: func(uint64) iter.Seq2[proof.Record, error] {
			return func(yield func(proof.Record, error) bool) {
				for i, b := range bodies {
					r := proof.Record{Seq: uint64(i + 1), Subject: fmt.Sprintf("askance.v1.test.record.s1.r1.c%d.f", i)}
					r.SetBody([]byte(b))
					r.Header = map[string][]string{proof.HeaderShown: {proof.MarkOf(proof.Shown(r.Body(), true, nil))}}
					if !yield(r, nil) {
						return
					}
				}
			}
		},
		Checkpoints: func(uint64) iter.Seq2[proof.Record, error] { return func(func(proof.Record, error) bool) {} },
	}
}

func record(t testing.TB, id, tool string) string {
	t.Helper()
	b, err := strictjson.Marshal(&toolcall.EventRecord{V: toolcall.RecordVersion, ID: id, Call: &toolcall.Call{Key: toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: message.CallID(id)}, Tool: tool, Input: `{"secret":"x"}`}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// For any name, no CSV cell begins a formula, and each cell reads back.
func TestCSVHasNoFormulas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tool := rapid.StringMatching("[=+\\-@ \t\r\n\u00a0\uff1d\"',;a-z0-9|!]{0,12}").Draw(t, "tool")
		b, err := strictjson.Marshal(&toolcall.EventRecord{V: toolcall.RecordVersion, ID: "f", Call: &toolcall.Call{Key: toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: "c"}, Tool: tool}})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := audit.Export(&out, source(string(b)), audit.Exporting{CSV: true}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&out).ReadAll()
		if err != nil || len(rows) != 2 || len(rows[0]) != len(rows[1]) {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for i, cell := range rows[1] {
			text := strings.TrimLeft(cell, " \u00a0\t\r\n")
			if text != "" && strings.ContainsAny(text[:1], "=+-@") || strings.HasPrefix(text, "\uff1d") {
				t.Fatalf("%s is %q", rows[0][i], cell)
			}
		}
		if cell := rows[1][7]; strings.TrimPrefix(cell, "'") != strings.TrimPrefix(strings.ReplaceAll(tool, "\r\n", "\n"), "'") {
			t.Fatalf("the tool %q became %q", tool, cell)
		}
	})
}

// A value that a rule hides is nowhere in an export, and the record is proved by the hash of its
// original body.
func TestRedaction(t *testing.T) {
	hidden := record(t, "f1", "pay")
	hidden = strings.Replace(hidden, `"input":`, `"redact":["args.secret"],"input":`, 1)
	hidden = strings.ReplaceAll(hidden, `\"x\"`, `\"hush\"`)
	src := source(hidden, record(t, "f2", "look"), `{"v":3,"from_the_future":"hush"}`)
	var out bytes.Buffer
	n, err := audit.Export(&out, src, audit.Exporting{})
	if err != nil || n != 3 {
		t.Fatalf("Export = %d, %v", n, err)
	}
	if strings.Contains(out.String(), "hush") || strings.Count(out.String(), `"body_hash":`) != 2 || !strings.Contains(out.String(), `"args.secret"`) {
		t.Errorf("the export is\n%s", out.String())
	}
	path := filepath.Join(t.TempDir(), "x.jsonl")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	back, err := audit.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var leaves []proof.Hash
	for r, err := range src.Records(0) {
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, r.Leaf())
	}
	i := 0
	for r, err := range back.Records(0) {
		if err != nil || r.Leaf() != leaves[i] || r.Invalid != "" {
			t.Errorf("record %d has a different leaf: %+v, %v", i+1, r, err)
		}
		i++
	}
}

// An export is written while its source is read, so memory does not grow with it.
func TestExportStreams(t *testing.T) {
	body := record(t, "f", "look")
	var out countingWriter
	read := 0
	src := source()
	src.Records = func(uint64) iter.Seq2[proof.Record, error] {
		return func(yield func(proof.Record, error) bool) {
			for i := range 5000 {
				if read++; read-out.lines > 2000 {
					t.Errorf("%d records were read and %d lines written", read, out.lines)
					return
				}
				r := proof.Record{Seq: uint64(i + 1), Subject: "askance.v1.test.record.s1.r1.c.f"}
				r.SetBody([]byte(body))
				if !yield(r, nil) {
					return
				}
			}
		}
	}
	if n, err := audit.Export(&out, src, audit.Exporting{}); err != nil || n != 5000 || out.lines != 5002 {
		t.Errorf("Export = %d, %v; %d lines", n, err, out.lines)
	}
	errBroken := errors.New("broken")
	src.Records = func(uint64) iter.Seq2[proof.Record, error] {
		return func(yield func(proof.Record, error) bool) { yield(proof.Record{}, errBroken) }
	}
	if _, err := audit.Export(&out, src, audit.Exporting{}); !errors.Is(err, errBroken) {
		t.Errorf("Export of a failing source: %v", err)
	}
}

type countingWriter struct{ lines int }

func (w *countingWriter) Write(b []byte) (int, error) {
	w.lines += bytes.Count(b, []byte("\n"))
	return len(b), nil
}

func TestOpenFileRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "no JSON": "rubbish\n", "another version": `{"type":"export","v":2}` + "\n", "no head": `{"type":"end"}` + "\n",
	} {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := audit.OpenFile(path); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}

// Reading any file ends, and every record has a position.
func FuzzLines(f *testing.F) {
	var out bytes.Buffer
	if _, err := audit.Export(&out, source(record(f, "f1", "pay"), "rubbish"), audit.Exporting{}); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add([]byte(`{"type":"export","v":1}` + "\n" + `{"type":"record"}` + "\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "x.jsonl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := audit.OpenFile(path)
		if err != nil {
			return
		}
		if _, err := s.Verify(proof.Options{Keys: toolcall.KeySet{}}); err != nil && err.Error() == "" {
			t.Fatal("an error without a text")
		}
	})
}
