package e2e_test

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// receiptsEach is the number of calls of each tool for which a receipt is made.
const receiptsEach = 2

// proved verifies everything with the command that auditors use. The journal must be what engines
// wrote, with each event record in its chain and covered by a checkpoint, despite all kills. The
// outcome of calls must be provable with files only.
func (w *world) proved() {
	w.t.Helper()
	at := []string{"--nats", w.url, "--space", string(space), "--as", "auditor"}
	w.audit(append([]string{"checkpoint"}, at...)...)
	out := w.audit(append([]string{"verify", "--json", "--key", w.file("engine.pub")}, at...)...)
	var r proof.Report
	if err := strictjson.Unmarshal([]byte(out), &r); err != nil {
		w.t.Fatalf("audit verify: %v\n%s", err, out)
	}
	if !r.OK || r.EventRecords == 0 || r.Chained != r.EventRecords || r.Checkpoints == 0 || r.CoverFrom != 1 { // the journal may grow meanwhile
		w.t.Errorf("audit verify: %+v", r)
	}
	w.tally.checkpoints = int(r.Checkpoints)
	made := map[string]int{}
	for _, c := range w.obs.all() {
		if !struckOnce(w.obs.history(c.Key)) || made[c.Tool] >= receiptsEach {
			continue
		}
		made[c.Tool]++
		w.receipt(c, at)
	}
	if len(made) == 0 {
		w.t.Error("no call was ever started, so no receipt was made")
	}
}

// struckOnce reports whether the call was started, so that a kill could hit it.
func struckOnce(records []toolcall.JournalEntry) bool {
	for _, r := range records {
		if took(r.Record, toolcall.CauseStart) {
			return true
		}
	}
	return false
}

// receipt makes the receipt of a call that has ended, and checks it without a server.
func (w *world) receipt(c *toolcall.Call, at []string) {
	w.t.Helper()
	file := w.file("call.receipt")
	w.audit(append([]string{"receipt", keyPath(c.Key), "--output", file}, at...)...)
	out := w.audit("check", file, "--json", "--key", w.file("engine.pub"))
	var checked proof.Checked
	if err := strictjson.Unmarshal([]byte(out), &checked); err != nil || !checked.Ended || !checked.Whole || checked.Key != c.Key || checked.Story.State != c.State || checked.Story.ResultDigest != c.ResultDigest {
		w.t.Errorf("%s: the receipt proves something else: %v\n%s", describe(c), err, out)
	}
	if err := os.Remove(file); err != nil {
		w.t.Error(err)
	}
}

// audit runs the audit command until an engine answers, and checks that it succeeds.
func (w *world) audit(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		out, errs, err := command(ctx, append([]string{"audit"}, args...)...)
		if err == nil {
			return out
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), "exit status 5") { // try later
			w.t.Errorf("askance audit %v: %v\n%s%s", args, err, out, errs)
			return out
		}
		<-time.After(100 * ms)
	}
}
