package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// noted is one line of a transcript: what an actor or the campaign itself did, with the outcome.
type noted struct {
	At    time.Time `json:"at"`
	Who   string    `json:"who"`
	Did   string    `json:"did"`
	On    string    `json:"on,omitzero"` // the process, reply, call or rule
	Turn  int       `json:"turn,omitzero"`
	Calls []ackNote `json:"calls,omitzero"` // as an engine returned them
	Error string    `json:"error,omitzero"`
	// Seed and MS in the first line are those of the campaign. AfterMS and MS of a planned strike
	// are its beginning and its duration.
	Seed    uint64 `json:"seed,omitzero"`
	AfterMS int64  `json:"after_ms,omitzero"`
	MS      int64  `json:"ms,omitzero"`
}

// ackNote is a state that was acknowledged.
type ackNote struct {
	Key     toolcall.Key          `json:"key"`
	Tool    string                `json:"tool"`
	Seq     uint64                `json:"seq"`
	State   message.ToolCallState `json:"state"`
	Cause   string                `json:"cause"`
	Records int                   `json:"records"`
	Bytes   int                   `json:"input_bytes"`
}

func ackNotes(calls []*toolcall.Call) []ackNote {
	var out []ackNote
	for _, c := range calls {
		out = append(out, ackNote{Key: c.Key, Tool: c.Tool, Seq: c.Seq, State: c.State, Cause: c.Cause, Records: c.Records, Bytes: len(c.Input)})
	}
	return out
}

// call is the acknowledged state for [verifier.acknowledged].
func (a ackNote) call() *toolcall.Call {
	return &toolcall.Call{Key: a.Key, Tool: a.Tool, Seq: a.Seq, State: a.State, Cause: a.Cause, Records: a.Records}
}

// notebook is a file of notes. Each note is a single write, so that a kill cannot split it.
type notebook struct {
	who  string
	mu   sync.Mutex // guards file
	file *os.File
}

const notesEnd = ".notes.jsonl"

func openNotebook(dir, who string) (*notebook, error) {
	f, err := os.OpenFile(filepath.Join(dir, who+notesEnd), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &notebook{who: who, file: f}, err
}

func (b *notebook) note(n noted) error {
	n.At, n.Who = time.Now().UTC(), b.who
	line, err := strictjson.Marshal(n)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err = b.file.Write(append(line, '\n'))
	return err
}

// readNotes returns the notes of one file, none if there is no file.
func readNotes(path string) ([]noted, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []noted
	for line := range bytes.Lines(data) {
		var n noted
		if err := strictjson.Unmarshal(line, &n); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, n)
	}
	return out, nil
}

// readTranscript returns all notes of a folder, in the order of their times.
func readTranscript(dir string) ([]noted, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+notesEnd))
	if err != nil {
		return nil, err
	}
	var out []noted
	for _, f := range files {
		notes, err := readNotes(f)
		if err != nil {
			return nil, err
		}
		out = append(out, notes...)
	}
	slices.SortStableFunc(out, func(a, b noted) int { return a.At.Compare(b.At) })
	return out, nil
}

// keepTranscript writes the transcript of a failed test to a file that remains after it.
func keepTranscript(t testing.TB, dir string) {
	if !t.Failed() {
		return
	}
	notes, err := readTranscript(dir)
	if err != nil {
		t.Error(err)
	}
	f, err := os.CreateTemp("", "askance-campaign-*.jsonl") //nolint:usetesting // the file must remain after the test
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for _, n := range notes {
		line, err := strictjson.Marshal(n)
		if err == nil {
			_, err = f.Write(append(line, '\n'))
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
	t.Errorf("the transcript has %d lines; make campaign REPLAY=%s repeats its strikes", len(notes), f.Name())
}

// An actor may write notes before the campaign notes its seed.
func TestSeedOfTranscript(t *testing.T) {
	path := filepath.Join(t.TempDir(), "transcript.jsonl")
	lines := `{"at":"2026-01-01T00:00:00Z","who":"runtime-a","did":"begin","on":"r0"}
{"at":"2026-01-01T00:00:01Z","who":"campaign","did":"campaign","seed":9,"ms":12000}
`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := seedOf("", path); err != nil || n != 9 {
		t.Errorf("seed %d, %v, want 9", n, err)
	}
	if _, err := seedOf("", path+".missing"); err == nil {
		t.Error("a missing transcript has a seed")
	}
}
