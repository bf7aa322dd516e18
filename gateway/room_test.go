package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// watching serves a session's events as the simplest possible surface.
func watching(*gatewaytest.World) []gateway.Surface {
	return []gateway.Surface{gateway.Routes{{Method: http.MethodGet, Path: "/watch/{session}", Stream: true, Access: gateway.Readers, Serve: func(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
		var from gateway.Cursor
		if id := r.Header.Get("Last-Event-ID"); id != "" {
			var err error
			if from, err = gateway.ParseCursor(id); err != nil {
				return err
			}
		}
		return gateway.Streaming(r.Context(), w, time.Minute, "", func(ctx context.Context, s *gateway.Stream) error {
			live := func() error { return s.Event("", "live", []byte("{}")) }
			return p.Feeds.Resume(ctx, p, message.SessionID(r.PathValue("session")), from, live, func(c gateway.Cursor, ev toolcall.SequencedEvent) error {
				return s.Event(c.String(), "", ev.Event)
			})
		})
	}}}}
}

// stream is a client's side of /watch/s1.
type stream struct {
	res   *http.Response
	lines *bufio.Reader
}

func watch(ctx context.Context, c *http.Client, url, from string) (*stream, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/watch/s1", http.NoBody)
	if err != nil {
		return nil, err
	}
	if from != "" {
		r.Header.Set("Last-Event-ID", from)
	}
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("status %s", res.Status)
	}
	return &stream{res, bufio.NewReaderSize(res.Body, 1024)}, nil
}

// next returns the id of the next event, or "live".
func (s *stream) next() (string, error) {
	for {
		line, err := s.lines.ReadString('\n')
		switch {
		case err != nil:
			return "", err
		case strings.HasPrefix(line, "id: "):
			return strings.TrimSpace(line[4:]), nil
		case line == "event: live\n":
			return "live", nil
		}
	}
}

// ids returns the ids of all events of the session, as a single reader gets them.
func ids(t *testing.T, s *gatewaytest.Space) []string {
	t.Helper()
	var out []string
	after, last, n := uint64(0), uint64(0), 0
	for {
		page, err := s.Client(gatewaytest.Ann).Events(t.Context(), toolcall.EventsRequest{Session: "s1", After: after})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) == 0 {
			return out
		}
		for _, ev := range page.Events {
			if n++; ev.Seq != last {
				last, n = ev.Seq, 1
			}
			out = append(out, gateway.Cursor{Seq: ev.Seq, N: n}.String())
		}
		after = page.Next
	}
}

func delta(text string) message.Event { return &message.TextBlockDelta{BlockID: "b", Delta: text} }

// plainWatch is like watch, with a client that needs almost no memory.
func plainWatch(ctx context.Context, url, token string) (*stream, error) {
	host := strings.TrimPrefix(url, "http://")
	c, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(c, "GET /watch/s1 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", host, token); err != nil {
		_ = c.Close()
		return nil, err
	}
	return &stream{&http.Response{Body: c}, bufio.NewReaderSize(c, 512)}, nil
}

// heap returns the memory that the program uses, including stacks.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestAThousandWatchers: each watcher gets every event in order and needs little memory.
func TestAThousandWatchers(t *testing.T) {
	const watchers, events, most = 1000, 40, 64 << (10 + raced)
	w := gatewaytest.New(t, gatewaytest.Surfaces(watching))
	w.A.Say("s1", "r1", &message.ReplyStart{Session: "s1", Name: "agent"})
	before := heap()
	var wg, ready sync.WaitGroup
	var total atomic.Int64
	ready.Add(watchers)
	sums := make([]uint64, watchers)
	token := w.A.Token(gatewaytest.Ann)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range watchers {
		wg.Go(func() {
			s, err := plainWatch(ctx, w.URL, token)
			if err != nil {
				t.Errorf("watcher %d: %v", i, err)
				ready.Done()
				return
			}
			defer s.res.Body.Close()
			sum := fnv.New64()
			for n := 0; n < events+1; {
				id, err := s.next()
				if err != nil {
					t.Errorf("watcher %d: %v", i, err)
					return
				}
				if id == "live" {
					ready.Done()
					continue
				}
				n++
				total.Add(1)
				_, _ = sum.Write([]byte(id + "\n"))
			}
			sums[i] = sum.Sum64()
		})
	}
	ready.Wait()
	if per := (heap() - min(before, heap())) / watchers; per > most {
		t.Errorf("a watcher needs %d bytes including its client; the limit is %d", per, most)
	} else {
		t.Logf("a watcher needs %d bytes including its client", per)
	}
	for range events / 4 {
		w.A.Say("s1", "r1", delta("a"), delta("b"), delta("c"), delta("d"))
	}
	wg.Wait()
	want := fnv.New64()
	for _, id := range ids(t, w.A) {
		_, _ = want.Write([]byte(id + "\n"))
	}
	for i, sum := range sums {
		if sum != want.Sum64() {
			t.Fatalf("watcher %d did not get every event in order (%d events in all)", i, total.Load())
		}
	}
}

// TestReconnectStorm: watchers disconnect and return all the time while the engine is replaced.
// No reader misses an event or gets it twice.
func TestReconnectStorm(t *testing.T) {
	const watchers, events = 30, 40
	w := gatewaytest.New(t, gatewaytest.Surfaces(watching))
	w.A.Say("s1", "r1", &message.ReplyStart{Session: "s1", Name: "agent"})
	got := make([][]string, watchers)
	var wg sync.WaitGroup
	for i := range watchers {
		name := []string{gatewaytest.Ann, gatewaytest.Bot, gatewaytest.Audie}[i%3] // two classes of readers
		client := w.A.HTTP(name)
		wg.Go(func() {
			random, from := rand.New(rand.NewPCG(1, uint64(i))), ""
			for len(got[i]) < events+1 {
				ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
				s, err := watch(ctx, client, w.URL, from)
				if err != nil {
					t.Errorf("watcher %d: %v", i, err)
					cancel()
					return
				}
				for range 1 + random.IntN(20) {
					id, err := s.next()
					if err != nil {
						t.Errorf("watcher %d after %d events: %v", i, len(got[i]), err)
						cancel()
						return
					}
					if id != "live" {
						got[i], from = append(got[i], id), id
					}
					if len(got[i]) == events+1 {
						break
					}
				}
				cancel()
				_ = s.res.Body.Close()
			}
		})
	}
	for i := range events {
		if i == events/2 {
			w.A.Restart()
		}
		w.A.Say("s1", "r1", delta(fmt.Sprint(i)))
	}
	wg.Wait()
	want := ids(t, w.A)
	for i := range got {
		if !slices.Equal(got[i], want) {
			t.Errorf("watcher %d: %d events %v, want %d", i, len(got[i]), got[i], len(want))
		}
	}
}

// TestCursorBeyondTheEnd: a watcher with a cursor beyond the journal's end is refused, and does not
// disturb other watchers of the session.
func TestCursorBeyondTheEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := gatewaytest.New(t, gatewaytest.In(dir), gatewaytest.Piped(), gatewaytest.Surfaces(watching))
		w.A.Say("s1", "r1", &message.ReplyStart{Session: "s1", Name: "agent"})
		// read returns the last event before the present.
		read := func(from string) (last string, err error) {
			s, err := watch(t.Context(), w.A.HTTP(gatewaytest.Ann), w.URL, from)
			if err != nil {
				t.Fatal(err)
			}
			defer s.res.Body.Close()
			for {
				id, err := s.next()
				if err != nil || id == "live" {
					return last, err
				}
				last = id
			}
		}
		last, err := read("")
		end, perr := gateway.ParseCursor(last)
		if err != nil || perr != nil {
			t.Fatalf("the last event is %q, %v, %v", last, err, perr)
		}
		for _, from := range []gateway.Cursor{{Seq: math.MaxUint64}, {Seq: end.Seq + 1}, {Seq: end.Seq + 1, N: 1}} {
			if _, err := read(from.String()); err == nil {
				t.Errorf("from %s, beyond %s, the stream is silent", from, last)
			}
		}
	})
}

// TestSlowReader: a slow reader is disconnected and can resume; other readers continue.
func TestSlowReader(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := gatewaytest.New(t, gatewaytest.In(dir), gatewaytest.Piped(), gatewaytest.Surfaces(watching))
		w.A.Say("s1", "r1", &message.ReplyStart{Session: "s1", Name: "agent"})
		slow, err := watch(t.Context(), w.A.HTTP(gatewaytest.Bob), w.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		defer slow.res.Body.Close()
		first, err := slow.next()
		if err != nil {
			t.Fatal(err)
		}
		quick, err := watch(t.Context(), w.A.HTTP(gatewaytest.Ann), w.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		defer quick.res.Body.Close()
		const events = 30
		var wg sync.WaitGroup
		var got []string
		wg.Go(func() {
			for len(got) < events+1 {
				id, err := quick.next()
				if err != nil {
					t.Errorf("the fast reader: %v", err)
					return
				}
				if id != "live" {
					got = append(got, id)
				}
			}
		})
		for range events {
			w.A.Say("s1", "r1", delta(strings.Repeat("x", 60_000))) // more than a room holds
		}
		wg.Wait()
		want := ids(t, w.A)
		if !slices.Equal(got, want) {
			t.Errorf("the fast reader got %d of %d events", len(got), len(want))
		}
		time.Sleep(15 * time.Second)
		rest := []string{first}
		for {
			id, err := slow.next()
			if err != nil {
				break
			}
			if id != "live" {
				rest = append(rest, id)
			}
		}
		if len(rest) >= len(want) {
			t.Error("the slow reader was not disconnected")
		}
		again, err := watch(t.Context(), w.A.HTTP(gatewaytest.Bob), w.URL, rest[len(rest)-1])
		if err != nil {
			t.Fatal(err)
		}
		defer again.res.Body.Close()
		for len(rest) < len(want) {
			id, err := again.next()
			if err != nil {
				t.Fatal(err)
			}
			rest = append(rest, id)
		}
		if !slices.Equal(rest, want) {
			t.Error("the slow reader missed events after it returned")
		}
	})
}

// TestSlowBody: the server does not wait for the rest of a request forever.
func TestSlowBody(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := gatewaytest.New(t, gatewaytest.In(dir), gatewaytest.Piped(), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
			return []gateway.Surface{gateway.Routes{{Method: http.MethodPost, Path: "/read", Access: gateway.Readers, Serve: func(_ http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
				_, err := io.ReadAll(r.Body)
				return err
			}}}}
		}))
		body, half := io.Pipe()
		defer half.Close()
		go func() { _, _ = half.Write([]byte("half a requ")) }() // the rest never comes
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/read", body)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		res, err := w.A.HTTP(gatewaytest.Ann).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if took := time.Since(began); res.StatusCode != http.StatusBadRequest || took > time.Minute {
			t.Errorf("%s after %v", res.Status, took)
		}
	})
}

// TestSlowResponse: a peer that reads its response slowly does not lose the next request on its
// connection, whether or not the first had a body that no handler read.
func TestSlowResponse(t *testing.T) {
	for name, request := range map[string]string{
		"no body": "GET /ctx HTTP/1.1\r\n%s\r\n", "a body": "POST /ctx HTTP/1.1\r\n%sContent-Length: 3\r\n\r\nx=1",
		"a chunked body": "POST /ctx HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n3\r\nx=1\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				serve := func(_ http.ResponseWriter, r *http.Request, _ *gateway.Peer) error { return r.Context().Err() }
				w := gatewaytest.New(t, gatewaytest.In(dir), gatewaytest.Piped(), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
					return []gateway.Surface{gateway.Routes{
						{Method: http.MethodGet, Path: "/ctx", Access: gateway.Readers, Serve: serve}, {Method: http.MethodPost, Path: "/ctx", Access: gateway.Readers, Serve: serve},
					}}
				}))
				c := w.Dial()
				in := bufio.NewReader(c)
				for i := range 3 {
					if _, err := fmt.Fprintf(c, request, "Host: localhost\r\nAuthorization: Bearer "+w.A.Token(gatewaytest.Ann)+"\r\n"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * time.Second)
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
					if res.StatusCode != http.StatusOK {
						t.Errorf("request %d: %s", i+1, res.Status)
					}
				}
			})
		})
	}
}

// A body that never arrives ends its connection, whatever the reply is: also without credentials, for
// an address that does not exist and for a page that is too long for the server's buffer.
func TestBodyThatNeverArrives(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 64<<10)
		w := gatewaytest.New(t, gatewaytest.In(dir), gatewaytest.Piped(), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
			return []gateway.Surface{gateway.Routes{{Method: http.MethodGet, Path: "/long", Access: gateway.Everybody, Serve: func(w http.ResponseWriter, _ *http.Request, _ *gateway.Peer) error {
				return gateway.Reply(w, http.StatusOK, "text/plain", []byte(long))
			}}, {Method: http.MethodGet, Path: "/stream", Access: gateway.Everybody, Stream: true, Serve: func(w http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
				s := gateway.NewSSE(w)
				for range gateway.Every(r.Context(), time.Second) {
					if err := s.KeepAlive(); err != nil {
						return err
					}
				}
				return nil
			}}}}
		}))
		for _, request := range []string{
			"POST /nowhere HTTP/1.1\r\n", "DELETE /long HTTP/1.1\r\n", "GET //long HTTP/1.1\r\n", "GET /long HTTP/1.1\r\n", "GET /stream HTTP/1.1\r\n",
			"OPTIONS /long HTTP/1.1\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n",
		} {
			began := time.Now()
			c := w.Dial()
			if _, err := io.WriteString(c, request+"Host: localhost\r\nContent-Length: 10\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil || time.Since(began) > time.Minute {
				t.Errorf("%q: the connection is open after %v (%v)", request, time.Since(began), err)
			}
			_ = c.Close()
		}
	})
}
