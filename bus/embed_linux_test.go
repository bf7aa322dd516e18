package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/nats-io/nats.go"
)

// A service can use the lock that root has made in its folder.
func TestLockOfRoot(t *testing.T) {
	if os.Geteuid() != 0 { // others give no files away
		return
	}
	const user = 65532
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	lock, err := embed.Lock(path, "the folder", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Close(), os.Chown(dir, user, user)); err != nil {
		t.Fatal(err)
	}
	if lock, err = embed.Lock(path, "the folder", ""); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != user { //nolint:forcetypeassert // of this system
		t.Errorf("the lock belongs to %d", uid)
	}
}

// A user who cannot read the lock of a folder is not told that no process uses it.
func TestInUseOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	lock, err := embed.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(filepath.Join(dir, "askance.lock"), 0)); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if os.Geteuid() == 0 { // root can read all files
			_ = syscall.Setfsuid(65532)
		}
		done <- embed.InUse(dir)
	}()
	if !<-done {
		t.Error("the folder counts as free")
	}
}

// resolveTo makes every name of this process an IPv4 name with these addresses. Lookups of names
// with "hanging" have no answer.
func resolveTo(t *testing.T, addresses ...net.IP) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		in := make([]byte, 512)
		for {
			_, from, err := server.ReadFrom(in)
			if err != nil {
				return
			}
			asked := in[12 : 12+bytes.IndexByte(in[12:], 0)+5]
			if bytes.Contains(asked, []byte("hanging")) {
				continue
			}
			out := slices.Concat(in[:2], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, asked)
			if asked[len(asked)-3] == 1 { // A
				out[7] = byte(len(addresses))
				for _, ip := range addresses {
					out = append(append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4), ip.To4()...)
				}
			}
			_, _ = server.WriteTo(out, from) // the resolver asks again
		}
	}()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// An address of a name where the server is silent leaves time for the name's other addresses.
func TestConnectPassesOverASilentAddress(t *testing.T) {
	b := bustest.New(t, bustest.Listening())
	at, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(b.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 2), Port: at.Port}).String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var dialed atomic.Bool
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			dialed.Store(true)
		}
	}()
	resolveTo(t, net.IPv4(127, 0, 0, 2), at.IP)
	for n := 0; !dialed.Load() && n < 100; n++ { // the order of the addresses is random
		nc, err := bus.Connect(t.Context(), fmt.Sprintf("nats://nats.example.:%d", at.Port), bus.ConnectOptions{Principal: "p"})
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	}
	if !dialed.Load() {
		t.Error("the silent address was never dialed")
	}
	back := make(chan struct{}, 1)
	nc, err := bus.Connect(t.Context(), fmt.Sprintf("nats://nats.example.:%d", at.Port), bus.ConnectOptions{Principal: "p", Extra: []nats.Option{
		nats.Timeout(2 * time.Second), nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-back:
	case <-time.After(time.Minute):
		t.Error("a lost connection was not restored")
	}
}

// A server whose name cannot be looked up leaves time for the others.
func TestConnectPassesOverAHangingLookup(t *testing.T) {
	b := bustest.New(t, bustest.Listening())
	resolveTo(t, net.IPv4(127, 0, 0, 1))
	_, port, _ := strings.Cut(strings.TrimPrefix(b.URL(), "nats://"), ":")
	nc, err := bus.Connect(t.Context(), "nats://hanging.example.:4222,nats://nats.example.:"+port, bus.ConnectOptions{Principal: "p"})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}
