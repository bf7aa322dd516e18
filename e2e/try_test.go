//go:build unix

package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestTryCluster starts the trial cluster as a person would, backs it up, kills one of its servers,
// and ends it with Ctrl-C. No process is left running.
func TestTryCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := 31_000 + 9*(freePort(t)%100) // nine ports in a row, beyond those of the other tests
	p := newProcess(t, dir, "try", "Ctrl-C ends all of it",
		"env", "ASKANCE="+bin.askance, "NATS_SERVER="+bin.nats, "PORT="+strconv.Itoa(port), "../deploy/cluster/try.sh", filepath.Join(dir, "data"))
	p.start()
	p.up()
	url := "nats://127.0.0.1:" + strconv.Itoa(port)
	isReady := func(n int) bool {
		reply, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://127.0.0.1:" + strconv.Itoa(port+6+n) + "/readyz")
		if err != nil {
			return false
		}
		_ = reply.Body.Close()
		return reply.StatusCode == http.StatusOK
	}
	for n := range 3 {
		eventually(t, "engine "+strconv.Itoa(n)+" is ready", func() bool { return isReady(n) })
	}
	text, err := os.ReadFile(p.out)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, m := range regexp.MustCompile(`process (\d+)`).FindAllSubmatch(text, -1) {
		pid, _ := strconv.Atoi(string(m[1]))
		pids = append(pids, pid)
	}
	if len(pids) != 6 {
		t.Fatalf("the script names %d processes, want 6:\n%s", len(pids), text)
	}
	if out, errs, err := command(t.Context(), "journal", "backup", filepath.Join(dir, "backup"), "--nats", url, "--keys", filepath.Join(dir, "data", "engine.key")); err != nil {
		t.Errorf("backup: %v\n%s%s", err, out, errs)
	}
	if err := syscall.Kill(pids[5], syscall.SIGKILL); err != nil { // nats-2
		t.Fatal(err)
	}
	for n := range 3 {
		eventually(t, "engine "+strconv.Itoa(n)+" is ready without nats-2", func() bool { return isReady(n) })
	}
	p.stop()
	for _, pid := range pids {
		eventually(t, "process "+strconv.Itoa(pid)+" has ended", func() bool { return syscall.Kill(pid, 0) != nil })
	}
}
