package executor

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the program lead a process group, and die with the worker.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// pPID is waitid's P_PID, which package syscall does not have.
const pPID = 1

// awaitEnd waits for the program's end without reaping it. It reports false
// where the kernel cannot do that.
func awaitEnd(pid int) bool {
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
