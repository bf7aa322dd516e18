package cli_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// audited returns a served journal with a few calls.
func audited(t *testing.T) *served {
	t.Helper()
	s := serve(t)
	s.propose("r1", "c1", "ship", `{"cents":5}`)
	s.propose("r1", "=c2", "pay", `{"cents":500}`)
	s.propose("r1", "c3", "ship", `{"cents":500}`)
	ok(t, "approve", "c3", "--yes", "--as", "ann", "--data", s.data)
	s.finished("c1")
	s.finished("c3")
	return s
}

func report(t *testing.T, code int, args ...string) proof.Report {
	t.Helper()
	r := run(t, append([]string{"audit", "verify", "--json"}, args...)...)
	if r.code != code {
		t.Fatalf("audit verify %v: exit %d, want %d\n%s%s", args, r.code, code, r.out, r.err)
	}
	return decode[proof.Report](t, r.out)
}

func hasFinding(r proof.Report, kind proof.Kind, seq uint64) bool {
	return slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == kind && (seq == 0 || f.Seq == seq) })
}

// A live server, its folder after the stop, and an export all prove the same.
func TestAuditVerify(t *testing.T) {
	parallel(t)
	s := audited(t)
	type signed struct {
		Anchor     string
		Checkpoint proof.Checkpoint
	}
	last := decode[signed](t, ok(t, "audit", "checkpoint", "--json", "--data", s.data))
	live := report(t, cli.ExitOK, "--data", s.data, "--anchor", last.Anchor)
	if live.Uncovered != 0 || live.EventRecords < 7 || live.Chained != live.EventRecords || live.CoverTo != live.Last || live.Anchor.String() != last.Anchor {
		t.Errorf("live: %+v; the checkpoint is %+v", live, last)
	}
	if out := ok(t, "audit", "verify", "--data", s.data); !strings.Contains(out, fmt.Sprintf("Nothing was changed, removed, inserted or reordered from 1 to %d.\nNot proved: that nothing followed", live.Last)) || !strings.Contains(out, last.Anchor) {
		t.Errorf("verify printed\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "journal.jsonl")
	ok(t, "audit", "export", "--output", file, "--data", s.data)
	fails(t, cli.ExitNotFound, "error: open none/x: no such file", "audit", "export", "--output", "none/x", "--data", s.data)
	if r := fails(t, cli.ExitError, "error: replace "+s.data+": ", "audit", "export", "--output", s.data, "--data", s.data); strings.Contains(r.err, ".askance-") {
		t.Errorf("the error names a temporary file:\n%s", r.err)
	}
	key := filepath.Join(s.data, "engine.pub")
	exported := report(t, cli.ExitOK, file, "--key", key, "--anchor", last.Anchor)
	if exported.Records != live.Records || exported.Chained != live.Chained || exported.Anchor != live.Anchor {
		t.Errorf("exported: %+v, live: %+v", exported, live)
	}
	s.propose("r2", "c9", "ship", `{"cents":5}`) // signed when the server stops
	s.stop()
	folder := report(t, cli.ExitOK, "--data", s.data)
	if folder.Uncovered != 0 { // a stop gives up after a second, and the next engine signs the records
		s = serveOn(t, s.data)
		s.propose("r3", "c10", "ship", `{"cents":5}`)
		s.stop()
		folder = report(t, cli.ExitOK, "--full", "--data", s.data)
	}
	if folder.Records <= live.Records || folder.Uncovered != 0 || folder.Checkpoints <= live.Checkpoints {
		t.Errorf("in the folder: %+v, live: %+v", folder, live)
	}
	if again := decode[signed](t, ok(t, "audit", "checkpoint", "--json", "--data", s.data)); again.Checkpoint.Number != folder.Checkpoints {
		t.Errorf("without new records %+v was signed", again)
	}

	// Verifications that must fail.
	other := filepath.Join(t.TempDir(), "other.pub")
	keys, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.WritePublic(other); err != nil {
		t.Fatal(err)
	}
	if r := report(t, cli.ExitFindings, file, "--key", other); !hasFinding(r, proof.BadCheckpoint, 0) || !hasFinding(r, proof.NoCheckpoint, 0) {
		t.Errorf("with another key: %v", r.Findings)
	}
	if r := report(t, cli.ExitFindings, file, "--key", key, "--anchor", "99:"+live.Anchor.Hash.String()); !hasFinding(r, proof.LostCheckpoint, 0) {
		t.Errorf("with another anchor: %v", r.Findings)
	}
	ok(t, "audit", "verify", file, "--key", other, "--key", key)
	if text, err := os.ReadFile(file); err != nil {
		t.Fatal(err)
	} else if r := runWith(t, string(text), "audit", "verify", "-", "--key", key); r.code != cli.ExitOK || r.out != ok(t, "audit", "verify", file, "--key", key) {
		t.Errorf("standard input: exit %d\n%s%s", r.code, r.out, r.err)
	} else if r := runWith(t, strings.Replace(string(text), `"tool_name":"ship"`, `"tool_name":"shop"`, 1), "audit", "verify", "-", "--key", key); r.code != cli.ExitFindings || !strings.Contains(r.out, "its summary in the export does not match it") || strings.Contains(r.out, "no engine wrote") {
		t.Errorf("with a changed summary of a record that another one follows: exit %d\n%s%s", r.code, r.out, r.err)
	}
	fails(t, cli.ExitNotFound, "pass the engine's public key with --key", "audit", "verify", file, "--data", t.TempDir())
	fails(t, cli.ExitNotFound, "no such file", "audit", "verify", "nowhere.jsonl", "--key", key)
	fails(t, cli.ExitUsage, "use NUMBER:sha256:HEX", "audit", "verify", "--anchor", "7")
}

// Without a server, a verification begins where the last one ended and says so. If the journal
// lacks records, all records are read.
func TestAuditVerifyContinues(t *testing.T) {
	parallel(t)
	s := audited(t)
	s.stop()
	if r := report(t, cli.ExitOK, "--data", s.data); r.Earlier != nil || r.Records < 7 {
		t.Errorf("the first: %+v", r)
	}
	again := run(t, "audit", "verify", "--data", s.data)
	for _, want := range []string{"not read again", "--full reads all records again", "There is nothing new to verify."} {
		if again.code != cli.ExitOK || !strings.Contains(again.out, want) {
			t.Errorf("exit %d, want %q in\n%s%s", again.code, want, again.out, again.err)
		}
	}
	whole := ok(t, "audit", "verify", "--full", "--data", s.data)
	if strings.Contains(whole, "not read again") || !strings.Contains(whole, "Nothing was changed, removed, inserted or reordered from 1 to ") {
		t.Errorf("--full printed\n%s", whole)
	}
	remembered := filepath.Join(s.data, "verified", "default")
	good, err := os.ReadFile(remembered)
	if err != nil {
		t.Fatal(err)
	}
	write(t, remembered, strings.Replace(string(good), `"seq":`, `"seq":9`, 1))
	if r := run(t, "audit", "verify", "--data", s.data); r.code != cli.ExitOK || !strings.Contains(r.err, "Reading all records: ") || strings.Contains(r.out, "not read again") {
		t.Errorf("with a damaged file: exit %d\n%s%s", r.code, r.out, r.err)
	}
	if r := report(t, cli.ExitOK, "--data", s.data); r.Earlier == nil {
		t.Error("the file was not written again")
	}
	deleteStored(t, s.data, 3)
	if r := report(t, cli.ExitFindings, "--data", s.data); r.Earlier != nil || !hasFinding(r, proof.Removed, 3) {
		t.Errorf("after a deletion: %+v", r)
	}
	if _, err := os.Stat(remembered); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a verification with findings is remembered: %v", err)
	}
}

// deleteStored removes a record from a data folder without a server.
func deleteStored(t *testing.T, data string, seq uint64) {
	t.Helper()
	server, err := embed.Start(t.Context(), embed.Options{StoreDir: filepath.Join(data, "nats")})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	nc, err := server.Connect(t.Context(), bus.ConnectOptions{Principal: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err == nil {
		err = js.SecureDeleteMsg(bus.StreamName("default"), seq)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Each way to tamper with an export is reported with its sequence and its call.
func TestAuditFindsTampering(t *testing.T) {
	cleanEnvironment(t)
	s := audited(t)
	ok(t, "audit", "checkpoint", "--data", s.data)
	lines := strings.SplitAfter(ok(t, "audit", "export", "--data", s.data), "\n")
	lines = lines[:len(lines)-1] // drop the empty part after the last line feed
	key := filepath.Join(s.data, "engine.pub")
	// The second event record of c3, in which ann approves it, is neither first nor last.
	at := slices.IndexFunc(lines, func(l string) bool {
		return strings.Contains(l, `"tool_call_id":"c3"`) && strings.Contains(l, `"kind":"start"`)
	})
	if at < 0 {
		t.Fatalf("no start of c3 in\n%s", strings.Join(lines, ""))
	}
	seq := uint64(at) // the first line is the head
	another := func(line string) string { return strings.Replace(line, `\"ann\"`, `\"eve\"`, 1) }
	if another(lines[at]) == lines[at] {
		t.Fatalf("the record does not say who approved c3: %s", lines[at])
	}
	tests := []struct {
		kind proof.Kind
		do   func(l []string) []string
	}{
		{proof.Changed, func(l []string) []string { l[at] = another(l[at]); return l }},
		{proof.Removed, func(l []string) []string { return slices.Delete(l, at, at+1) }},
		{proof.Inserted, func(l []string) []string {
			return slices.Insert(l, at, another(l[at]))
		}},
		{proof.Reordered, func(l []string) []string { l[at], l[at-1] = l[at-1], l[at]; return l }},
		{proof.Truncated, func(l []string) []string { return l[:len(l)-1] }},
		{proof.RolledBack, func(l []string) []string {
			l[0] = regexp.MustCompile(`"last_seq":\d+`).ReplaceAllString(l[0], `"last_seq":1`)
			return append(l[:at], l[len(l)-2:]...)
		}},
		{proof.BadCheckpoint, func(l []string) []string {
			l[len(l)-2] = strings.Replace(l[len(l)-2], `\"records\":`, `\"records\":1`, 1)
			return l
		}},
	}
	for _, tc := range tests {
		t.Run(string(tc.kind), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "journal.jsonl")
			write(t, file, strings.Join(tc.do(slices.Clone(lines)), ""))
			r := report(t, cli.ExitFindings, file, "--key", key)
			if !hasFinding(r, tc.kind, 0) {
				t.Fatalf("found %v, want %s", r.Findings, tc.kind)
			}
			if tc.kind == proof.Changed && (!hasFinding(r, tc.kind, seq) || r.Findings[0].Call != "s1/r1/c3") {
				t.Errorf("found %v, want it at %d of s1/r1/c3", r.Findings, seq)
			}
			out := run(t, "audit", "verify", file, "--key", key)
			if !strings.Contains(out.out, string(tc.kind)) || !strings.Contains(out.err, "finding") {
				t.Errorf("verify printed\n%s%s", out.out, out.err)
			}
		})
	}
}

// A journal that was deleted is lost, unlike one that never was.
func TestAuditOfADeletedJournal(t *testing.T) {
	parallel(t)
	s := audited(t)
	s.stop()
	store := filepath.Join(s.data, "nats")
	if err := os.RemoveAll(filepath.Join(store, "jetstream", "$G", "streams", bus.StreamName("default"))); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitDamaged, "is gone, but its anchor file", "audit", "verify", "--data", s.data)
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitNotFound, "if the folder "+store+" was deleted, restore a backup", "audit", "verify", "--data", s.data)
}

// A first start that fails, such as at a port in use, leaves no journal, and none was lost.
func TestListAfterAFailedFirstStart(t *testing.T) {
	parallel(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	data := filepath.Join(t.TempDir(), "data")
	fails(t, cli.ExitUnavailable, "another process listens", "serve", "--data", data, "--listen", l.Addr().String(), "--http", "off")
	fails(t, cli.ExitNotFound, "there is no journal of the space default here", "list", "--data", data)
}

// The deletion of a record from the stream of a live server is found.
func TestAuditFindsDeletion(t *testing.T) {
	parallel(t)
	s := audited(t)
	ok(t, "audit", "checkpoint", "--data", s.data)
	nc, err := bus.Connect(t.Context(), s.url, bus.ConnectOptions{Principal: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), bus.StreamName("default"))
	if err != nil {
		t.Fatal(err)
	}
	s.damaged.Store(true)
	if err := st.DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if r := report(t, cli.ExitFindings, "--data", s.data); !hasFinding(r, proof.Removed, 3) || !strings.HasPrefix(r.Findings[0].Call, "s1/r1/") {
		t.Errorf("found %v", r.Findings)
	}
}

func TestAuditExport(t *testing.T) {
	parallel(t)
	s := audited(t)
	rows := func(args ...string) [][]string {
		t.Helper()
		all, err := csv.NewReader(strings.NewReader(ok(t, append([]string{"audit", "export", "--format", "csv", "--data", s.data}, args...)...))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return all[1:]
	}
	every := rows()
	col := func(name string) int {
		head := strings.Split(strings.SplitN(ok(t, "audit", "export", "--format", "csv", "--data", s.data), "\n", 2)[0], ",")
		return slices.Index(head, name)
	}
	call, votes := col("tool_call_id"), col("votes")
	if !slices.ContainsFunc(every, func(r []string) bool { return r[call] == "'=c2" }) || slices.ContainsFunc(every, func(r []string) bool { return r[call] == "=c2" }) {
		t.Error("a name that begins with = can be read as a formula")
	}
	for _, tc := range []struct {
		args []string
		want int // records; -1: some, but not all
		ok   func(r []string) bool
	}{
		{[]string{"--call", "c3"}, -1, func(r []string) bool { return r[call] == "c3" }},
		{[]string{"--approver", "ann"}, -1, func(r []string) bool { return strings.Contains(r[votes], "approve ann (NATS, not authenticated)") }},
		{[]string{"--approver", "bob"}, 0, nil},
		{[]string{"--tool", "pay"}, 1, func(r []string) bool { return r[call] == "'=c2" }},
		{[]string{"--state", "asking"}, 2, func([]string) bool { return true }},
		{[]string{"--cause", "approve", "--cause", "result"}, -1, func([]string) bool { return true }},
		{[]string{"--session", "other"}, 0, nil},
		{[]string{"--reply", "r1", "--session", "s1"}, -1, func(r []string) bool { return r[col("reply_id")] == "r1" }},
		{[]string{"--until", "2020-01-01T00:00:00Z"}, 0, nil},
		{[]string{"--since", "24h"}, len(every), func([]string) bool { return true }},
		{[]string{"--since", "2020-01-01T00:00:00Z", "--until", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, len(every), func([]string) bool { return true }},
	} {
		got := rows(tc.args...)
		if tc.want >= 0 && len(got) != tc.want || tc.want < 0 && (len(got) == 0 || len(got) >= len(every)) {
			t.Errorf("%v: %d of %d records", tc.args, len(got), len(every))
		}
		for _, r := range got {
			if !tc.ok(r) {
				t.Errorf("%v: %q", tc.args, r)
			}
		}
	}
	ok(t, "audit", "checkpoint", "--data", s.data)
	file := filepath.Join(t.TempDir(), "part.jsonl")
	ok(t, "audit", "export", "--tool", "ship", "--output", file, "--data", s.data)
	if r := report(t, cli.ExitOK, file, "--data", s.data); !r.Partial || r.Records == 0 || r.Records >= uint64(len(every)) {
		t.Errorf("a selection: %+v", r)
	}
	if text := ok(t, "audit", "verify", file, "--data", s.data); strings.Contains(text, "removed") {
		t.Errorf("the verification of a selection says that nothing was removed:\n%s", text)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(string(b), `\\\"cents\\\":5`, `\\\"cents\\\":6`, 1))
	if r := report(t, cli.ExitFindings, file, "--data", s.data); !hasFinding(r, proof.Changed, 0) {
		t.Errorf("a changed selection: %v", r.Findings)
	}
	fails(t, cli.ExitUsage, "use jsonl or csv", "audit", "export", "--format", "xml")
	fails(t, cli.ExitUsage, "or a time such as", "audit", "export", "--since", "yesterday")
	fails(t, cli.ExitUsage, "use pending", "audit", "export", "--state", "asked")
	fails(t, cli.ExitUsage, "did you mean approve?", "audit", "export", "--cause", "aprove")
	fails(t, cli.ExitUsage, "expected one folder", "journal", "backup", "a", "b")
	fails(t, cli.ExitUsage, "expected at most one rule", "policy", "show", "a", "b")
	fails(t, cli.ExitUsage, `unknown command "verfy"`, "audit", "verfy")
}

// Who verifies a journal before its first checkpoint reads how to sign it.
func TestVerifyBeforeTheFirstCheckpoint(t *testing.T) {
	cleanEnvironment(t)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"), "--checkpoint-every", "24h")
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	if r := run(t, "audit", "verify", "--data", s.data); r.code != cli.ExitFindings || !strings.Contains(r.out, "Sign them now with askance audit checkpoint, then verify again. If it was signed before, its checkpoints are missing: do not sign.\n") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	export := filepath.Join(t.TempDir(), "journal.jsonl")
	ok(t, "audit", "export", "--data", s.data, "--output", export)
	if r := run(t, "audit", "verify", export, "--key", filepath.Join(s.data, "engine.pub")); r.code != cli.ExitFindings || strings.Contains(r.out, "Sign them now") {
		t.Errorf("of an export: exit %d\n%s%s", r.code, r.out, r.err)
	}
	ok(t, "audit", "checkpoint", "--data", s.data)
	ok(t, "audit", "verify", "--data", s.data)
}

// A receipt proves a call anywhere. A changed receipt is refused.
func TestAuditReceipt(t *testing.T) {
	parallel(t)
	s := audited(t)
	file := filepath.Join(t.TempDir(), "c3.receipt")
	ok(t, "audit", "receipt", "c3", "--output", file, "--data", s.data)
	key := filepath.Join(s.data, "engine.pub")
	out := ok(t, "audit", "check", file, "--key", key)
	for _, want := range []string{"s1/r1/c3 ship, finished", "approve by approver ann (NATS, not authenticated)", "Proved: the engine recorded exactly these steps", "Not proved: that the tool did", `{"cents":500}`, "result    success sha256:"} {
		if !strings.Contains(out, want) {
			t.Errorf("check does not print %q:\n%s", want, out)
		}
	}
	c := decode[struct {
		Records int `json:"event_records"`
		Ended   bool
		Whole   bool `json:"from_the_beginning"`
		Story   proof.Story
	}](t, ok(t, "audit", "check", file, "--key", key, "--json"))
	if c.Records < 3 || !c.Ended || !c.Whole || len(c.Story.Votes) != 1 || len(c.Story.Requests) == 0 {
		t.Errorf("check = %+v", c)
	}
	if out := ok(t, "audit", "check", "--data", s.data, temporary(t, ok(t, "audit", "receipt", "=c2", "--data", s.data))); !strings.Contains(out, "how the call ended: it was still open") {
		t.Errorf("check of an open call printed\n%s", out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{":500}", ":501}"}, {`"ann"`, `"bob"`}, {`approve`, `reject`}, {"sha256:", "sha256:0"}, {`"v":1`, `"v":2`}} {
		if !strings.Contains(string(b), change[0]) {
			t.Fatalf("no %s in the receipt", change[0])
		}
		r := run(t, "audit", "check", temporary(t, strings.Replace(string(b), change[0], change[1], 1)), "--key", key)
		if r.code != cli.ExitForbidden && r.code != cli.ExitUsage {
			t.Errorf("with %s for %s: exit %d\n%s", change[1], change[0], r.code, r.out)
		}
	}
	// From the folder, after the server has stopped.
	s.stop()
	if r := runWith(t, ok(t, "audit", "receipt", "c3", "--data", s.data), "audit", "check", "-", "--key", key); r.code != cli.ExitOK {
		t.Errorf("standard input: exit %d\n%s", r.code, r.err)
	}
	fails(t, cli.ExitNotFound, "no call has the id c99", "audit", "receipt", "c99", "--data", s.data)
}

// temporary writes a new file and returns its path.
func temporary(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, text)
	return path
}

// Records that a key signed before it was retired stay proved, and the next key continues, even if
// the key is retired where the clock is behind that of the engine.
func TestAuditAcrossKeys(t *testing.T) {
	parallel(t)
	s := audited(t)
	ok(t, "audit", "checkpoint", "--data", s.data)
	before := temporary(t, ok(t, "audit", "receipt", "c3", "--data", s.data))
	first := decode[keyList](t, ok(t, "keys", "rotate", "--json", "--data", s.data)).Keys[0].ID
	synctest.Test(t, func(t *testing.T) { // its clock is decades behind
		ok(t, "keys", "retire", first, "--data", s.data)
	})
	signer := first
	for n := 0; signer == first; n++ { // the running engine notices it within a second
		s.propose("r2", fmt.Sprint("k", n), "ship", `{"cents":5}`)
		signer = decode[struct{ Checkpoint proof.Checkpoint }](t, ok(t, "audit", "checkpoint", "--json", "--data", s.data)).Checkpoint.KeyID
	}
	if r := report(t, cli.ExitOK, "--data", s.data); r.Chained != r.EventRecords || r.Checkpoints < 2 {
		t.Errorf("verify = %+v", r)
	}
	ok(t, "audit", "check", before, "--data", s.data)
	ok(t, "audit", "check", temporary(t, ok(t, "audit", "receipt", "k0", "--data", s.data)), "--data", s.data)
}

// A server that is killed repeatedly while it signs loses no part of the proof, and the next
// server continues.
func TestAuditSurvivesKills(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), testRules)
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	data := filepath.Join(dir, "data")
	for life := range 3 {
		s, kill := serveProcess(t, data, "--durability", "cached",
			"--checkpoint-every", "1ms", "--checkpoint-records", "1", "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"))
		bot := s.bot()
		for i := range 15 {
			if _, err := bot.Propose(t.Context(), toolcall.ProposeRequest{V: 1, Session: "s1", Reply: message.ReplyID(fmt.Sprint("r", life)), Calls: []message.ToolCallBlock{{ID: message.CallID(fmt.Sprint("c", i)), Name: "pay", Input: `{"cents":500}`}}}); err != nil {
				t.Fatal(err)
			}
		}
		kill()
		if r := report(t, cli.ExitOK, "--full", "--data", data); r.Checkpoints == 0 || r.EventRecords < uint64(15*(life+1)) || r.Chained != r.EventRecords {
			t.Errorf("after kill %d: %+v", life+1, r)
		}
	}
	ok(t, "audit", "checkpoint", "--data", data)
	if r := report(t, cli.ExitOK, "--full", "--data", data); r.Uncovered != 0 || r.Checkpoints < 3 {
		t.Errorf("after the last kill: %+v", r)
	}
}
