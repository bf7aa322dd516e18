package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

func TestStartServerRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, tc := range []struct {
		name string
		o    embed.Options
		want error
	}{
		{"no folder", embed.Options{}, message.ErrInvalid},
		{"a file in the way", embed.Options{StoreDir: file}, embed.ErrStoreUnwritable},
		{"a folder below a file", embed.Options{StoreDir: filepath.Join(file, "x")}, embed.ErrStoreUnwritable},
		{"a read-only folder", embed.Options{StoreDir: "/proc/askance"}, embed.ErrStoreUnwritable},
		{"an unknown durability", embed.Options{StoreDir: dir, Durability: "hopeful"}, message.ErrInvalid},
		{"quorum of one", embed.Options{StoreDir: dir, Durability: journal.DurabilityQuorum}, message.ErrInvalid},
		{"a negative limit", embed.Options{StoreDir: dir, MaxStore: -1}, message.ErrInvalid},
		{"a bad address", embed.Options{StoreDir: dir, Listen: "localhost"}, message.ErrInvalid},
		{"a busy port", embed.Options{StoreDir: dir, Listen: busy.Addr().String()}, message.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := embed.Start(t.Context(), tc.o)
			if err == nil {
				s.Close()
			}
			if e := message.AsError("", err); !errors.Is(err, tc.want) || e.Hint == "" {
				t.Errorf("%v, want %v with a hint", err, tc.want)
			}
		})
	}
	// A failed start unlocks the folder.
	s, err := embed.Start(t.Context(), embed.Options{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := embed.Start(t.Context(), embed.Options{StoreDir: dir}); !errors.Is(err, embed.ErrStoreLocked) || !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("a second server on the folder: %v", err)
	}
}

func TestServerClose(t *testing.T) {
	dir := t.TempDir()
	s, err := embed.Start(t.Context(), embed.Options{StoreDir: dir, Listen: ":0"})
	if err != nil {
		t.Fatal(err)
	}
	if url := s.URL(); !strings.HasPrefix(url, "nats://127.0.0.1:") {
		t.Errorf("listens on %q, want loopback", url)
	}
	if err := s.Health(); err != nil {
		t.Error(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(s.Close)
	}
	wg.Wait()
	s.Close()
	again, err := embed.Start(t.Context(), embed.Options{StoreDir: dir})
	if err != nil {
		t.Fatalf("the folder is not free after Close: %v", err)
	}
	if again.URL() != "" {
		t.Error("a server without Listen has a URL")
	}
	if again.Durability() != journal.DurabilityFsynced {
		t.Errorf("the default durability is %s", again.Durability())
	}
	again.Close()
}

func TestServerUsers(t *testing.T) {
	runtime := toolcall.Principal{Role: toolcall.RoleRuntime, Name: "rt"}
	b := bustest.New(t, bustest.Listening(), bustest.With(func(o *embed.Options) {
		o.Users = []embed.User{{Name: "rt", Password: "secret", Permissions: bus.PermissionsFor("test", runtime)}}
	}))
	b.Journal("test") // in the process, with every right
	for _, o := range []bus.ConnectOptions{{Principal: "rt"}, {Principal: "rt", User: "rt", Password: "wrong"}} {
		if _, err := bus.Connect(t.Context(), b.URL(), o); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("login with %q: %v, want forbidden", o.Password, err)
		}
	}
	nc, err := bus.Connect(t.Context(), b.URL(), bus.ConnectOptions{Principal: "rt", User: "rt", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m := nats.NewMsg("askance.v1.test.record.s1.r1.c1.f")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := nc.RequestMsgWithContext(ctx, m); err == nil {
		t.Error("a runtime published an event record")
	}
	if info, _ := bustest.Stream(t, b).Info(t.Context()); info.State.LastSeq != 0 {
		t.Error("the event record was stored")
	}
}

func TestConnectRefuses(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never speaks
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	const closed = "127.0.0.1:1" // the system does not assign this port
	for _, tc := range []struct {
		name, url, principal string
		want                 error
	}{
		{"no listener", "nats://me:hunter2@" + closed, "p", message.ErrUnavailable},
		{"a silent listener", "nats://hunter2@" + silent.Addr().String(), "p", message.ErrUnavailable},
		{"no principal", "nats://" + closed, "", message.ErrInvalid},
		{"a name that is too long", "nats://" + closed, bustest.LongID, message.ErrTooLarge},
		{"no URL", "nats://me:hunter2@\x7f", "p", message.ErrInvalid},
		{"empty URL", "", "p", message.ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			nc, err := bus.Connect(ctx, tc.url, bus.ConnectOptions{Principal: tc.principal})
			if err == nil {
				nc.Close()
			}
			if e := message.AsError("", err); !errors.Is(err, tc.want) || e.Hint == "" {
				t.Fatalf("%v, want %v with a hint", err, tc.want)
			}
			if d := time.Since(began); d > 4*time.Second { // without its context it would try for 5 s
				t.Errorf("took %v, want about 100 ms", d)
			}
			if errors.Is(tc.want, message.ErrUnavailable) && !strings.Contains(err.Error(), bus.RedactURL(tc.url)) {
				t.Errorf("the error does not name %s: %v", bus.RedactURL(tc.url), err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

func TestConnectCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("changed my mind")
	cancel(cause)
	if _, err := bus.Connect(ctx, "nats://127.0.0.1:1", bus.ConnectOptions{Principal: "p"}); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
}

// Connect to a server that accepts the connection but never sends anything ends with the context,
// and the error says where and what to do.
func TestConnectCancelledWhileTheServerIsSilent(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("changed my mind")
	cancelled := make(chan time.Time, 1)
	go func() {
		if conn, err := silent.Accept(); err == nil { // the client is connected, and waits for the server's first message
			defer conn.Close()
			cancelled <- time.Now()
			cancel(cause)
			<-t.Context().Done()
		}
	}()
	url := "nats://" + silent.Addr().String()
	_, err = bus.Connect(ctx, url, bus.ConnectOptions{Principal: "p"})
	if e := message.AsError("", err); !errors.Is(err, cause) || !errors.Is(err, message.ErrUnavailable) || !strings.Contains(e.What, url) || e.Hint == "" {
		t.Errorf("%v, want unavailable with the cause, the URL and a hint", err)
	}
	if d := time.Since(receive(t, cancelled)); d > 4*time.Second { // its own limit is 5 s
		t.Errorf("gave up %v after the end of the context", d)
	}
}

// A server that is silent, such as a suspended one, leaves time for the next one of a cluster.
func TestConnectPassesOverASilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	b := bustest.New(t, bustest.Listening())
	nc, err := bus.Connect(t.Context(), "nats://"+silent.Addr().String()+","+b.URL(), bus.ConnectOptions{Principal: "p", Extra: []nats.Option{nats.DontRandomize()}})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestRedactURL(t *testing.T) {
	for in, want := range map[string]string{
		"nats://u:p@h:1":             "nats://h:1",
		"nats://token@h:1,tls://h:2": "nats://h:1,tls://h:2",
		"u:p@h:1":                    "nats://h:1",
		"h:1":                        "nats://h:1",
		"ws://h:1/x?token=abc#p":     "ws://h:1/x",
		"nats://u:p%zz@h":            "xxxxx",
	} {
		if got := bus.RedactURL(in); got != want {
			t.Errorf("RedactURL(%q) = %q, want %q", in, got, want)
		}
	}
}

// Names that could become a wildcard get no permissions.
func TestPermissionsForNobody(t *testing.T) {
	for _, p := range []toolcall.Principal{
		{}, {Role: toolcall.RoleRuntime}, {Role: toolcall.RoleWorker}, {Role: toolcall.RoleEngine}, {Role: "guest", Name: "g"}, {Role: toolcall.RoleApprover, Name: bustest.LongID},
	} {
		if got := bus.PermissionsFor("test", p, toolcall.Queue{Tool: "echo"}); len(got.Publish)+len(got.Subscribe) != 0 {
			t.Errorf("%+v: %+v", p, got)
		}
	}
	worker := toolcall.Principal{Role: toolcall.RoleWorker, Name: "wk"}
	for _, bad := range [][]string{{""}, {"echo", bustest.LongID}} {
		if got := bus.PermissionsFor("test", worker, toolcall.Queues(bad, nil)...); len(got.Publish)+len(got.Subscribe) != 0 {
			t.Errorf("a worker of %q: %+v", bad, got)
		}
	}
	if got := bus.PermissionsFor("*", worker, toolcall.Queue{Tool: "echo"}); len(got.Publish) != 0 {
		t.Errorf("in the space *: %+v", got)
	}
	for _, role := range []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor, toolcall.RoleWorker} {
		for _, s := range bus.PermissionsFor("test", toolcall.Principal{Role: role, Name: "a.*.>"}, toolcall.Queue{Tool: "x.>"}).Publish {
			if strings.HasPrefix(s, "askance.") && strings.ContainsAny(s, "*>") {
				t.Errorf("%s may publish %s", role, s)
			}
		}
	}
}

// The server is healthy on a busy machine too, where each thread waits for its turn.
func TestHealthOnABusyMachine(t *testing.T) {
	b := bustest.New(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(64))
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 500 {
				if err := b.Health(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// A client that tries many subjects does not fill the log.
func TestRefusedSubjectsAreLoggedSeldom(t *testing.T) {
	log := &lockedBuffer{}
	b := bustest.New(t, bustest.Listening(), bustest.With(func(o *embed.Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		o.Users = []embed.User{{Name: "bot", Password: "pw", Permissions: bus.PermissionsFor("test", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})}}
	}))
	nc, err := bus.Connect(t.Context(), b.URL(), bus.ConnectOptions{Principal: "bot", User: "bot", Password: "pw"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	began := time.Now()
	for range 1000 {
		if err := nc.Publish("askance.v1.test.record.s.r.c.f", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(bustest.Patience); err != nil {
		t.Fatal(err)
	}
	seconds := int(time.Since(began)/time.Second) + 1
	if n := strings.Count(log.String(), "Violation"); n == 0 || n > seconds {
		t.Errorf("%d lines in %d s about 1000 refused messages", n, seconds)
	}
}

// A stranger who tries many passwords does not fill the log.
func TestRefusedLoginsAreLoggedSeldom(t *testing.T) {
	log := &lockedBuffer{}
	b := bustest.New(t, bustest.Listening(), bustest.With(func(o *embed.Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		o.Users = []embed.User{{Name: "bot", Password: "pw"}}
	}))
	began, attempts := time.Now(), 100
	for range attempts {
		if _, err := nats.Connect(b.URL(), nats.UserInfo("bot", "guess")); !errors.Is(err, nats.ErrAuthorization) {
			t.Fatal(err)
		}
	}
	seconds := int(time.Since(began)/time.Second) + 1
	if n := strings.Count(log.String(), "authentication error"); n == 0 || n > seconds {
		t.Errorf("%d lines in %d s about %d refused logins", n, seconds, attempts)
	}
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
