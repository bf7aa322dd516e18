package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message/proof"
)

// An operator sees what is missing, accepts the loss, and restarts. An audit reports the loss
// before it is accepted, and shows it afterwards.
func TestJournalCommands(t *testing.T) {
	parallel(t)
	s := audited(t)
	fails(t, cli.ExitUnavailable, "another process uses", "journal", "check", "--data", s.data)
	s.stop()
	if out := ok(t, "journal", "check", "--data", s.data); !strings.Contains(out, "Nothing is missing.") {
		t.Errorf("check printed\n%s", out)
	}
	fails(t, cli.ExitConflict, "has no loss", "journal", "accept-loss", "--by", "ann", "--reason", "none", "--yes", "--data", s.data)
	block := filepath.Join(s.data, "nats", "jetstream", "$G", "streams", "ASKANCE_default", "msgs", "1.blk")
	info, err := os.Stat(block)
	if err == nil {
		err = os.Truncate(block, info.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitDamaged, "is damaged", "serve", "--data", s.data, "--listen", "127.0.0.1:0", "--http", "off")
	fails(t, cli.ExitDamaged, "is damaged", "approve", "c2", "--yes", "--offline", "--data", s.data)
	x := run(t, "journal", "check", "--json", "--data", s.data)
	if exam := decode[journal.Exam](t, x.out); x.code != cli.ExitDamaged || exam.OK || len(exam.Flaws) == 0 || len(exam.Lost) == 0 {
		t.Errorf("check: exit %d, %+v", x.code, exam)
	}
	report(t, cli.ExitFindings, "--data", s.data)
	fails(t, cli.ExitUsage, "--by or --reason is missing", "journal", "accept-loss", "--data", s.data, "--yes")
	fails(t, cli.ExitUsage, "--yes", "journal", "accept-loss", "--by", "ann", "--reason", "disk", "--data", s.data)
	if out := ok(t, "journal", "accept-loss", "--by", "ann", "--reason", "disk failed", "--yes", "--data", s.data); !strings.Contains(out, "The loss is accepted.") {
		t.Errorf("accept-loss printed\n%s", out)
	}
	if rep := report(t, cli.ExitOK, "--data", s.data); len(rep.Losses) != 1 || rep.Losses[0].Reason != "disk failed" || rep.Explained == 0 {
		t.Errorf("the audit after the loss was accepted: %+v", rep)
	}
	if out := ok(t, "audit", "verify", "--data", s.data); !strings.Contains(out, "disk failed") {
		t.Errorf("verify printed\n%s", out)
	}
	ok(t, "journal", "check", "--data", s.data)
}

// Only the anchor knows of the unsigned end. An audit of the folder reports that it is missing
// and does not claim that nothing was changed.
func TestAuditKnowsTheAnchor(t *testing.T) {
	parallel(t)
	s := audited(t)
	s.stop()
	for _, name := range []string{"ASKANCE_default", "ASKANCE_PROOF_default"} { // restore the state of a day before
		dir := filepath.Join(s.data, "nats", "jetstream", "$G", "streams", name, "msgs")
		if err := os.Truncate(filepath.Join(dir, "1.blk"), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "index.db")); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t, "audit", "verify", "--json", "--data", s.data)
	rep := decode[proof.Report](t, r.out)
	if r.code != cli.ExitFindings || !hasFinding(rep, proof.RolledBack, 0) {
		t.Errorf("exit %d, %+v", r.code, rep.Findings)
	}
}

// An anchor file that was removed is shown until the engine starts again with the new one.
func TestRemovedAnchorIsShown(t *testing.T) {
	parallel(t)
	s := audited(t)
	s.stop()
	if err := os.RemoveAll(filepath.Join(s.data, "anchors")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		s = serveOn(t, s.data)
		for _, command := range []string{"status", "doctor"} {
			if r := run(t, command, "--data", s.data); strings.Contains(r.out, "no anchor file when the engine started") != want {
				t.Errorf("%s, with the new anchor shown: %t\n%s%s", command, want, r.out, r.err)
			}
		}
		s.stop()
	}
}
