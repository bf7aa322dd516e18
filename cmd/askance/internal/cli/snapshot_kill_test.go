package cli_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// proposeMany proposes calls that are refused at once. They are as many records as a snapshot
// needs to be worthwhile.
func (s *served) proposeMany(prefix string) {
	s.t.Helper()
	for reply := range 51 {
		r := toolcall.ProposeRequest{Session: "many", Reply: message.ReplyID(fmt.Sprint(prefix, reply))}
		for call := range 200 {
			r.Calls = append(r.Calls, message.ToolCallBlock{ID: message.CallID(fmt.Sprint(prefix, reply, "-", call)), Name: "ship", Input: `{}`})
		}
		if _, err := s.bot().Propose(s.t.Context(), r); err != nil {
			s.t.Fatal(err)
		}
	}
}

// waitForSnapshot returns when a process begins to write a new snapshot. Writing it through to the
// disk takes longer than the pause between two looks.
func waitForSnapshot(t *testing.T, file string, before os.FileInfo) {
	t.Helper()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); <-tick.C {
		if _, err := os.Stat(file + ".new"); err == nil {
			return
		}
		if now, err := os.Stat(file); err == nil && (before == nil || !os.SameFile(before, now)) {
			return // the process was faster
		}
	}
	t.Fatal("no snapshot was written")
}

// openCalls returns the open calls by their keys, with the digests of their requests.
func openCalls(t *testing.T, data string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range decode[toolcall.ListReply](t, ok(t, "list", "--state", "asking,pending,submitted", "--json", "--data", data)).Calls {
		out[c.Key.String()] = fmt.Sprint(c.State, c.Input, c.Digest, c.Seq)
	}
	return out
}

// If an engine is killed while it writes its snapshot, the earlier snapshot or none is left. The
// next start has the same open calls and continues.
func TestKilledWhileASnapshotIsWritten(t *testing.T) {
	parallel(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), testRules)
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	data := filepath.Join(dir, "data")
	s, kill := serveProcess(t, data, "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"), "--http", "off", "--durability", "cached")
	for i := range 5 {
		s.propose("open", fmt.Sprint("open", i), "pay", `{"cents":500}`)
	}
	s.proposeMany("first")
	kill()
	want := openCalls(t, data)
	if len(want) != 5 {
		t.Fatalf("the open calls are %v", want)
	}
	file := filepath.Join(data, "snapshots", "default")
	halves, wholes := 0, 0
	for round := 0; round < 3 || halves == 0 && round < 60; round++ {
		if round != 1 { // round 1 starts from the snapshot that round 0 may have left
			if err := os.RemoveAll(file); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := os.Stat(file)   // the file may not exist
		_ = os.Remove(file + ".new") // left by the round before
		s, kill := serveProcess(t, data, "--http", "off", "--durability", "cached")
		if before != nil {
			s.proposeMany("more")
		}
		waitForSnapshot(t, file, before)
		if round > 1 {
			time.Sleep(rand.N(time.Millisecond)) // any moment will do
		}
		kill()
		if _, err := os.Stat(file + ".new"); err == nil {
			halves++
		} else {
			wholes++
		}
		if got := openCalls(t, data); !maps.Equal(got, want) {
			t.Fatalf("round %d: the open calls are %v, want %v", round, got, want)
		}
	}
	t.Logf("killed %d times before the snapshot was renamed, %d times after", halves, wholes)
	if halves == 0 {
		t.Error("no kill came before the snapshot was renamed")
	}
	s = serveOn(t, data)
	ok(t, "approve", "open0", "--yes", "--as", "ann", "--data", data)
	s.stop()
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want = openCalls(t, data)
	for _, n := range []int{0, len(good) / 2} { // as if it had been written in place
		write(t, file, string(good[:n]))
		if got := openCalls(t, data); !maps.Equal(got, want) {
			t.Errorf("with %d of %d bytes of a snapshot: the open calls are %v, want %v", n, len(good), slices.Sorted(maps.Keys(got)), want)
		}
	}
}
