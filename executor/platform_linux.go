package executor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup makes the program lead a process group and die with the worker.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits for the program's end without reaping it. It returns false if the kernel
// cannot do that.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// inputSeals prevent this process and the program from changing the input.
const inputSeals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// memoryInput stores b in sealed memory.
func memoryInput(b []byte) (in *os.File, release func(), err error) {
	w, err := newMemory()
	if err != nil {
		return nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	if _, err = w.WriteAt(b, 0); err == nil { // WriteAt leaves the offset at 0
		if _, err = unix.FcntlInt(w.Fd(), unix.F_ADD_SEALS, inputSeals); err != nil {
			err = fmt.Errorf("seal it: %w", err)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	in = readOnly(w)
	return in, func() { _ = in.Close() }, nil // it was only read
}

func newMemory() (*os.File, error) {
	const name, flags = "askance-input", unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// readOnly opens w again for reading only. Without /proc it returns w: the seals refuse
// every write anyway.
func readOnly(w *os.File) *os.File {
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", w.Fd()))
	if err != nil {
		return w
	}
	_ = w.Close() // everything was written
	return r
}
