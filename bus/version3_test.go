package bus_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// recordTo makes a new recorded journal in an empty folder. The one in testdata stays as it
// is: journals of users depend on how it is read.
var recordTo = flag.String("record-journal", "", "folder to record a journal of this version into")

// The first was recorded when the record of an edit had the whole call.
const (
	recorded3      = "testdata/version3"
	recorded3Edits = "testdata/version3edits"
)

// Every stored record is read as the complete record that was written: what a reader derives never
// changes.
func TestJournalOfVersion3IsRead(t *testing.T) {
	w := readRecorded(t, recorded3, map[message.CallID]string{"done": "3333", "edited": "3333", "hidden": "3333", "asked": "3", "many": "3333333", "started": "33"})
	w.engineOf(storedSpace(), bus.ServiceOptions{})
	ann, ops := w.client(toolcall.RoleApprover, "ann"), w.client(toolcall.RoleOperator, "ops")
	rep, err := ops.Show(t.Context(), toolcall.ShowRequest{Key: bustest.CallKey("asked")})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("asked"), Digest: rep.Call.Digest, Kind: toolcall.ResponseApprove}); err != nil || c.Open() != true {
		t.Errorf("approve asked: %+v, %v", c, err)
	}
	if _, err := w.worker(job, "wk").Result(t.Context(), toolcall.ResultRequest{Key: bustest.CallKey("started"), Attempt: 1, Claim: "claim-started", Result: success("started", job, "done")}); err != nil {
		t.Errorf("the result of started: %v", err)
	}
}

func TestEditsOfVersion3AreRead(t *testing.T) {
	readRecorded(t, recorded3Edits, map[message.CallID]string{"edited": "3333", "again": "33333", "hidden": "3333", "shown": "33333", "late": "333"})
}

// readRecorded compares a recorded journal with what was written, and proves it with a
// receipt of each call; want has the versions of its records.
func readRecorded(t *testing.T, folder string, want map[message.CallID]string) *world {
	t.Helper()
	w := restoreRecorded(t, folder)
	j := w.Journal("test")
	written, err := os.ReadFile(filepath.Join(folder, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	got := bytes.Split(wholeRecords(t, j), []byte("\n"))
	for i, line := range bytes.Split(written, []byte("\n")) {
		if i >= len(got) || !bytes.Equal(got[i], line) {
			t.Fatalf("line %d reads as\n%s\nand was written as\n%s", i+1, got[min(i, len(got)-1)], line)
		}
	}
	l := bustest.LedgerOf(t, j)
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := bustest.VerifyWith(t, l, toolcall.NewKeySet(w.Keys().Public())); !r.OK {
		t.Errorf("it is not proved: %v", r.Findings)
	}
	for id, want := range want {
		if got := versions(t, l, id); got != want {
			t.Errorf("the restored records of %s have the versions %s, want %s", id, got, want)
		}
		receiptOf(t, w, l, id)
	}
	return w
}

// wholeRecords returns the event records of the journal as their writers had them, one on each line.
func wholeRecords(t *testing.T, j *journal.Journal) []byte {
	t.Helper()
	var out []byte
	records, _, err := j.Read(t.Context(), toolcall.Key{Space: "test", Session: "s1"}, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Invalid != nil {
			t.Fatalf("record %d: %v", r.Seq, r.Invalid)
		}
		line, err := strictjson.Marshal(r.Record)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, line...), '\n')
	}
	return out
}

// TestRecordJournal records calls whose records are of different kinds.
func TestRecordJournal(t *testing.T) {
	if *recordTo == "" {
		return // only makes testdata
	}
	s := newRecorder(t, storedSpace())
	w := s.world
	ctx := t.Context()
	propose := func(id, tool, input string) *toolcall.Call {
		t.Helper()
		r, err := s.bot.Propose(ctx, toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{toolCall(id, tool, input)}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Calls[0]
	}
	respond := func(c *toolcall.Call, who string, resp toolcall.Response) *toolcall.Call {
		t.Helper()
		resp.Key, resp.Digest = c.Key, c.Digest
		c, err := w.client(toolcall.RoleApprover, who).SubmitResponse(ctx, resp)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	yes := toolcall.Response{Kind: toolcall.ResponseApprove}
	work := func(id, tool, result string) { s.work(path{tool: tool, result: result}, id) }
	respond(propose("done", askedJob, `{"n":1}`), "ann", yes)
	work("done", askedJob, "done")
	other, answer := `{"n":3}`, "42"
	respond(propose("edited", askedJob, `{"n":2}`), "ann", toolcall.Response{Kind: toolcall.ResponseApprove, Input: &other})
	work("edited", askedJob, "<&> é")
	respond(propose("hidden", hiddenJob, `{"pin":"4711-0815","n":1}`), "ann", yes)
	work("hidden", hiddenJob, "done")
	respond(propose("rejected", askedJob, `{}`), "ann", toolcall.Response{Kind: toolcall.ResponseReject, Feedback: "not now"})
	respond(propose("answered", askedJob, `{}`), "ann", toolcall.Response{Kind: toolcall.ResponseRespond, Output: answer})
	many := propose("many", askedJob, `{"n":4}`)
	for _, who := range []string{"ann", "bob", "eve"} {
		respond(many, who, toolcall.Response{Kind: toolcall.ResponseSkip})
	}
	respond(many, "tom", toolcall.Response{Kind: toolcall.ResponseApprove, Rules: many.Suggested})
	work("many", askedJob, "done")
	propose("local", echo, `{"n":6}`)
	finished(t, s.bot, "local")
	respond(propose("paid", pay, `{"n":7}`), "ann", yes)
	finished(t, s.bot, "paid")
	outer := propose("outer", outside, `{"n":8}`)
	if _, err := s.bot.Report(ctx, toolcall.ReportRequest{Key: outer.Key, Result: message.ToolResultBlock{ID: "outer", Name: outside, State: message.ToolResultError, Output: message.List(&message.TextBlock{Text: "out"}), Metadata: map[string]any{"n": 1.5}}}); err != nil {
		t.Fatal(err)
	}
	propose("unfit", "unknown", `{}`)
	propose("large", job, `{"s":"`+string(bytes.Repeat([]byte("x"), 5000))+`"}`)
	work("large", job, "done")
	started := propose("started", job, `{"n":9}`)
	task := next(t, w.worker(job, "wk"))
	if _, err := w.worker(job, "wk").Start(ctx, toolcall.StartRequest{Key: started.Key, Attempt: 1, Claim: "claim-started", Nonce: task.Record.Call.Attempt.Grant.Nonce}); err != nil {
		t.Fatal(err)
	}
	if err := task.Ack(ctx); err != nil {
		t.Fatal(err)
	}
	// A late result is a note.
	_, _ = w.worker(askedJob, "wk").Result(ctx, toolcall.ResultRequest{Key: bustest.CallKey("done"), Attempt: 1, Claim: "another", Result: success("done", askedJob, "late")})
	if _, err := s.bot.Propose(ctx, toolcall.ProposeRequest{Session: "s1", Reply: "r2", Calls: []message.ToolCallBlock{toolCall("gone", askedJob, `{}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.bot.Interrupt(ctx, toolcall.InterruptRequest{Session: "s1", Reply: "r2"}); err != nil {
		t.Fatal(err)
	}
	propose("asked", hiddenJob, `{"pin":"4711-0815"}`)
	s.record()
}

// TestRecordEdits records edits: allowed at once, asked about again, and with hidden
// arguments before and after.
func TestRecordEdits(t *testing.T) {
	if *recordTo == "" {
		return // only makes testdata
	}
	s := newRecorder(t, editedSpace())
	edit := func(id message.CallID, tool, input, edited string, approvals int, retry bool) {
		t.Helper()
		r, err := s.bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{toolCall(string(id), tool, input)}})
		if err != nil {
			t.Fatal(err)
		}
		c, resp := r.Calls[0], toolcall.Response{Kind: toolcall.ResponseApprove, Input: &edited}
		for i := range approvals {
			resp.Key, resp.Digest = c.Key, c.Digest
			if c, err = s.client(toolcall.RoleApprover, []string{"ann", "bob"}[i]).SubmitResponse(t.Context(), resp); err != nil {
				t.Fatal(err)
			}
			resp.Input = nil
		}
		if !retry {
			s.work(path{tool: tool, result: "done"}, string(id))
		}
	}
	edit("edited", askedJob, `{"n":1}`, `{"n":2}`, 1, false)
	edit("again", againJob, `{"n":1}`, `{"n":2}`, 2, false)
	edit("hidden", hiddenJob, `{"pin":"4711-0815"}`, `{"pin":"4711-0816"}`, 1, false)
	edit("shown", secretJob, `{"pin":"4711-0815","n":1}`, `{"n":1}`, 2, false)
	edit("late", againJob, `{"n":1}`, `{"n":2}`, 2, true)
	s.record()
}

func newRecorder(t *testing.T, sp space) *storedWorld {
	t.Helper()
	keys, err := journal.LoadOrCreateSpaceKeys(filepath.Join(*recordTo, "keys.json"), filepath.Join(t.TempDir(), "anchor"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.UseKeys(keys)
	w.engineOf(sp, bus.ServiceOptions{})
	return &storedWorld{world: w, t: t, bot: w.client(toolcall.RoleRuntime, "bot"), ann: w.client(toolcall.RoleApprover, "ann")}
}

// record writes what was recorded.
func (s *storedWorld) record() {
	t, w, ctx := s.t, s.world, s.t.Context()
	t.Helper()
	j := w.Journal("test")
	if _, err := bustest.LedgerOf(t, j).Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*recordTo, "records.jsonl"), wholeRecords(t, j), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.BackUp(ctx, w.Conn("engine"), "test", w.Keys(), filepath.Join(*recordTo, "backup"), nil); err != nil {
		t.Fatal(err)
	}
}
