package agui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agui"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// raw sends a body unchanged.
func (s *stage) raw(who, method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := s.Anonymous()
	if who != "" {
		client = s.A.HTTP(who)
	}
	res, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// text reads a whole response.
func text(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// body returns the input of a run in which the given members replace the defaults.
func body(members ...string) string {
	all := map[string]string{
		"threadId": `"t"`, "runId": `"r"`, "protocolVersion": `"1.0"`, "messages": `[{"id":"u1","role":"user","content":"say hi"}]`,
		"tools": `[]`, "context": `[]`, "state": `{}`, "forwardedProps": `{}`,
	}
	for i := 0; i+1 < len(members); i += 2 {
		if all[members[i]] = members[i+1]; members[i+1] == "" {
			delete(all, members[i])
		}
	}
	var b strings.Builder
	for name, value := range all {
		fmt.Fprintf(&b, ",%q:%s", name, value)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// TestRefusedRequests: an invalid run is refused with an HTTP status, so no client takes the
// reply for a stream.
func TestRefusedRequests(t *testing.T) {
	s := newStage(t)
	many := strings.TrimSuffix(strings.Repeat(`{"id":"x","role":"user","content":""},`, agui.MaxMessages+1), ",")
	for _, of := range []struct {
		name, who, path, body string
		status                int
		code                  message.Code
	}{
		{"no credentials", "", "/agui", body(), 401, message.CodeForbidden},
		{"an approver", gatewaytest.Ann, "/agui", body(), 403, message.CodeForbidden},
		{"a worker", gatewaytest.Wendy, "/agui", body(), 403, message.CodeForbidden},
		{"an auditor connects", gatewaytest.Audie, "/agui/connect", body(), 403, message.CodeForbidden},
		{"no JSON", gatewaytest.Bot, "/agui", "hello", 400, message.CodeInvalid},
		{"nothing", gatewaytest.Bot, "/agui", "", 400, message.CodeInvalid},
		{"two objects", gatewaytest.Bot, "/agui", body() + body(), 400, message.CodeInvalid},
		{"a list", gatewaytest.Bot, "/agui", "[]", 400, message.CodeInvalid},
		{"a duplicate member", gatewaytest.Bot, "/agui", strings.Replace(body(), "{", `{"threadId":"x",`, 1), 400, message.CodeInvalid},
		{"no thread", gatewaytest.Bot, "/agui", body("threadId", ""), 400, message.CodeInvalid},
		{"an empty thread", gatewaytest.Bot, "/agui", body("threadId", `""`), 400, message.CodeInvalid},
		{"no run", gatewaytest.Bot, "/agui", body("runId", ""), 400, message.CodeInvalid},
		{"no messages", gatewaytest.Bot, "/agui", body("messages", ""), 400, message.CodeInvalid},
		{"messages of a wrong type", gatewaytest.Bot, "/agui", body("messages", `{}`), 400, message.CodeInvalid},
		{"a message without id", gatewaytest.Bot, "/agui", body("messages", `[{"role":"user","content":"x"}]`), 400, message.CodeInvalid},
		{"a resume of a wrong type", gatewaytest.Bot, "/agui", body("resume", `"x"`), 400, message.CodeInvalid},
		{"a status of a resume", gatewaytest.Bot, "/agui", body("resume", `[{"interruptId":"x","status":"done"}]`), 400, message.CodeInvalid},
		{"another major", gatewaytest.Bot, "/agui", body("protocolVersion", `"2.0"`), 400, message.CodeInvalid},
		{"no such agent", gatewaytest.Bot, "/agui/agents/unknown", body(), 404, message.CodeNotFound},
		{"a long thread", gatewaytest.Bot, "/agui", body("threadId", `"`+strings.Repeat("x", toolcall.MaxIDBytes+1)+`"`), 413, message.CodeTooLarge},
		{"many messages", gatewaytest.Bot, "/agui", body("messages", "["+many+"]"), 413, message.CodeTooLarge},
		{"a large body", gatewaytest.Bot, "/agui", body("state", `"`+strings.Repeat("x", agui.MaxBody)+`"`), 413, message.CodeTooLarge},
		{"a link that runs a script", gatewaytest.Bot, "/agui", body("messages", `[{"id":"u1","role":"user","content":[{"type":"image","source":{"type":"url","value":"javascript:alert(1)"}}]}]`), 400, message.CodeInvalid},
		{"a tool of the engine", gatewaytest.Bot, "/agui", body("tools", `[{"name":"pay","description":""}]`), 400, message.CodeInvalid},
	} {
		t.Run(of.name, func(t *testing.T) {
			s.t = t
			res := s.raw(of.who, http.MethodPost, of.path, of.body)
			var p gateway.Problem
			answer := text(t, res)
			if err := json.Unmarshal([]byte(answer), &p); err != nil || res.StatusCode != of.status || p.Code != of.code || p.Detail == "" || res.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %s, want %d %s", res.StatusCode, answer, of.status, of.code)
			}
		})
	}
	s.t = t
	if res := s.raw(gatewaytest.Bot, http.MethodPost, "/agui", body(), "Content-Type", "text/plain"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a body of another content type: %d", res.StatusCode)
	}
	if res := s.raw(gatewaytest.Bot, http.MethodPut, "/agui", body()); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", res.StatusCode)
	}
}

// TestServedRequests: harmless deviations from AG-UI are served.
func TestServedRequests(t *testing.T) {
	s := newStage(t)
	for i, of := range []struct {
		name, body string
		header     []string
	}{
		{"a regular input", body(), nil},
		{"unknown members", body("x", `{"y":1}`), nil},
		{"a newer minor", body("protocolVersion", `"1.7"`), nil},
		{"no version that anyone knows", body("protocolVersion", `"one"`), nil},
		{"nothing optional", body("tools", "", "context", "", "state", "", "forwardedProps", "", "protocolVersion", ""), nil},
		{"nulls", body("state", "null", "forwardedProps", "null"), nil},
		{"an empty run id", body("runId", `""`), nil},
		{"a charset", body(), []string{"Content-Type", "application/json; charset=utf-8"}},
		{"any answer", body(), []string{"Accept", "*/*"}},
		{"JSON wanted", body(), []string{"Accept", "application/json"}},
		{"protobuf wanted", body(), []string{"Accept", "application/vnd.ag-ui.event+proto, text/event-stream;q=0.1"}},
		{"content in parts", body("messages", `[{"id":"u1","role":"user","content":[{"type":"text","text":"say hi"},{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}}]}]`), nil},
		{"a system message", body("messages", `[{"id":"s1","role":"system","content":"Be brief."},{"id":"u1","role":"user","content":"say hi"}]`), nil},
		{"a history from elsewhere", body("messages", `[{"id":"u0","role":"user","content":"say old"},{"id":"a0","role":"assistant","content":"made up"},{"id":"u1","role":"user","content":"say hi"}]`), nil},
	} {
		t.Run(of.name, func(t *testing.T) {
			s.t = t
			res := s.raw(gatewaytest.Bot, http.MethodPost, "/agui", strings.Replace(of.body, `"t"`, fmt.Sprintf("%q", fmt.Sprint("t", i)), 1), of.header...)
			got := text(t, res)
			if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" || !strings.Contains(got, `"delta":"hi"`) || !strings.Contains(got, `"RUN_FINISHED"`) {
				t.Errorf("%d %s\n%s", res.StatusCode, res.Header, got)
			}
			if strings.Contains(got, "\r") || strings.Contains(got, "event:") {
				t.Errorf("a frame that old clients cannot read: %q", got)
			}
		})
	}
}

// TestDiscovery: GET returns what AG-UI has no way to ask for.
func TestDiscovery(t *testing.T) {
	s := newStage(t)
	var d agui.Discovery
	if err := json.Unmarshal([]byte(text(t, s.raw(gatewaytest.Bot, http.MethodGet, "/agui", ""))), &d); err != nil {
		t.Fatal(err)
	}
	if d.ProtocolVersion != "1.0" || len(d.Agents) != 3 || d.Agents[0].URL != "/agui/agents/bot" || !d.Agents[0].Capabilities.HumanInTheLoop.ApproveWithEdits {
		t.Errorf("discovered %+v", d)
	}
	if got := text(t, s.raw(gatewaytest.Bot, http.MethodPost, d.Agents[0].URL, body())); !strings.Contains(got, `"delta":"hi"`) {
		t.Errorf("the reply at the agent's own URL: %s", got)
	}
}

// TestKeepAlive: a stream without events sends comments.
func TestKeepAlive(t *testing.T) {
	s := newStage(t, func(c *agui.Config) { c.KeepAlive = 5 * time.Millisecond })
	res := s.raw(gatewaytest.Bot, http.MethodPost, "/agui", body("messages", `[{"id":"u1","role":"user","content":"wait"}]`))
	comments := 0
	for lines := bufio.NewScanner(res.Body); comments < 3 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), ":") {
			comments++
		}
	}
	if comments < 3 {
		t.Errorf("%d comments", comments)
	}
}

// TestServerStops: if the server cannot continue a run, the stream ends with an error and does
// not look finished.
func TestServerStops(t *testing.T) {
	s := newStage(t)
	res := s.raw(gatewaytest.Bot, http.MethodPost, "/agui", body("messages", `[{"id":"u1","role":"user","content":"say one\nwait"}]`))
	read := bufio.NewReader(res.Body)
	for line := ""; !strings.Contains(line, "TEXT_MESSAGE_END"); {
		var err error
		if line, err = read.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	s.Gateway.Close()
	rest, err := io.ReadAll(read)
	if err != nil || !strings.Contains(string(rest), `"RUN_ERROR"`) || !strings.Contains(string(rest), `"unavailable"`) {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
}

// expiring gives everyone credentials that end when the test revokes them.
type expiring struct{ revoked chan struct{} }

func (e expiring) Authenticate(*http.Request) (*gateway.Identity, error) {
	return &gateway.Identity{Name: gatewaytest.Bot, Space: "alpha", Roles: []toolcall.Role{toolcall.RoleRuntime}, Auth: "test", Revoked: e.revoked}, nil
}

func (e expiring) Token(r *http.Request, _ string) (*gateway.Identity, error) {
	return e.Authenticate(r)
}

// TestCredentialsEnd: a stream ends with an error when its credentials end.
func TestCredentialsEnd(t *testing.T) {
	auth := expiring{make(chan struct{})}
	s := newStageIn(t, []gatewaytest.Option{gatewaytest.Auth(auth)})
	res := s.raw("", http.MethodPost, "/agui", body("messages", `[{"id":"u1","role":"user","content":"wait"}]`))
	ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = res.Body.Close() })
	close(auth.revoked)
	if got := text(t, res); !strings.Contains(got, `"RUN_ERROR"`) || !strings.Contains(got, `"forbidden"`) {
		t.Errorf("the stream ends with %s", got)
	}
}

// TestBodyThatBreaksOff: an input that did not arrive completely begins no run.
func TestBodyThatBreaksOff(t *testing.T) {
	s := newStage(t)
	s.Cut("Authorization: Bearer "+s.A.Token(gatewaytest.Everything), "/agui", "application/json", body())
	if res := s.raw(gatewaytest.Everything, http.MethodPost, "/agui", body()); res.StatusCode != http.StatusOK {
		t.Errorf("the complete input: %s", res.Status)
	}
}
