package bustest

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Ports that systems do not assign. A restarted server must find its port free, but the
// system could meanwhile assign another port to a listener or a connection.
const (
	firstPort = 10_000
	ports     = 10_000
	// portsEach is the distance between the first ports of two test processes.
	portsEach = 97
)

var lastPort atomic.Uint32

// FreeAddress returns a loopback address without a listener that no other test of this process
// received.
func FreeAddress() string {
	for range ports {
		n := uint32(os.Getpid())*portsEach + lastPort.Add(1)
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+n%ports)
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	return "127.0.0.1:0" // none of these ports is free
}
