package gateway

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
)

// response knows what was answered.
type response struct {
	http.ResponseWriter
	status  int
	bytes   int64
	sending func(n int) // is told before n bytes are sent; nil: nothing is
}

func (w *response) wrote() bool { return w.status != 0 }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.sending != nil {
		w.sending(len(b))
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Flush implements http.Flusher.
func (w *response) Flush() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush() // best effort, as of any Flusher
}

// Hijack implements http.Hijacker.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	return c, rw, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Limits of bodies.
const (
	bodyTimeout = 30 * time.Second // in which a peer must send one
	leftTimeout = time.Second      // for the rest of one that no handler wants
	maxLeft     = 256 << 10        // bytes of such a rest, as net/http has it
)

// timedBody is a request's body that comes in time or not at all.
type timedBody struct {
	io.ReadCloser
	rc      *http.ResponseController
	unasked bool // the peer waits until it is asked for it
	started bool
	over    bool
}

// newTimedBody bounds the body of a request in size and time.
func newTimedBody(w http.ResponseWriter, r *http.Request, limit int64) *timedBody {
	return &timedBody{
		ReadCloser: http.MaxBytesReader(w, r.Body, limit), rc: http.NewResponseController(w),
		unasked: r.Header.Get("Expect") != "",
	}
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	if !b.started {
		b.started = true
		_ = b.rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // what has no deadlines is a test's
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.over {
		b.over = true
		if errors.Is(err, io.EOF) {
			_ = b.rc.SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// leave takes what a handler has left of a body, so that nobody waits long for
// the rest of it. No deadline may outlast the body: net/http goes on to read, to
// hear of a peer that hangs up, and takes a deadline that passes while the peer
// is slow to take its answer for that. All later requests of the connection
// would be given up at once.
func (b *timedBody) leave() {
	if b.over || b.unasked && !b.started { // net/http does not wait for that one
		return
	}
	_ = b.rc.SetReadDeadline(time.Now().Add(leftTimeout))
	if _, err := io.CopyN(io.Discard, b.ReadCloser, maxLeft); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
}

// probe finds out what a handler would answer.
type probe struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (p *probe) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}

// Write implements http.ResponseWriter.
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (p *probe) WriteHeader(status int) { p.status = status }

// secure sets what every answer says to browsers. A page replaces the policy by
// one that lets in what it needs.
func secure(h http.Header, r *http.Request) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	// Not no-referrer: browsers then send forms with the origin "null".
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID is the id that a proxy gave, or a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); plainID.MatchString(id) {
		return id
	}
	return uuid.NewString()
}

// log writes a line about the request. It has the route and not the path:
// paths and queries may hold secrets.
func (v *visit) log(r *http.Request) {
	attrs := []slog.Attr{
		slog.String("id", v.id), slog.String("method", strings.ToUpper(r.Method[:min(len(r.Method), 16)])), slog.Int("status", v.w.status),
		slog.Int64("bytes", v.w.bytes), slog.Duration("took", time.Since(v.began)), slog.String("from", address(r.RemoteAddr)),
	}
	if v.route != nil {
		attrs = append(attrs, slog.String("route", v.route.Path))
	}
	if v.peer != nil {
		attrs = append(attrs, slog.String("name", v.peer.Name), slog.String("space", string(v.peer.Space.ID)), slog.String("auth", v.peer.Auth))
	}
	v.s.cfg.Log.LogAttrs(r.Context(), slog.LevelInfo, "http", attrs...)
}
