package link

import (
	"bufio"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// echo answers each line with itself.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				for s := bufio.NewScanner(c); s.Scan(); {
					if _, err := c.Write(append(s.Bytes(), '\n')); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestLink(t *testing.T) {
	l, err := New("127.0.0.1:0", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c, bufio.NewReader(c)
	}
	send := func(c net.Conn) {
		if _, err := c.Write([]byte("hello\n")); err != nil {
			t.Fatal(err)
		}
	}
	c, in := dial()
	send(c)
	if got, err := in.ReadString('\n'); err != nil || got != "hello\n" {
		t.Fatalf("%q, %v", got, err)
	}
	l.Set(Fault{Cut: true})
	if _, err := in.ReadByte(); err == nil {
		t.Error("a connection outlives the cut")
	}
	if c, in := dial(); c != nil {
		if _, err := in.ReadByte(); err == nil {
			t.Error("a new connection passes through a cut link")
		}
	}
	l.Set(Fault{})
	c, in = dial()
	send(c)
	if got, err := in.ReadString('\n'); err != nil || got != "hello\n" {
		t.Errorf("after the cut %q, %v", got, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("a connection outlives its link")
	}
}

func TestPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Link{changed: make(chan struct{}), fault: Fault{Delay: time.Second, Rate: 1000}}
		began := time.Now()
		if !l.pass(500, nil) || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("500 bytes took %s, want a delay of 1s and 500ms at 1000 bytes a second", time.Since(began))
		}
		l.Set(Fault{Held: true})
		passed := make(chan bool, 1)
		go func() { passed <- l.pass(500, nil) }()
		synctest.Wait()
		time.Sleep(time.Hour)
		if len(passed) > 0 {
			t.Error("data passes through a held link")
		}
		l.Set(Fault{})
		if !<-passed {
			t.Error("the held data does not arrive")
		}
	})
}
