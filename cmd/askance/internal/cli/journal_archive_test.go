package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// proposeAgain proposes c1 of the reply r1 again and returns the error's code.
func (s *served) proposeAgain(reply, id string) message.Code {
	s.t.Helper()
	_, err := s.bot().Propose(s.t.Context(), toolcall.ProposeRequest{Session: "s1", Reply: message.ReplyID(reply), Calls: []message.ToolCallBlock{{ID: message.CallID(id), Name: "ship", Input: `{"cents":5}`}}})
	if err == nil {
		return ""
	}
	return message.AsError("", err).Code
}

// finish finishes n calls one after the other, each in its own reply. So the last record of the
// journal, which no archive takes, belongs to the last of them.
func (s *served) finish(n int) {
	s.t.Helper()
	bot := s.bot()
	for i := range n {
		reply := message.ReplyID(fmt.Sprint("done", i))
		if code := s.proposeAgain(string(reply), fmt.Sprint("d", i)); code != "" {
			s.t.Fatal(code)
		}
		for done := false; !done; {
			r, err := bot.Wait(s.t.Context(), toolcall.WaitRequest{V: 1, Session: "s1", Reply: reply})
			if err != nil {
				s.t.Fatal(err)
			}
			done = r.Done
		}
	}
}

// An archived call is shown and proved from its file, and every later engine refuses its ids. The
// open call in the same session can still be answered.
func TestJournalArchive(t *testing.T) {
	parallel(t)
	s := audited(t)
	s.finish(3)
	fails(t, cli.ExitUnavailable, ": another process uses it\nhint: stop askance serve first, or start it with --archive-older-than: then", "journal", "archive", "--older-than", "0s", "--data", s.data)
	fails(t, cli.ExitUnavailable, "hint: stop askance serve first\n", "journal", "check", "--data", s.data)
	s.stop()
	fails(t, cli.ExitUsage, "--older-than is missing", "journal", "archive", "--data", s.data)
	fails(t, cli.ExitUsage, "--older-than is negative, use a time such as 30d", "journal", "archive", "--older-than", "-1h", "--data", s.data)
	fails(t, cli.ExitUsage, `--older-than is "30", use a time such as 90s, 12h or 30d`, "journal", "archive", "--older-than", "30", "--data", s.data)
	before := report(t, cli.ExitOK, "--data", s.data)
	if out := ok(t, "journal", "archive", "--older-than", "0s", "--dry-run", "--data", s.data); !strings.Contains(out, "Would archive 2 replies, 2 calls") || strings.Contains(out, " 0.0 ") || !strings.Contains(out, " kB of the journal's ") {
		t.Errorf("a dry run printed\n%s", out)
	}
	if out := ok(t, "journal", "archive", "--older-than", "1h", "--data", s.data); !strings.Contains(out, "No finished reply is old enough") {
		t.Errorf("archive printed\n%s", out)
	}
	done := decode[journal.Archiving](t, ok(t, "journal", "archive", "--older-than", "0s", "--json", "--data", s.data))
	if done.Calls != 2 || len(done.Archives) != 1 { // r1 has an open call, and the last record is kept
		t.Errorf("archived %+v", done)
	}
	after := report(t, cli.ExitOK, "--data", s.data)
	if after.Archived != done.Records || after.NotShown != 0 || after.Records < before.Records {
		t.Errorf("the audit before %+v, after %+v", before, after)
	}
	for _, call := range []string{"s1/done0/d0", "s1/r1/=c2"} {
		if out := ok(t, "show", call, "--data", s.data); !strings.Contains(out, "propose") {
			t.Errorf("show %s printed\n%s", call, out)
		}
	}
	for range 2 {
		s = serveOn(t, s.data)
		for _, id := range []string{"d0", "other"} {
			if code := s.proposeAgain("done0", id); code != message.CodeArchived {
				t.Errorf("%s in an archived reply: %q", id, code)
			}
		}
		if code := s.proposeAgain("r1", "c1"); code != "" {
			t.Errorf("c1 again: %q", code)
		}
		if out := ok(t, "show", "s1/done1/d1", "--data", s.data); !strings.Contains(out, "result") {
			t.Errorf("a running engine shows\n%s", out)
		}
		bot, of := s.bot(), toolcall.WaitRequest{V: 1, Session: "s1", Reply: "done1"}
		if _, err := bot.Wait(t.Context(), of); !errors.Is(err, message.ErrArchived) {
			t.Errorf("a wait for an archived reply: %v", err)
		}
		of.Calls = []message.CallID{"d1"}
		if r, err := bot.Wait(t.Context(), of); err != nil || !r.Done || r.Calls[0].Result == nil {
			t.Errorf("a wait for an archived call: %+v, %v", r, err)
		}
		of.Calls = []message.CallID{"other"}
		if _, err := bot.Wait(t.Context(), of); !errors.Is(err, message.ErrArchived) {
			t.Errorf("a wait for an unknown call of an archived reply: %v", err)
		}
		report(t, cli.ExitOK, "--data", s.data)
		s.stop()
	}
	s = serveOn(t, s.data)
	ok(t, "approve", "=c2", "--yes", "--as", "ann", "--data", s.data)
	s.stop()
	file := filepath.Join(s.data, "archive", done.Archives[0])
	if err := os.Remove(file + ".jsonl.zst"); err != nil {
		t.Fatal(err)
	}
	if rep := report(t, cli.ExitOK, "--data", s.data); rep.NotShown != done.Records || !slices.Equal(rep.Missing, done.Archives) {
		t.Errorf("without the file: %+v", rep)
	}
	if err := os.Remove(file + ".index"); err != nil {
		t.Fatal(err)
	}
	s = serveOn(t, s.data)
	if code := s.proposeAgain("new", "n1"); code != message.CodeUnavailable && code != message.CodeUnknownOutcome { // a reply may be late on a slow machine
		t.Errorf("a new call without the index: %q", code)
	}
	s.stop()
}

// A process that is killed at any step of an archive loses nothing. The next start or archive
// completes the archive or starts over.
func TestJournalArchiveKilled(t *testing.T) {
	cleanEnvironment(t)
	s := audited(t)
	s.finish(150)
	s.stop()
	proofs := filepath.Join("nats", "jetstream", "$G", "streams", "ASKANCE_PROOF_default", "msgs", "1.blk")
	size := func(data string) int64 {
		info, err := os.Stat(filepath.Join(data, proofs))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	has := func(pattern string) func(string, int64) bool {
		return func(data string, _ int64) bool {
			found, err := filepath.Glob(filepath.Join(data, "archive", pattern))
			return err == nil && len(found) > 0
		}
	}
	steps := []struct {
		name string
		come func(data string, proofs int64) bool
	}{
		{"while the file is written", has("*.zst.new")},
		{"after the file exists", has("*.zst")},
		{"after the index exists", has("*.index")},
		{"after the archive is announced", func(data string, before int64) bool { return has("*.index")(data, 0) && size(data) > before }},
	}
	for _, step := range steps {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, engine %t", step.name, restart), func(t *testing.T) {
				data := filepath.Join(t.TempDir(), "data")
				if err := os.CopyFS(data, os.DirFS(s.data)); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(data, "engine.key"), 0o600); err != nil {
					t.Fatal(err)
				}
				ok(t, "audit", "checkpoint", "--data", data)
				before := size(data)
				c := exec.CommandContext(t.Context(), os.Args[0], "journal", "archive", "--older-than", "0s", "--data", data)
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() {
					_ = c.Wait() // it may have been killed
					close(ended)
				}()
				for over := false; !over && !step.come(data, before); {
					select {
					case <-ended: // the command was faster
						over = true
					default:
						runtime.Gosched()
					}
				}
				if err := c.Process.Kill(); err != nil {
					t.Log(err)
				}
				<-ended
				report(t, cli.ExitOK, "--data", data)
				if restart {
					e := serveOn(t, data)
					if code := e.proposeAgain("done7", "d7"); code != "" && code != message.CodeArchived {
						t.Errorf("a finished call again: %q", code)
					}
					e.stop()
				}
				done := decode[journal.Archiving](t, ok(t, "journal", "archive", "--older-than", "0s", "--json", "--data", data))
				t.Logf("%d records were left over, %d were archived", done.Resumed, done.Records)
				rep := report(t, cli.ExitOK, "--data", data)
				if rep.Archived == 0 || rep.NotShown != 0 {
					t.Errorf("the audit: %+v", rep)
				}
				e := serveOn(t, data)
				if code := e.proposeAgain("done7", "d7"); code != message.CodeArchived {
					t.Errorf("an archived call again: %q", code)
				}
				e.stop()
			})
		}
	}
}

// On an existing server the archives are in an object store. Every engine of the space proves and
// shows them and refuses their ids, even after a restored backup.
func TestJournalArchiveOnNATS(t *testing.T) {
	parallel(t)
	old := audited(t)
	old.stop()
	newServer := func() *embed.Server {
		server, err := embed.Start(t.Context(), embed.Options{StoreDir: filepath.Join(t.TempDir(), "nats"), Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		return server
	}
	newHost := func(like string, without ...string) string { // with the same keys, rules and tools
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Dir(like))); err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(dir, "data")
		for _, name := range append(without, "archive", "nats", "anchors", "snapshots", "verified") {
			if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Join(data, "engine.key"), 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return data
	}
	server, one := newServer(), newHost(old.data, "engine.key", "engine.pub") // the keys of an existing journal cannot start another
	there := func(server *embed.Server, data string, args ...string) []string {
		return append(args, "--nats", server.URL(), "--data", data)
	}
	archive := []string{"journal", "archive", "--older-than", "0s", "--json"}
	s := serveOn(t, one, "--nats", server.URL())
	s.finish(3)
	elsewhere := t.TempDir()
	done := decode[journal.Archiving](t, ok(t, append(there(server, elsewhere, archive...), "--keys", filepath.Join(one, "engine.key"))...))
	if code := s.proposeAgain("done0", "d0"); code != "" { // the engine remembers its result
		t.Errorf("an archived call again, in an engine that ran meanwhile: %q", code)
	}
	if code := s.proposeAgain("done0", "other"); code != message.CodeArchived {
		t.Errorf("another call in its reply: %q", code)
	}
	if out := ok(t, there(server, one, "show", "s1/done0/d0")...); !strings.Contains(out, "result") {
		t.Errorf("show, while the engine runs, printed\n%s", out)
	}
	if found, err := os.ReadDir(elsewhere); err != nil || len(found) > 0 {
		t.Errorf("the command left %v, %v in the data folder of a machine without an engine", found, err)
	}
	s.stop()
	if done.Calls != 2 || len(done.Archives) != 1 {
		t.Fatalf("archived %+v", done)
	}
	check := func(server *embed.Server, data string) {
		t.Helper()
		s := serveOn(t, data, "--nats", server.URL())
		defer s.stop()
		if rep := report(t, cli.ExitOK, there(server, data)...); rep.Archived != done.Records || rep.NotShown != 0 {
			t.Errorf("the audit: %+v", rep)
		}
		if code := s.proposeAgain("done0", "d0"); code != message.CodeArchived {
			t.Errorf("an archived call again: %q", code)
		}
		if code := s.proposeAgain("new", "n"); code != "" {
			t.Errorf("a new call: %q", code)
		}
		if out := ok(t, there(server, data, "show", "s1/done0/d0")...); !strings.Contains(out, "result") {
			t.Errorf("show printed\n%s", out)
		}
	}
	check(server, one)
	check(server, newHost(one))
	backup := filepath.Join(t.TempDir(), "backup")
	ok(t, there(server, one, "journal", "backup", backup)...)
	second, third := newServer(), newHost(one)
	ok(t, there(second, third, "journal", "restore", backup)...)
	ok(t, there(second, third, "journal", "accept-loss", "--by", "ann", "--reason", "restored", "--yes")...)
	check(second, third)
	if left, err := os.ReadDir(filepath.Join(third, "archive")); err == nil {
		t.Errorf("the data folder has %v", left)
	}
}

// Files that askance journal archive --nats put into an embedded server are found while no server
// runs: by a backup, an audit and show.
func TestArchivesOfAStoppedServer(t *testing.T) {
	parallel(t)
	s := audited(t)
	s.finish(3)
	keys, err := keyfile.Load(filepath.Join(s.data, "engine.key"))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := bus.Connect(t.Context(), s.url, bus.ConnectOptions{Principal: creds.EngineName})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	j, err := journal.Open(t.Context(), nc, "default", keys, journal.Options{Archives: journal.NewArchiveBucket(nc, "default", nil)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: creds.EngineName, Alone: true}) // else it waits for the engine
	if err != nil {
		t.Fatal(err)
	}
	done, err := l.Archive(t.Context(), journal.Retention{By: "ann"})
	if err != nil || len(done.Archives) != 1 {
		t.Fatalf("archived %+v, %v", done, err)
	}
	s.stop()
	if out := ok(t, "show", "s1/done0/d0", "--data", s.data); !strings.Contains(out, "result") {
		t.Errorf("show printed\n%s", out)
	}
	if rep := report(t, cli.ExitOK, "--data", s.data); rep.Archived != done.Records || rep.NotShown != 0 {
		t.Errorf("the audit: %+v", rep)
	}
	made := decode[journal.Copied](t, ok(t, "journal", "backup", filepath.Join(t.TempDir(), "backup"), "--json", "--data", s.data))
	if !slices.Equal(made.Archives, done.Archives) || len(made.Missing) > 0 {
		t.Errorf("the backup has the archives %v and lacks %v, want %v", made.Archives, made.Missing, done.Archives)
	}
}

// A backup includes the archives. The restored journal proves and shows them, and their ids are
// still refused.
func TestBackupHasArchives(t *testing.T) {
	parallel(t)
	s := audited(t)
	s.finish(3)
	s.stop()
	done := decode[journal.Archiving](t, ok(t, "journal", "archive", "--older-than", "0s", "--json", "--data", s.data))
	s = serveOn(t, s.data)
	backup := filepath.Join(t.TempDir(), "backup")
	fails(t, cli.ExitNotFound, "--data", "journal", "backup", filepath.Join(t.TempDir(), "x"), "--nats", s.url, "--keys", filepath.Join(s.data, "engine.key"), "--data", t.TempDir())
	made := decode[journal.Copied](t, ok(t, "journal", "backup", backup, "--json", "--nats", s.url, "--data", s.data))
	if !slices.Equal(made.Archives, done.Archives) || len(made.Missing) > 0 {
		t.Errorf("the backup has the archives %v and lacks %v, want %v", made.Archives, made.Missing, done.Archives)
	}
	s.stop()
	if r := run(t, "journal", "restore", backup, "--data", t.TempDir()); r.code != cli.ExitOK || !strings.Contains(r.err, "Copy the engine.key") {
		t.Errorf("restore into a folder without keys: exit %d\n%s%s", r.code, r.out, r.err)
	}
	file := filepath.Join(backup, "archive", done.Archives[0]+".index")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(whole[:len(whole)-1]))
	server, err := embed.Start(t.Context(), embed.Options{StoreDir: filepath.Join(t.TempDir(), "nats"), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	data := t.TempDir()
	if err := os.CopyFS(data, os.DirFS(filepath.Dir(s.data))); err != nil { // including keys, rules and tools
		t.Fatal(err)
	}
	data = filepath.Join(data, "data")
	for _, name := range []string{"archive", "nats", "anchors", "snapshots", "verified"} {
		if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(data, "engine.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	there := []string{"--nats", server.URL(), "--data", data}
	restore := append([]string{"journal", "restore", backup}, there...)
	fails(t, cli.ExitDamaged, "the copy of the archive "+done.Archives[0], restore...)
	write(t, file, string(whole))
	if out := ok(t, restore...); !strings.Contains(out, done.Archives[0]) {
		t.Errorf("restore printed\n%s", out)
	}
	ok(t, append([]string{"journal", "accept-loss", "--by", "ann", "--reason", "restored", "--yes"}, there...)...)
	s = serveOn(t, data, "--nats", server.URL())
	if rep := report(t, cli.ExitOK, there...); rep.Archived != done.Records || rep.NotShown != 0 {
		t.Errorf("the audit after the restore: %+v", rep)
	}
	if code := s.proposeAgain("done0", "d0"); code != message.CodeArchived {
		t.Errorf("an archived call again: %q", code)
	}
	if code := s.proposeAgain("new", "n"); code != "" {
		t.Errorf("a new call: %q", code)
	}
	if out := ok(t, append([]string{"show", "s1/done0/d0"}, there...)...); !strings.Contains(out, "propose") {
		t.Errorf("show printed\n%s", out)
	}
}

// Files that no checkpoint announces are removed only if their records exist elsewhere. If a file
// is missing and its records are deleted, the error names it and says what to do.
func TestFilesOfInterruptedArchives(t *testing.T) {
	parallel(t)
	s := audited(t)
	s.finish(3)
	s.stop()
	run := func(data string) journal.Archiving {
		return decode[journal.Archiving](t, ok(t, "journal", "archive", "--older-than", "0s", "--json", "--data", data))
	}
	other := filepath.Join(t.TempDir(), "data") // an archive that is not announced in s.data
	if err := os.CopyFS(other, os.DirFS(s.data)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(other, "engine.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := audited(t)
	foreign.finish(3)
	foreign.stop()
	folder := filepath.Join(s.data, "archive")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	copyTo := func(name, from string) {
		t.Helper()
		for _, end := range []string{".jsonl.zst", ".index"} {
			text, err := os.ReadFile(filepath.Join(from, "archive", name+end))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, name+end), string(text))
		}
	}
	left, strange := run(other).Archives[0], run(foreign.data).Archives[0]
	copyTo(left, other)
	copyTo(strange, foreign.data)
	half, mine := "default-000001-00000000.jsonl.zst.new", "notes.txt"
	write(t, filepath.Join(folder, half), "half")
	write(t, filepath.Join(folder, mine), "mine")
	done := run(s.data)
	if want := []string{half, left + ".index", left + ".jsonl.zst"}; !slices.Equal(slices.Sorted(slices.Values(done.Removed)), slices.Sorted(slices.Values(want))) {
		t.Errorf("removed %v, want %v", done.Removed, want)
	}
	if want := []string{strange + ".index", strange + ".jsonl.zst"}; !slices.Equal(done.Unknown, want) {
		t.Errorf("unknown files: %v, want %v", done.Unknown, want)
	}
	for _, name := range []string{mine, strange + ".index", strange + ".jsonl.zst", done.Archives[0] + ".index", done.Archives[0] + ".jsonl.zst"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	report(t, cli.ExitOK, "--data", s.data)
}

// One machine: a backup while its server runs, restored into a new data folder without another
// server. What the backup lacks is noticed, also without the anchor.
func TestBackupOnOneMachine(t *testing.T) {
	parallel(t)
	s := audited(t)
	s.finish(3)
	nc, err := bus.Connect(t.Context(), s.url, bus.ConnectOptions{Principal: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := journal.OpenPolicyBucket(t.Context(), nc, "default", journal.PolicyBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	ok(t, "journal", "backup", backup, "--data", s.data)
	fails(t, cli.ExitConflict, "the servers already have the stream", "journal", "restore", backup, "--nats", s.url)
	s.stop()
	again := filepath.Join(t.TempDir(), "again")
	ok(t, "journal", "backup", again, "--data", s.data)
	fails(t, cli.ExitConflict, "already has a journal\nhint: restore into a new folder", "journal", "restore", backup, "--data", s.data)
	data := filepath.Join(filepath.Dir(s.data), "restored")
	fails(t, cli.ExitNotFound, "put the engine.key of the backup into it", "journal", "restore", backup, "--data", data)
	another := t.TempDir() // with the keys of another space
	if _, err := keyfile.LoadOrCreate(filepath.Join(another, "engine.key")); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitForbidden, "is not the key file of this backup\nhint: restore into a new folder with the engine.key of the backup; if the space was served with --spaces, put it into "+filepath.Join(another, "spaces", "default")+" first", "journal", "restore", backup, "--data", another)
	key, err := os.ReadFile(filepath.Join(s.data, "engine.key"))
	if err == nil {
		err = os.Mkdir(data, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(data, "engine.key"), string(key))
	if err := os.Chmod(filepath.Join(data, "engine.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "journal", "restore", backup, "--data", data); r.code != cli.ExitOK || !strings.Contains(r.err, "The rules in the bucket ASKANCE_POLICY_default are as old as the backup") || strings.Contains(r.err, "groups") {
		t.Errorf("restore: exit %d\n%s", r.code, r.err)
	}
	fails(t, cli.ExitDamaged, "askance journal accept-loss --data "+data+" --by NAME --reason TEXT\n", "serve", "--data", data, "--http", "off", "--listen", "127.0.0.1:0")
	ok(t, "journal", "accept-loss", "--by", "ann", "--reason", "restored", "--yes", "--data", data)
	report(t, cli.ExitOK, "--data", data) // without engine.pub, which serve writes
	serveOn(t, data, "--policy", filepath.Join(filepath.Dir(s.data), "rules.yaml"), "--tools", filepath.Join(filepath.Dir(s.data), "tools.yaml"))
	if rep := report(t, cli.ExitOK, "--data", data); rep.Records == 0 || len(rep.Findings) > 0 {
		t.Errorf("the audit after the restore: %+v", rep)
	}
}

// A command for a folder whose server was killed does not act on another folder's server, which
// has the recorded address now.
func TestAddressOfAKilledServer(t *testing.T) {
	parallel(t)
	killed := audited(t)
	killed.stop()
	other := serve(t)
	other.propose("r9", "c9", "pay", `{"cents":500}`)
	write(t, filepath.Join(killed.data, "endpoint"), other.url+"\n")
	if out := ok(t, "list", "--data", killed.data); !strings.Contains(out, "c2") || strings.Contains(out, "c9") {
		t.Errorf("list printed\n%s", out)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	ok(t, "journal", "backup", backup, "--data", killed.data)
	text, err := os.ReadFile(filepath.Join(backup, bus.StreamName("default")+".json"))
	if err != nil || strings.Contains(string(text), `"messages":2,`) {
		t.Errorf("the backup is of another journal: %v\n%s", err, text)
	}
	console := filepath.Join(killed.data, "console")
	write(t, console, "http://127.0.0.1:1\n")
	for _, args := range []string{"reject c9 --yes", "open --print", "webhooks list"} {
		fails(t, cli.ExitUnavailable, "no server runs", append(strings.Fields(args), "--data", killed.data)...)
	}
	write(t, filepath.Join(killed.data, "endpoint"), other.url+"\n")
	write(t, console, "http://127.0.0.1:1\n")
	reader, err := node.OpenReader(t.Context(), node.Dir(killed.data), "", "default", "auditor")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	fails(t, cli.ExitUnavailable, "accepts no commands", "reject", "c9", "--yes", "--data", killed.data)
	fails(t, cli.ExitUnavailable, "has no web console", "open", "--print", "--data", killed.data)
}

// A check of a journal that belongs to other keys says so, instead of comparing it.
func TestCheckOfAForeignJournal(t *testing.T) {
	parallel(t)
	mine, foreign := audited(t), audited(t)
	mine.stop()
	foreign.stop()
	stream := filepath.Join("nats", "jetstream", "$G", "streams", bus.StreamName("default"))
	if err := os.RemoveAll(filepath.Join(mine.data, stream)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(mine.data, stream), os.DirFS(filepath.Join(foreign.data, stream))); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitForbidden, "stream ASKANCE_default: belongs to the engine keys", "journal", "check", "--data", mine.data)
}
