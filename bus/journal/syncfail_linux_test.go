//go:build amd64 || arm64

package journal_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
)

// syncEnv names the folder of the process whose syncs fail.
const syncEnv = "ASKANCE_TEST_SYNC"

// failSyncs makes every later fsync of this process fail as on a faulty disk. It cannot be undone.
func failSyncs() error {
	const (
		load, jumpEqual, answer = 0x20, 0x15, 0x06 // instructions of BPF
		allow, refuse           = 0x7fff0000, 0x00050000 | uint32(syscall.EIO)

		setFilter, everyThread = 1, 1
		noNewPrivileges        = 38
	)
	number := map[string]uintptr{"amd64": 317, "arm64": 277}[runtime.GOARCH] // of seccomp
	filter := []syscall.SockFilter{
		{Code: load}, // the number of the system call
		{Code: jumpEqual, Jt: 1, K: syscall.SYS_FSYNC},
		{Code: jumpEqual, Jf: 1, K: syscall.SYS_FDATASYNC},
		{Code: answer, K: refuse},
		{Code: answer, K: allow},
	}
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.RawSyscall(number, setFilter, everyThread, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

// TestSyncProcess is the process that the other test in this file starts.
func TestSyncProcess(t *testing.T) {
	dir := os.Getenv(syncEnv)
	if dir == "" {
		return
	}
	keys, err := keyfile.LoadOrCreate(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")), bustest.Fsynced())
	b.UseKeys(keys)
	j := b.Journal("test")
	prev := bustest.MustAppend(t, j, bustest.CallRecord("asked", bustest.CallKey("c1"), message.ToolCallAsking, "ask"), 0)
	if err := failSyncs(); err != nil {
		t.Fatal(err)
	}
	_, err = j.Append(t.Context(), bustest.CallRecord("approved", bustest.CallKey("c1"), message.ToolCallAllowed, "approve"), prev)
	fmt.Printf("outcome %v %v\n", errors.Is(err, message.ErrUnknownOutcome), err)
	os.Exit(0) // as if it was killed
}

// The disk accepts a record and then fails to sync it. The next server finds the record, so its writer
// must not have been told that nothing was written.
func TestFailedSyncIsNoRefusal(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSyncProcess$")
	cmd.Env = append(os.Environ(), syncEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "outcome ") {
		t.Fatalf("%v: %s", err, out)
	}
	keys, err := keyfile.LoadOrCreate(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.New(t, bustest.In(filepath.Join(dir, "nats")))
	b.UseKeys(keys)
	last, err := b.Journal("test").Last(t.Context(), bustest.CallKey("c1"))
	if err != nil {
		t.Fatal(err)
	}
	if last.Record.ID != "approved" {
		t.Fatalf("the last record is %s, so the test checks nothing", last.Record.ID)
	}
	if !strings.Contains(string(out), "outcome true ") {
		t.Errorf("the record is stored, and its writer was told %s", out)
	}
}
