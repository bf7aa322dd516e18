package bustest

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Ports that systems give to nobody by themselves. A server that is stopped and
// started again must find its port free, and one of the others may have been
// given to somebody meanwhile: to the listener of another test, or to an
// outgoing connection.
const (
	firstPort = 10_000
	ports     = 10_000
	// portsEach is how far the processes of two tests begin from each other.
	portsEach = 97
)

var lastPort atomic.Uint32

// freeAddress is a loopback address that nobody listens on and that no other
// test of this process was given.
func freeAddress() string {
	for range ports {
		n := uint32(os.Getpid())*portsEach + lastPort.Add(1)
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+n%ports)
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	return "127.0.0.1:0" // no port of these is free
}
