package cli_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// receiver receives spans over OTLP.
type receiver struct {
	url string

	mu    sync.Mutex // guards the fields below
	bytes []byte
	spans []*wire.Span
	fail  int // how many requests it refuses
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{fail: 1}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var in collector.ExportTraceServiceRequest
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fail > 0 {
			r.fail--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if err != nil || proto.Unmarshal(body, &in) != nil || q.URL.Path != "/v1/traces" || q.Header.Get("Authorization") != "Basic eDp5" {
			t.Errorf("%s with %v is not an OTLP request: %v", q.URL, q.Header, err)
		}
		r.bytes = append(r.bytes, body...)
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// of returns the spans of a trace by name, after all the given names have arrived.
func (r *receiver) of(t *testing.T, trace string, names ...string) map[string]*wire.Span {
	t.Helper()
	for {
		out := map[string]*wire.Span{}
		r.mu.Lock()
		for _, s := range r.spans {
			if hex.EncodeToString(s.TraceId) == trace {
				out[s.Name] = s
			}
		}
		r.mu.Unlock()
		if !slices.ContainsFunc(names, func(n string) bool { return out[n] == nil }) {
			return out
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("the receiver got %v, want %v", out, names)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestTrace: a call is one connected trace from its proposal through the approval and a restart
// of the engine to a worker over HTTP and its tool. No span contains arguments.
func TestTrace(t *testing.T) {
	r := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.url)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20eDp5")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	s, token := serveWorkers(t)
	const trace, above = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	propose := toolcall.ProposeRequest{V: 1, Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{{ID: "c1", Name: "pay", Input: `{"cents":4711}`}}}
	if _, err := s.bot().Propose(toolcall.WithTrace(t.Context(), toolcall.Trace("00-"+trace+"-"+above+"-01")), propose); err != nil {
		t.Fatal(err)
	}
	s.stop()
	dir := filepath.Dir(s.data)
	s = serveOn(t, s.data, "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"))
	ok(t, "approve", "c1", "--data", s.data, "--as", "annabelle", "--yes")
	process(t, "worker", "--server", s.http, "--token-file", token, "--engine-key", filepath.Join(s.data, "engine.pub"), "--data", t.TempDir(), "--tool", "pay", "--", "sh", "-c", `cat >/dev/null; printf %s "$TRACEPARENT"`)
	c := s.finished("c1")

	got := r.of(t, trace, "call pay", "propose", "decide", "wait for approval", "queued", "run", "result", "execute pay")
	ids := map[string]string{above: "the runtime"}
	for name, span := range got {
		ids[hex.EncodeToString(span.SpanId)] = name
	}
	parents := map[string]string{}
	for name, span := range got {
		parents[name] = ids[hex.EncodeToString(span.ParentSpanId)]
	}
	for name, want := range map[string]string{
		"call pay": "the runtime", "propose": "call pay", "decide": "call pay", "wait for approval": "call pay", "queued": "call pay",
		"run": "call pay", "result": "call pay", "execute pay": "run",
	} {
		if parents[name] != want {
			t.Errorf("%s is below %q, want %q", name, parents[name], want)
		}
	}
	if want := "00-" + trace + "-" + hex.EncodeToString(got["execute pay"].SpanId) + "-01"; c.Result.Output.String() != want {
		t.Errorf("the tool has the trace %q, want %q", c.Result.Output.String(), want)
	}
	if wait, call := got["wait for approval"], got["call pay"]; wait.EndTimeUnixNano <= wait.StartTimeUnixNano || call.StartTimeUnixNano > wait.StartTimeUnixNano || call.EndTimeUnixNano < got["run"].EndTimeUnixNano {
		t.Errorf("the times do not fit: %v, %v", wait, call)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// No random id contains these. The arguments and the message about them contain "cents".
	if bytes.Contains(r.bytes, []byte("cents")) || bytes.Contains(r.bytes, []byte("annabelle")) {
		t.Error("a span contains an argument or the name of a person")
	}
	for _, want := range []string{"askance.verdict", "approve", "large", "payer"} {
		if !bytes.Contains(r.bytes, []byte(want)) {
			t.Errorf("no span contains %q", want)
		}
	}
}

// TestTraceOverHTTP: the header of a proposal over HTTP continues a trace. Without the header the
// call starts a trace. A trace that is not sampled has no spans.
func TestTraceOverHTTP(t *testing.T) {
	r := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.url)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20eDp5")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	cleanEnvironment(t)
	s := serve(t)
	post := func(id, header string) toolcall.Trace {
		t.Helper()
		body := `{"tool_calls":[{"type":"tool_call","id":"` + id + `","name":"ship","input":"{\"cents\":1}"}]}`
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.http+"/v1/sessions/s1/replies/r1/calls?as=runtime", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("traceparent", header)
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", resp.Status, text)
		}
		rep := decode[toolcall.ProposeReply](t, string(text))
		return rep.Calls[0].Trace
	}
	const quiet, loud = "00-11111111111111111111111111111111-b7ad6b7169203331-00", "00-22222222222222222222222222222222-b7ad6b7169203331-01"
	if got := post("c0", quiet); got != quiet {
		t.Errorf("the call has the trace %q", got)
	}
	if got := post("c1", loud); got != loud {
		t.Errorf("the call has the trace %q", got)
	}
	own := post("c2", "broken")
	if own.ID() == "" || !strings.HasSuffix(string(own), "-01") {
		t.Fatalf("a call without a trace has %q", own)
	}
	r.of(t, loud[3:35], "call ship", "run")
	if root := r.of(t, own.ID(), "call ship", "run")["call ship"]; len(root.ParentSpanId) != 0 {
		t.Errorf("the first span has the parent %x", root.ParentSpanId)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if hex.EncodeToString(s.TraceId) == quiet[3:35] {
			t.Errorf("the trace is not sampled but contains %s", s.Name)
		}
	}
}

func TestTraceSettings(t *testing.T) {
	cleanEnvironment(t)
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_ENDPOINT": "collector", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_CERTIFICATE": "missing.pem",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
			t.Setenv(name, value)
			fails(t, cli.ExitUsage, "OT", "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
		})
	}
}
