package bustest

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Ports that systems do not assign. A restarted server must find its port free; the
// system could assign another port to a listener or a connection meanwhile.
const (
	firstPort = 10_000
	ports     = 10_000
	// portsEach is how far the processes of two tests begin from each other.
	portsEach = 97
)

var lastPort atomic.Uint32

// freeAddress is a loopback address without a listener, which no other test of this
// process got.
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
