// Package link is a TCP proxy that simulates a network cable in tests: it can cut, hold and
// slow down the connections that go through it.
package link

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Fault is what is wrong with the cable. The zero value passes everything on at once.
type Fault struct {
	Cut   bool          // connections break, and new ones end at once
	Held  bool          // connections stay open, but no data passes
	Delay time.Duration // of each piece of data
	Rate  int           // bytes per second; 0: no limit
}

// piece is how many bytes are passed on at a time.
const piece = 32 << 10

// Link forwards connections to a target.
type Link struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu      sync.Mutex // guards what follows
	fault   Fault
	changed chan struct{} // closed when fault changes
	conns   map[net.Conn]chan struct{}
	closed  bool
}

// New returns a Link that listens on one address and forwards to another.
func New(listen, target string) (*Link, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	out := &Link{listener: l, target: target, changed: make(chan struct{}), conns: map[net.Conn]chan struct{}{}}
	out.wg.Go(out.accept)
	return out, nil
}

// Addr returns the address on which the link listens.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Set changes the fault of the cable.
func (l *Link) Set(f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
	close(l.changed)
	l.changed = make(chan struct{})
	if f.Cut {
		l.cut()
	}
}

// cut ends all connections. l.mu is held.
func (l *Link) cut() {
	for c, gone := range l.conns {
		_ = c.Close() // its pump ends with the error
		close(gone)
		delete(l.conns, c)
	}
}

// Close ends all connections and stops listening.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.cut()
	l.mu.Unlock()
	err := l.listener.Close()
	l.wg.Wait()
	return err
}

func (l *Link) accept() {
	for {
		c, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			l.wg.Go(func() { l.connect(c) })
		}
	}
}

// connect forwards a connection to the target until either side ends.
func (l *Link) connect(c net.Conn) {
	gone := l.enter(c)
	if gone == nil {
		_ = c.Close() // the other side sees it
		return
	}
	t, err := net.DialTimeout("tcp", l.target, time.Second)
	if err != nil {
		l.leave(c)
		return
	}
	var back sync.WaitGroup
	back.Go(func() { l.pump(c, t, gone); l.leave(c); _ = t.Close() })
	l.pump(t, c, gone)
	l.leave(c)
	_ = t.Close()
	back.Wait()
}

// enter returns a channel that is closed when the connection is cut, or nil if the link is
// cut or closed.
func (l *Link) enter(c net.Conn) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.fault.Cut {
		return nil
	}
	gone := make(chan struct{})
	l.conns[c] = gone
	return gone
}

func (l *Link) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gone, ok := l.conns[c]; ok {
		close(gone)
		delete(l.conns, c)
		_ = c.Close() // its pump ends with the error
	}
}

// pump passes data on until the connection ends.
func (l *Link) pump(to, from net.Conn, gone <-chan struct{}) {
	buf := make([]byte, piece)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !l.pass(n, gone) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits as long as n bytes need, and reports whether they arrive.
func (l *Link) pass(n int, gone <-chan struct{}) bool {
	for {
		l.mu.Lock()
		f, changed := l.fault, l.changed
		l.mu.Unlock()
		var late <-chan time.Time
		switch wait := f.Delay + f.travel(n); {
		case f.Held:
		case wait == 0:
			return true
		default:
			late = time.After(wait)
		}
		select {
		case <-late:
			return true
		case <-changed: // start again with the new fault
		case <-gone:
			return false
		}
	}
}

// travel returns how long n bytes need at the rate of the link.
func (f Fault) travel(n int) time.Duration {
	if f.Rate <= 0 {
		return 0
	}
	return time.Duration(n) * time.Second / time.Duration(f.Rate)
}
