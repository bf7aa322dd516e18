package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// response records the status and size of a reply.
type response struct {
	http.ResponseWriter
	page    bool   // a browser asks, so errors are pages
	csrf    string // of a browser's login that lacks the role
	console bool   // such a login may see the console
	status  int
	bytes   int64
	sending func(n int) // called before n bytes are sent; may be nil
}

func (r *response) wrote() bool { return r.status != 0 }

func (r *response) WriteHeader(status int) {
	if r.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(b []byte) (int, error) {
	r.status = cmp.Or(r.status, http.StatusOK)
	if r.sending != nil {
		r.sending(len(b))
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

func (r *response) Flush() {
	r.status = cmp.Or(r.status, http.StatusOK)
	_ = http.NewResponseController(r.ResponseWriter).Flush() // best effort, like any Flusher
}

func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil && r.status == 0 {
		r.status = http.StatusSwitchingProtocols
	}
	return c, rw, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Reply sends a reply.
func Reply(w http.ResponseWriter, status int, kind string, body []byte) error {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the peer may be gone
	return nil
}

// ReplyJSON sends a reply as JSON.
func ReplyJSON(w http.ResponseWriter, status int, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	return Reply(w, status, "application/json", append(b, '\n'))
}

// Limits of bodies.
const (
	bodyTimeout = 30 * time.Second // to send a body
	leftTimeout = time.Second      // to send the rest of a body that no handler read
	maxLeft     = 256 << 10        // bytes of that rest, as in net/http
)

// timedBody is a request's body with a limit on its size and time.
type timedBody struct {
	io.ReadCloser
	rc      *http.ResponseController
	unasked bool // the peer waits for 100 Continue
	started bool
	over    bool
	read    int // bytes that the handler has read
}

// newTimedBody limits the time from now on, because net/http reads what no handler reads.
func newTimedBody(w http.ResponseWriter, r *http.Request) *timedBody {
	b := &timedBody{ReadCloser: r.Body, rc: http.NewResponseController(w), unasked: r.Header.Get("Expect") != ""}
	_ = b.rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails only in a test without deadlines
	return b
}

func (b *timedBody) Read(p []byte) (int, error) {
	if !b.started {
		b.started = true
		_ = b.rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails only in a test without deadlines
	}
	n, err := b.ReadCloser.Read(p)
	b.read += n
	if err != nil && !b.over {
		b.over = true
		if errors.Is(err, io.EOF) {
			_ = b.rc.SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// leave reads what a handler left unread, within leftTimeout. Invariant: no deadline outlasts the
// body. net/http keeps reading to notice a disconnect, and would take an expired deadline for
// one: later requests would be canceled at once.
func (b *timedBody) leave() {
	if b.over || b.unasked && !b.started { // net/http does not wait for such a body
		return
	}
	_ = b.rc.SetReadDeadline(time.Now().Add(leftTimeout))
	if _, err := io.CopyN(io.Discard, b.ReadCloser, maxLeft); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
}

// ReadBody reads the body of a request, and refuses one that outlasts its credentials. Errors of
// the body name the operation op.
func ReadBody(op string, r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(r.Body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &message.Error{Code: message.CodeTooLarge, Op: op, What: fmt.Sprintf("the body is over %d bytes", tooLarge.Limit), Hint: "send less"}
	}
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op, What: "the body could not be read", Hint: "send it again", Err: err}
	}
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok && v.peer != nil && v.peer.ended() {
		return nil, errEnded
	}
	return b, nil
}

// probe records what a handler would reply.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}

func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

func (p *probe) WriteHeader(status int) { p.status = status }

// setSecurityHeaders sets the headers of every reply. A page widens the policy to
// what it loads.
func setSecurityHeaders(h http.Header, r *http.Request) {
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

// requestID is the id from a proxy, or a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); plainID.MatchString(id) {
		return id
	}
	return uuid.NewString()
}

// log logs the request with its route and not its path: paths and queries may hold
// secrets.
func (v *visit) log(r *http.Request) {
	if served := v.s.cfg.Served; served != nil {
		method, path := "", ""
		if v.route != nil {
			method, path = v.route.Method, v.route.Path
		}
		served(method, path, v.w.status, time.Since(v.began))
	}
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

// Problem is an error as problem details (RFC 9457), with askance's code and the
// call that it is about.
type Problem struct {
	Type   string         `json:"type"` // "about:blank", or a page that explains the code
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail,omitzero"`
	Code   message.Code   `json:"code"`
	Hint   string         `json:"hint,omitzero"`
	Call   *toolcall.Call `json:"call,omitzero"`
}

// StatusOf returns the HTTP status of a code.
func StatusOf(c message.Code) int {
	switch c {
	case message.CodeInvalid:
		return http.StatusBadRequest
	case message.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case message.CodeNotFound:
		return http.StatusNotFound
	case message.CodeForbidden, message.CodeForeign:
		return http.StatusForbidden
	case message.CodeConflict, message.CodeDigest, message.CodeFinished, message.CodeArchived, message.CodeState, message.CodeInterrupted, message.CodeSuperseded:
		return http.StatusConflict
	case message.CodeOverLimit:
		return http.StatusTooManyRequests
	case message.CodeOverloaded, message.CodeUnavailable, message.CodeUnknownOutcome, message.CodeDamaged:
		return http.StatusServiceUnavailable
	case message.CodeFull, message.CodeForeignStream:
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}

// ProblemOf returns the problem details of any error.
func ProblemOf(err error) Problem {
	e := message.AsError("", err)
	status := StatusOf(e.Code)
	p := Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.What, Code: e.Code, Hint: e.Hint, Call: toolcall.CallOf(e)}
	if e.Code == message.CodeInternal {
		p.Detail = "the server failed; its log has the reason"
	}
	return p
}

// writeProblem replies to a request with an error.
func writeProblem(w http.ResponseWriter, err error) {
	ProblemOf(err).write(w)
}

func (p Problem) write(w http.ResponseWriter) {
	if r, ok := w.(*response); ok && r.page {
		p.writePage(r)
		return
	}
	b, err := strictjson.Marshal(p)
	if err != nil { // only a call can fail to encode
		b = fmt.Appendf(nil, `{"title":%q,"status":%d,"code":%q}`, p.Title, p.Status, p.Code)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(b, '\n')) //nolint:gosec // G705: JSON with nosniff; the peer may be gone
}

// PageCSS is the style of the pages outside of the console: login, errors, reference.
//
//go:embed page.css
var PageCSS string

// Brand is the mark of those pages, a link to the console.
const Brand template.HTML = `<a class="brand" href="/"><svg viewBox="0 0 32 32" aria-hidden="true"><path d="M2 16C6 9 11 6 16 6s10 3 14 10c-4 7-9 10-14 10S6 23 2 16z"/><circle cx="20" cy="16" r="5"/></svg>askance</a>`

//go:embed error.html
var errorHTML string

var errorPage = template.Must(template.New("error").Parse(errorHTML))

// errorPolicy allows the page's own style and nothing else.
var errorPolicy = func() string {
	sum := sha256.Sum256([]byte(PageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}()

// sentence turns the text of an error into a sentence.
func sentence(words string) string {
	if words == "" {
		return ""
	}
	return strings.ToUpper(words[:1]) + strings.TrimSuffix(words[1:], ".") + "."
}

// writePage replies to a browser. A login that lacks the role gets a link only if it leads elsewhere.
func (p Problem) writePage(w *response) {
	heading, csrf := p.Title, ""
	switch p.Status {
	case http.StatusNotFound:
		heading = "Page not found"
	case http.StatusForbidden:
		heading, csrf = "You cannot do this", w.csrf
	case http.StatusTooManyRequests:
		heading = "Too many requests"
	case http.StatusInternalServerError:
		heading = "The server failed"
	case http.StatusServiceUnavailable:
		heading = "The server is not ready"
	}
	var b bytes.Buffer
	err := errorPage.Execute(&b, struct {
		Problem
		Heading, Sentence, CSRF string
		Console                 bool
		Style, Brand            template.HTML
	}{p, heading, sentence(p.Detail), csrf, csrf == "" || w.console, template.HTML("<style>" + PageCSS + "</style>"), Brand}) //nolint:gosec // our own file
	if err != nil { // only a mistake in the template
		b.Reset()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", errorPolicy)
	w.WriteHeader(p.Status)
	_, _ = w.Write(b.Bytes()) // the peer may be gone
}
