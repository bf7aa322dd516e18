package httpwork_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/executor/httpwork"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var _ executor.Transport = (*httpwork.Transport)(nil)

const token = "the-secret"

func good() (string, error) { return token, nil }

// transport returns a transport to a server that replies with f.
func transport(t *testing.T, f http.HandlerFunc) *httpwork.Transport {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return dial(t, httpwork.Config{URL: srv.URL, Queue: toolcall.Queue{Tool: "job"}, Token: good})
}

func dial(t *testing.T, c httpwork.Config) *httpwork.Transport {
	t.Helper()
	tr, err := httpwork.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func problem(status int, code message.Code) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"type":"about:blank","title":"x","status":1,"detail":"what","hint":"how","code":"`+string(code)+`","later":true}`)
	}
}

func body(status int, kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// Only a reply that an engine can have sent is final for an attempt.
func TestReplies(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply http.HandlerFunc
		code  message.Code // "": no engine answered
	}{
		{"finished", problem(409, message.CodeFinished), message.CodeFinished},
		{"forbidden", problem(403, message.CodeForbidden), message.CodeForbidden},
		{"a refused token", problem(401, message.CodeForbidden), ""},
		{"a problem without a code", problem(409, ""), ""},
		{"a proxy's refusal", body(403, "text/html", "<h1>Forbidden</h1>"), ""},
		{"a proxy's JSON", body(404, "application/json", `{"code":"finished"}`), ""},
		{"a proxy without a server", body(502, "text/plain", "bad gateway"), ""},
		{"a page", body(200, "text/html", "<h1>Log in</h1>"), ""},
		{"an empty object", body(200, "application/json", `{}`), ""},
		{"half a reply", body(200, "application/json", `{"stored":true,`), ""},
		{"a broken connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ""},
		{"a redirection", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, ""},
		{"an endless reply", body(200, "application/json", `{"stored":true,"state":"`+strings.Repeat("x", 17<<20)+`"}`), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := transport(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/work/result" || r.Header.Get("Authorization") != "Bearer "+token {
					t.Errorf("%s with the token %q", r.URL, r.Header.Get("Authorization"))
				}
				tt.reply(w, r)
			})
			_, err := tr.Result(t.Context(), toolcall.ResultRequest{Key: toolcall.Key{Space: "space", Session: "s"}})
			e, is := errors.AsType[*message.Error](err)
			if err == nil || is != (tt.code != "") || is && (e.Code != tt.code || e.What != "what" || e.Hint != "how") {
				t.Errorf("Result = %v, want the code %q", err, tt.code)
			}
			if strings.Contains(err.Error(), token) {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

// The {} of a proxy is no reply to a heartbeat: it would renew a lease that the engine has ended.
func TestHeartbeatOfAProxy(t *testing.T) {
	tr := transport(t, body(200, "application/json", `{}`))
	if rep, err := tr.Heartbeat(t.Context(), toolcall.HeartbeatRequest{Attempt: 1}); err == nil {
		t.Errorf("Heartbeat = %+v", rep)
	}
}

// A token that the server refuses ends a waiting worker, and the token is read again for each
// request.
func TestToken(t *testing.T) {
	var wants atomic.Value
	wants.Store("first")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+wants.Load().(string) {
			problem(401, message.CodeForbidden)(w, r)
			return
		}
		body(200, "application/json", `{"cancel":true,"at":"2026-01-01T00:00:00Z"}`)(w, r)
	}))
	t.Cleanup(srv.Close)
	has, broken := "first", error(nil)
	tr := dial(t, httpwork.Config{URL: srv.URL + "/", Queue: toolcall.Queue{Tool: "job"}, Token: func() (string, error) { return has, broken }})
	for _, token := range []string{"first", "second"} {
		has = token
		wants.Store(token)
		if rep, err := tr.Heartbeat(t.Context(), toolcall.HeartbeatRequest{}); err != nil || !rep.Cancel {
			t.Errorf("the token %s: %+v, %v", token, rep, err)
		}
	}
	wants.Store("third")
	if _, err := tr.Next(t.Context()); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("Next with a refused token = %v", err)
	}
	broken = errors.New("no such file")
	if _, err := tr.Next(t.Context()); !errors.Is(err, broken) || errors.Is(err, message.ErrForbidden) {
		t.Errorf("Next without a token = %v", err)
	}
}

// After the token was replaced, attempts keep the one that started them until the server refuses it, and
// a waiting worker goes on with the new one.
func TestReplacedToken(t *testing.T) {
	has, refused, used, status := "first", "", "", 401
	tr := dial(t, httpwork.Config{URL: "http://h", Queue: toolcall.Queue{Tool: "job"}, Token: func() (string, error) { return has, nil }, Client: &http.Client{
		Transport: roundTrip(func(r *http.Request) *http.Response {
			w := httptest.NewRecorder()
			used = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			if r.URL.Path == "/v1/work/next" {
				has, refused = "third", used
			}
			if used == refused {
				problem(status, message.CodeForbidden)(w, r)
			} else {
				body(200, "application/json", `{"state":"finished","at":"2026-01-01T00:00:00Z"}`)(w, r)
			}
			return w.Result()
		}),
	}})
	if _, err := tr.Start(t.Context(), toolcall.StartRequest{Claim: "a"}); err != nil || used != "first" {
		t.Fatalf("Start with the token %q: %v", used, err)
	}
	has = "second"
	for claim, want := range map[string]string{"a": "first", "b": "second"} {
		if _, err := tr.Heartbeat(t.Context(), toolcall.HeartbeatRequest{Claim: claim}); err != nil || used != want {
			t.Errorf("the heartbeat of %s has the token %q: %v", claim, used, err)
		}
	}
	refused = "first"
	if _, err := tr.Result(t.Context(), toolcall.ResultRequest{Claim: "a"}); err == nil || errors.Is(err, message.ErrForbidden) {
		t.Errorf("Result with the refused token: %v", err)
	}
	if _, err := tr.Result(t.Context(), toolcall.ResultRequest{Claim: "a"}); err != nil || used != "second" {
		t.Errorf("Result with the token %q: %v", used, err)
	}
	for _, status = range []int{401, 403} {
		has = "second"
		if _, err := tr.Next(t.Context()); err == nil || errors.Is(err, message.ErrForbidden) {
			t.Errorf("Next whose token was replaced: %v", err)
		}
	}
}

// After its end, nothing of an attempt is left, whether or not it had a result.
func TestEndForgetsTheToken(t *testing.T) {
	record, err := json.Marshal(executortest.NewEngine("job").Record("call-1", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	has, used := "first", ""
	tr := dial(t, httpwork.Config{URL: "http://h", Queue: toolcall.Queue{Tool: "job"}, Token: func() (string, error) { return has, nil }, Client: &http.Client{
		Transport: roundTrip(func(r *http.Request) *http.Response {
			w := httptest.NewRecorder()
			used = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			reply := `{"at":"2026-01-01T00:00:00Z"}`
			if r.URL.Path == "/v1/work/next" {
				reply = `{"tasks":[{"task":"t1","record":` + string(record) + `}]}`
			}
			body(200, "application/json", reply)(w, r)
			return w.Result()
		}),
	}})
	task, err := tr.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range []toolcall.StartRequest{{Claim: "a"}, {Claim: "b", Refuse: "not ours"}} {
		has = "first"
		if _, err := tr.Start(t.Context(), start); err != nil {
			t.Fatal(err)
		}
		task.End(start.Claim)
		has = "second"
		if _, err := tr.Heartbeat(t.Context(), toolcall.HeartbeatRequest{Claim: start.Claim}); err != nil || used != "second" {
			t.Errorf("after the end of %s, the token %q is kept: %v", start.Claim, used, err)
		}
	}
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// fakeTasks answers requests for tasks in turn, and records the acknowledgements.
type fakeTasks struct {
	replies []string
	asked   int
	acks    []string
}

func (f *fakeTasks) RoundTrip(r *http.Request) (*http.Response, error) {
	text, _ := io.ReadAll(r.Body)
	out := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}
	if r.URL.Path == "/prefix/v1/work/ack" {
		f.acks = append(f.acks, string(text))
		return out, nil
	}
	reply := `{"tasks":[]}`
	if f.asked++; f.asked <= len(f.replies) {
		reply = f.replies[f.asked-1]
	}
	if reply == "busy" {
		out.StatusCode, reply = http.StatusTooManyRequests, `{"code":"over_limit","detail":"too many"}`
		out.Header = http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"7"}}
	}
	out.Body = io.NopCloser(strings.NewReader(reply))
	return out, nil
}

// Invalid tasks never reach the worker, and the worker pauses between requests to a server that
// answers at once.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTasks{replies: []string{
			`{"tasks":[]}`,
			`{"tasks":[{"task":"t1","record":{"v":99,"call":{}}}]}`,
			`{"tasks":[{"task":"t2","record":{"v":2,"what":1}}]}`,
			`{"tasks":[{"task":"t3","record":[]}]}`,
			`busy`,
		}}
		tr := dial(t, httpwork.Config{URL: "http://h/prefix", Queue: toolcall.Queue{Tool: "job", Route: "exec.x"}, Token: good, Client: &http.Client{Transport: f}})
		began := time.Now()
		if task, err := tr.Next(t.Context()); !errors.Is(err, message.ErrOverLimit) {
			t.Errorf("Next = %+v, %v", task, err)
		}
		if d := time.Since(began); d != 11*time.Second {
			t.Errorf("it took %s, want one second for each of 4 replies and the 7 that the server asked for", d)
		}
		want := []string{
			`{"tool_name":"job","subject":"exec.x","task":"t1","return":true,"delay_ms":10000}`,
			`{"tool_name":"job","subject":"exec.x","task":"t2"}`, `{"tool_name":"job","subject":"exec.x","task":"t3"}`,
		}
		if strings.Join(f.acks, "\n") != strings.Join(want, "\n") {
			t.Errorf("acknowledged\n%s\nwant\n%s", strings.Join(f.acks, "\n"), strings.Join(want, "\n"))
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := tr.Next(ctx); !errors.Is(err, message.ErrUnavailable) || f.asked > 66 {
			t.Errorf("Next without tasks = %v after %d requests in a minute", err, f.asked)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]httpwork.Config{
		"no URL":     {Queue: toolcall.Queue{Tool: "job"}, Token: good},
		"a scheme":   {URL: "nats://h", Queue: toolcall.Queue{Tool: "job"}, Token: good},
		"a password": {URL: "https://u:p@h", Queue: toolcall.Queue{Tool: "job"}, Token: good},
		"a query":    {URL: "https://h?token=1", Queue: toolcall.Queue{Tool: "job"}, Token: good},
		"no host":    {URL: "https:///x", Queue: toolcall.Queue{Tool: "job"}, Token: good},
		"no tool":    {URL: "https://h", Token: good},
		"no token":   {URL: "https://h", Queue: toolcall.Queue{Tool: "job"}},
	} {
		if tr, err := httpwork.New(c); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, tr, err)
		}
	}
}

// A certificate of an unknown authority is not a server that does not answer.
func TestCertificateOfAnotherAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports the handshake
	s.StartTLS()
	defer s.Close()
	tr := dial(t, httpwork.Config{URL: s.URL, Queue: toolcall.Queue{Tool: "job"}, Token: good})
	if _, err := tr.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot verify the certificate") || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("Next = %v", err)
	}
}
