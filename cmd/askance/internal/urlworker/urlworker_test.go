package urlworker_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/urlworker"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The endpoints with TLS have the certificate of package httptest.
func TestMain(m *testing.M) {
	srv := httptest.NewTLSServer(nil)
	srv.Close()
	file := filepath.Join(os.TempDir(), fmt.Sprintf("askance-url-%d.pem", os.Getpid()))
	err := errors.Join(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600), os.Setenv("SSL_CERT_FILE", file))
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.Remove(file) // it is in a folder for temporary files
	os.Exit(code)
}

const input = "{\"n\": 9007199254740993,\n\"t\":\"<é>\"}"

func attempt(n int) executor.Task {
	return executor.Task{Call: toolcall.Key{Space: "sp", Session: "s/1", Reply: "r", Call: "é"}, Tool: "refund", Input: []byte(input), IdempotencyKey: "key-1", Attempt: n}
}

func handler(t *testing.T, c urlworker.Config) executor.Handler {
	t.Helper()
	h, err := urlworker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The endpoint gets the approved bytes, the caller, and a signature over both.
func TestRequest(t *testing.T) {
	secret, err := webhook.ParseSecret("whsec_" + strings.Repeat("QUJD", 8))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tools/refund" { // a redirection on the same host keeps everything
			http.Redirect(w, r, "/v2/refund", http.StatusPermanentRedirect)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != input || r.Method != http.MethodPut || r.URL.Path != "/v2/refund" {
			t.Errorf("%s %s %q, %v", r.Method, r.URL, body, err)
		}
		for name, want := range map[string]string{
			"Content-Type": "application/json", "Idempotency-Key": "key-1", "Askance-Tool": "refund", "Askance-Attempt": "2",
			"Askance-Call": "sp/s%2F1/r/%C3%A9", "Authorization": "Bearer secret", "Webhook-Id": "key-1",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		at, err := time.ParseDuration(r.Header.Get("Webhook-Timestamp") + "s")
		if want := webhook.Sign([]webhook.Secret{secret}, "key-1", time.Unix(int64(at.Seconds()), 0), body); err != nil || r.Header.Get("Webhook-Signature") != want {
			t.Errorf("the signature is %q, want %q", r.Header.Get("Webhook-Signature"), want)
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	t.Cleanup(srv.Close)
	h := handler(t, urlworker.Config{URL: srv.URL + "/tools/{tool}", Method: "PUT", Header: http.Header{"Authorization": {"Bearer secret"}, "Content-Type": {"x"}}, Secrets: []webhook.Secret{secret}})
	if out, err := h(t.Context(), attempt(2)); err != nil || out.Content.String() != `{"ok":true}` || out.State != "" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Which replies are results, which are safe failures, and which are unknown outcomes.
func TestReplies(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = io.WriteString(w, "text") }
	}
	to := func(code int, where string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, where, code) }
	}
	failed := errors.New("an ordinary failure")
	for name, tt := range map[string]struct {
		reply   http.HandlerFunc
		attempt int
		want    error // nil: success
	}{
		"200": {status(200), 1, nil}, "201": {status(201), 1, nil},
		"400": {status(400), 1, failed}, "404": {status(404), 1, failed}, "409": {status(409), 1, failed}, "422": {status(422), 1, failed}, "429": {status(429), 1, failed}, "501": {status(501), 1, failed},
		"409 again": {status(409), 2, executor.ErrUnknownOutcome}, "408": {status(408), 1, executor.ErrUnknownOutcome},
		"500": {status(500), 1, executor.ErrUnknownOutcome}, "502": {status(502), 1, executor.ErrUnknownOutcome}, "503": {status(503), 1, executor.ErrUnknownOutcome}, "504": {status(504), 1, executor.ErrUnknownOutcome},
		"303": {to(303, "/x"), 1, executor.ErrUnknownOutcome}, "302": {to(302, "/x"), 1, executor.ErrUnknownOutcome},
		"to another host": {to(307, other.URL), 1, failed}, "in a circle": {to(308, "/"), 1, failed},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		}, 1, executor.ErrUnknownOutcome},
		"no reply": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, executor.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); tt.reply(w, r) }))
			t.Cleanup(srv.Close)
			out, err := handler(t, urlworker.Config{URL: srv.URL})(t.Context(), attempt(tt.attempt))
			special := errors.Is(err, executor.ErrUnknownOutcome) || errors.Is(err, executor.ErrNotBegun)
			switch {
			case tt.want == nil && (err != nil || out.Content.String() != "text"):
				t.Errorf("%+v, %v", out, err)
			case tt.want == failed && (err == nil || special): //nolint:errorlint // it is a mark of this table
				t.Errorf("%+v, %v, want an ordinary failure", out, err)
			case tt.want != nil && tt.want != failed && !errors.Is(err, tt.want): //nolint:errorlint // as above
				t.Errorf("%+v, %v, want %v", out, err, tt.want)
			}
			if n := asked.Load(); n != 1 && name != "in a circle" {
				t.Errorf("the endpoint was called %d times", n)
			}
		})
	}
	if elsewhere.Load() != 0 {
		t.Error("another host got the call")
	}
}

// If the endpoint cannot be reached, nothing ran.
func TestNoEndpoint(t *testing.T) {
	out, err := handler(t, urlworker.Config{URL: "http://127.0.0.1:1?key=secret"})(t.Context(), attempt(1))
	if !errors.Is(err, executor.ErrNotBegun) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%+v, %v", out, err)
	}
}

// A call whose lease passed during the TLS handshake is not sent.
func TestPassedLease(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the endpoint was called") }))
		srv.EnableHTTP2 = http2
		end := executortest.AfterLease(t, "refund", func(passed <-chan struct{}) executor.Handler {
			srv.Listener = slow{srv.Listener, passed}
			srv.StartTLS()
			t.Cleanup(srv.Close)
			return handler(t, urlworker.Config{URL: srv.URL})
		})
		if !strings.Contains(end, "of the lease") {
			t.Errorf("with HTTP/2 %t the call ended with %q", http2, end)
		}
	}
}

// slow accepts a connection, and reads it only when the lease has passed.
type slow struct {
	net.Listener
	passed <-chan struct{}
}

func (s slow) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	return slowConn{c, s.passed}, err
}

type slowConn struct {
	net.Conn
	passed <-chan struct{}
}

func (c slowConn) Read(p []byte) (int, error) {
	<-c.passed
	return c.Conn.Read(p)
}

// No reply until the timeout is an unknown outcome; a cancellation is not a success.
func TestSilence(t *testing.T) {
	gone := make(chan struct{}, 2)
	began := make(chan struct{}, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so the server notices the end
		began <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(srv.Close)
	h := handler(t, urlworker.Config{URL: srv.URL, Timeout: 2 * time.Second})
	if out, err := h(t.Context(), attempt(1)); !errors.Is(err, executor.ErrUnknownOutcome) || !strings.Contains(err.Error(), "within 2s") {
		t.Errorf("%+v, %v", out, err)
	}
	<-gone
	<-began
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-began; cancel(executor.ErrCancelled) }()
	if out, err := handler(t, urlworker.Config{URL: srv.URL})(ctx, attempt(1)); err == nil || errors.Is(err, executor.ErrUnknownOutcome) || !strings.Contains(err.Error(), "may have executed it") {
		t.Errorf("%+v, %v", out, err)
	}
	<-gone
}

func TestContent(t *testing.T) {
	for kind, want := range map[string]string{"image/png": "base64", "text/plain": "a\xffb", "application/json": "{}", "": "plain"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{kind}
			_, _ = io.WriteString(w, want)
		}))
		out, err := handler(t, urlworker.Config{URL: srv.URL})(t.Context(), attempt(1))
		srv.Close()
		data := kind == "image/png" || kind == "text/plain" // which is no text here
		if err != nil || out.Content.IsList() != data || !data && out.Content.String() != want {
			t.Errorf("%q: %+v, %v", kind, out, err)
		}
		if data {
			if _, ok := out.Content.Blocks[0].(*message.DataBlock); !ok {
				t.Errorf("%q: %+v", kind, out)
			}
		}
	}
}

// Bytes in another charset may look like UTF-8, and no one can read them without its name.
func TestContentInAnotherCharset(t *testing.T) {
	for kind, charset := range map[string]string{
		"text/plain; charset=UTF-8": "", "text/html; charset=us-ascii": "", "text/x-plain; charset=iso-8859-1": "",
		"text/plain; charset=utf-16le": "utf-16le", "text/csv; charset=\"ISO-8859-1\"": "ISO-8859-1",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, map[bool]string{true: "hi", false: "h\x00i\x00"}[strings.HasPrefix(kind, "text/x-plain")])
		}))
		out, err := handler(t, urlworker.Config{URL: srv.URL})(t.Context(), attempt(1))
		srv.Close()
		if err != nil || out.Content.IsList() != (charset != "") {
			t.Errorf("%q: %+v, %v", kind, out, err)
		}
		if charset == "" {
			continue
		}
		if b, ok := out.Content.Blocks[0].(*message.DataBlock).Source.(*message.Base64Source); !ok || !strings.HasSuffix(b.MediaType, "; charset="+charset) || b.Data != "aABpAA==" {
			t.Errorf("%q: %+v", kind, b)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]urlworker.Config{
		"no URL": {}, "a scheme": {URL: "ftp://h"}, "a password": {URL: "https://u:p@h"}, "the tool as host": {URL: "https://{tool}.example"},
		"a method": {URL: "https://h", Method: "GET"}, "a timeout": {URL: "https://h", Timeout: -1},
	} {
		if h, err := urlworker.New(c); err == nil {
			t.Errorf("%s: %v", name, h != nil)
		}
	}
}

// A reply that is too large stays a text, even if the limit is within a character.
func TestLargeText(t *testing.T) {
	for _, start := range []string{"", "a", "ab"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, start+strings.Repeat("€", toolcall.MaxOutputBytes)) // the worker reads less
		}))
		out, err := handler(t, urlworker.Config{URL: srv.URL})(t.Context(), attempt(1))
		srv.Close()
		if err != nil || out.Content.IsList() || len(out.Content.Text) <= toolcall.MaxOutputBytes {
			t.Errorf("%q: a list: %t, %d bytes, %v", start, out.Content.IsList(), len(out.Content.Text), err)
		}
	}
}
