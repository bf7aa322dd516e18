package judge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// TestConformanceOfTasks: the gateway makes a task of each call that needs approval, so the
// suite's scenarios for tasks apply to it. The upstream has the tools that they name, without
// tasks. An approver approves every call that the suite does not cancel.
func TestConformanceOfTasks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, `version: 1
name: tasks
rules:
  - {name: sync, tool: greet, behavior: allow}
  - {name: quick, tool: slow_compute, behavior: allow, when: "has(args.seconds) && args.seconds == 0"}
  - {name: slow, tool: slow_compute, behavior: ask, when: "!has(args.seconds) || args.seconds != 0", approvers: {users: [ann]}}
  - {name: others, tool: [failing_job, protocol_error_job, confirm_delete, multi_input], behavior: ask, approvers: {users: [ann]}}
`)
	u := newUpstream(t,
		tool{"greet", define("greet"), func(r *request) string {
			var args struct{ Name string }
			_ = json.Unmarshal(r.Params.Arguments, &args) // the suite sends a name
			return text("Hello, " + args.Name + "!")
		}},
		ran("slow_compute"),
		tool{"failing_job", define("failing_job"), func(*request) string {
			return `"result":{"resultType":"complete","isError":true,"content":[{"type":"text","text":"failed"}]}`
		}},
		tool{"protocol_error_job", define("protocol_error_job"), func(*request) string { return `"error":{"code":-32603,"message":"broken"}` }},
		asks("confirm_delete", "confirm"), asks("multi_input", "one", "two"))
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	creating := &creations{}
	go h.approveAll(done, creating, func(c *call) bool { return !strings.Contains(c.Input, `"seconds":60`) })
	// Scenarios make the same calls at the same time, and none may join a call of another.
	front := creating.before(t, h.open(h.upstreams(map[string]map[string]any{"": {"url": u.url}}), "--no-join"))
	for scenario, least := range map[string]int{
		"tasks-lifecycle": 9, "tasks-capability-negotiation": 5, "tasks-wire-fields": 4, "tasks-request-state-removal": 3,
		"tasks-mrtr-input": 4, "tasks-request-headers": 5, "tasks-dispatch-and-envelope": 9,
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			found := suite(t, nil, "server", "--url", front, "--scenario", scenario)
			for name, c := range found {
				if c.failed > 0 {
					t.Errorf("%s fails: %q", name, c.why)
				}
			}
			if n := found.passed(); n < least {
				t.Errorf("%d checks pass, want %d: %v", n, least, found)
			}
		})
	}
}

// creations are requests that become a task if their call needs approval. Approvals wait until
// they end, because a call that is decided earlier gets its result at once.
type creations struct{ sync.RWMutex }

// before starts a server in front of the gateway that records these requests, and returns its
// address.
func (c *creations) before(t *testing.T, front string) string {
	to, err := url.Parse(front)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host})
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"tools/call"`)) && bytes.Contains(body, []byte(`"io.modelcontextprotocol/tasks"`)) {
			c.RLock()
			defer c.RUnlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + to.Path
}

// approveAll approves each call for which fits returns true, until done is closed.
func (h *house) approveAll(done <-chan struct{}, creating *creations, fits func(*call) bool) {
	seen := map[string]bool{}
	for {
		c := h.waitOr(done, func(c *call) bool { return c.State == "asking" && !seen[c.path()] && fits(c) })
		if c == nil {
			return
		}
		seen[c.path()] = true
		creating.Lock()
		creating.Unlock() //nolint:staticcheck // the requests have ended
		if status, out := h.request(ann, http.MethodPost, "/v1/calls/"+c.path()+"/response", map[string]any{"digest": c.Digest, "kind": "approve"}); status >= http.StatusInternalServerError {
			h.t.Errorf("approve %s: %d %s", c.path(), status, out) // a conflict means that it was cancelled in the meantime
		}
	}
}

// asks returns a tool that needs an answer from the client for each key.
func asks(name string, keys ...string) tool {
	return tool{name, define(name), func(r *request) string {
		var answers map[string]json.RawMessage
		_ = json.Unmarshal(r.Params.InputResponses, &answers) // there are none at first
		var missing []string
		for _, k := range keys {
			if answers[k] == nil {
				missing = append(missing, fmt.Sprintf(`%q:{"method":"elicitation/create","params":{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean"}}}}}`, k))
			}
		}
		if len(missing) == 0 {
			return text("done")
		}
		return `"result":{"resultType":"input_required","requestState":"s","inputRequests":{` + strings.Join(missing, ",") + `}}`
	}}
}

// TestConformanceOfUpstreamSide: the suite's servers judge what the gateway sends to an upstream.
// The client of the Go SDK for these scenarios does what they need, through a gateway in front of
// the suite's server.
func TestConformanceOfUpstreamSide(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "version: 1\nname: open\ndefaults: {mode: bypass}\nrules: []\n")
	// This check requires null to be sent where the schema requires a string. askance refuses
	// arguments that do not match the declared schema.
	const refused = "http-custom-headers sep-2243-client-omit-null"
	env := []string{"JUDGE_ASKANCE=" + bin.askance, "JUDGE_CLIENT=" + bin.client, "JUDGE_DIR=" + h.dir, "JUDGE_NATS=" + h.nats}
	for _, s := range []struct {
		scenario, revision string
		least              int
	}{
		{"tools_call", "2026-07-28", 2},
		{"request-metadata", "2026-07-28", 6},
		{"sep-2322-client-request-state", "2026-07-28", 5},
		{"http-standard-headers", "2026-07-28", 9},
		{"http-custom-headers", "2026-07-28", 17},
		{"http-invalid-tool-headers", "2026-07-28", 12},
		{"json-schema-ref-no-deref", "2026-07-28", 1},
		{"initialize", "2025-11-25", 1},
		{"tools_call", "2025-11-25", 2},
		{"elicitation-sep1034-client-defaults", "2025-11-25", 5},
		{"sse-retry", "2025-11-25", 3},
	} {
		t.Run(s.revision+" "+s.scenario, func(t *testing.T) {
			t.Parallel()
			found := suite(t, env, "client", "--command", bin.self+" "+proxiedArg, "--scenario", s.scenario, "--spec-version", s.revision)
			// The suite takes the first listening stream of a client for a reconnection if it begins
			// after the end of a request's stream.
			for n := 0; n < 3 && strings.Contains(fmt.Sprint(found[s.scenario+" client-sse-retry-timing"].why), "(-"); n++ {
				found = suite(t, env, "client", "--command", bin.self+" "+proxiedArg, "--scenario", s.scenario, "--spec-version", s.revision)
			}
			for name, c := range found {
				if c.failed > 0 && name != refused {
					t.Errorf("%s fails: %q", name, c.why)
				}
			}
			if n := found.passed(); n < s.least {
				t.Errorf("%d checks pass, want %d: %v", n, s.least, found)
			}
		})
	}
}

// proxiedMain runs the client of the Go SDK through a gateway in front of a server.
func proxiedMain(server string) int {
	code := 1
	t := &bareT{}
	defer t.cleanup()
	t.run(func() {
		h := &house{t: t, dir: os.Getenv("JUDGE_DIR"), nats: os.Getenv("JUDGE_NATS"), url: "http://127.0.0.1:1"}
		bin.askance = os.Getenv("JUDGE_ASKANCE")
		file := h.upstreams(map[string]map[string]any{"": {"url": server}})
		defer func() { _ = os.Remove(file) }() // it stays in a temporary folder
		front := h.open(file)
		cmd := exec.Command(os.Getenv("JUDGE_CLIENT"), front)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err == nil {
			code = 0
		}
	})
	return code
}
