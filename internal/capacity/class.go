// Package capacity divides what a server can do at once: between classes of operations, and
// within a class between the principals that send requests.
//
// Reading a long list must never delay a decision, and new proposals must never delay a
// response or a result, so each class has its own limits. One principal may use at most half
// of each limit, and principals with waiting requests take turns. A request beyond a limit is
// refused at once: no caller of this package ever blocks on a full class.
package capacity

import (
	"runtime"

	"github.com/askance-dev/askance/message/api"
)

// Limit bounds one class. One principal may use half of each number.
type Limit struct {
	Run     int // requests that run at once
	Running int // bytes of requests that run at once: large ones use the processor
	Stay    int // requests that wait, run or rest at the same time
	Bytes   int // bytes of these requests, and of replies that a peer has not read
}

const mib = 1 << 20

// Default returns the limits of each class. Reads use the processor, so few run at once: a
// decision then waits for few of them.
func Default() map[api.Class]Limit {
	procs := runtime.GOMAXPROCS(0)
	running := max(2, procs) * mib
	return map[api.Class]Limit{
		api.ClassStop:    {Run: 32, Running: running, Stay: 1024, Bytes: 16 * mib},
		api.ClassPropose: {Run: 64, Running: running, Stay: 4096, Bytes: 64 * mib},
		api.ClassDecide:  {Run: 64, Running: running, Stay: 4096, Bytes: 64 * mib},
		api.ClassWork:    {Run: 256, Running: running, Stay: 8192, Bytes: 64 * mib},
		api.ClassRead:    {Run: max(2, procs), Running: running, Stay: 1024, Bytes: 64 * mib},
		api.ClassWait:    {Run: max(4, 2*procs), Running: running, Stay: 4096, Bytes: 64 * mib},
		api.ClassOffer:   {Run: 4096, Running: running, Stay: 4096, Bytes: 16 * mib},
	}
}
