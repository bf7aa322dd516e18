//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processTime returns the processor time of this process; 0 if it cannot be read.
func processTime() (user, system time.Duration) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}
