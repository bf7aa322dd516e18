package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// world is a world that serves the API and checks every response against the OpenAPI document.
type world struct {
	*gatewaytest.World
	t    *testing.T
	doc  map[string]any
	seen map[string]bool // operations that succeeded at least once
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, func(*gatewaytest.World, *api.Config) {})
}

// newWorldWith returns a world whose API has another configuration.
func newWorldWith(t *testing.T, more func(*gatewaytest.World, *api.Config), opts ...gatewaytest.Option) *world {
	t.Helper()
	var surface *api.API
	w := &world{t: t, seen: map[string]bool{}, World: gatewaytest.New(t, append(opts, gatewaytest.Surfaces(func(g *gatewaytest.World) []gateway.Surface {
		cfg := api.Config{Version: "1.2.3"}
		more(g, &cfg)
		var err error
		if surface, err = api.New(cfg); err != nil {
			t.Fatal(err)
		}
		return []gateway.Surface{surface}
	}))...)}
	if err := json.Unmarshal(surface.OpenAPI(), &w.doc); err != nil {
		t.Fatal(err)
	}
	return w
}

// response is what the server returned.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (r response) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
}

// do sends a request and checks the response against the document. header alternates names and
// values.
func (w *world) do(c *http.Client, method, path, body string, header ...string) response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.check(method, path, res.StatusCode, res.Header.Get("Content-Type"), b)
	return response{res.StatusCode, res.Header, b}
}

// ok is like do; the request must succeed.
func (w *world) ok(c *http.Client, method, path, body string, into any, header ...string) {
	w.t.Helper()
	a := w.do(c, method, path, body, header...)
	if a.status != http.StatusOK {
		w.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	if into != nil {
		a.into(w.t, into)
	}
}

// refused is like do; the request must be refused with the status and the code.
func (w *world) refused(c *http.Client, method, path, body string, status int, code message.Code, header ...string) gateway.Problem {
	w.t.Helper()
	a := w.do(c, method, path, body, header...)
	var p gateway.Problem
	a.into(w.t, &p)
	if a.status != status || p.Code != code || p.Status != status || p.Detail == "" {
		w.t.Errorf("%s %s: %d %s; want %d %s and a detail", method, path, a.status, a.body, status, code)
	}
	return p
}

// check validates a response with the schema of its operation in the document.
func (w *world) check(method, path string, status int, kind string, body []byte) {
	w.t.Helper()
	path, _, _ = strings.Cut(path, "?")
	paths, _ := w.doc["paths"].(map[string]any)
	for pattern, item := range paths {
		o, _ := item.(map[string]any)[strings.ToLower(method)].(map[string]any)
		if o == nil || !matches(pattern, path) {
			continue
		}
		pointer := "/components/responses/Problem/content/application~1problem+json/schema"
		if status == http.StatusOK {
			pointer = "/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(pattern) + "/" + strings.ToLower(method) + "/responses/200/content/" + strings.ReplaceAll(kind, "/", "~1") + "/schema"
			id, _ := o["operationId"].(string)
			w.seen[id] = true
			if body == nil {
				continue // a stream
			}
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("mem:///doc", w.doc); err != nil {
			w.t.Fatal(err)
		}
		s, err := c.Compile("mem:///doc#" + pointer)
		if err != nil {
			w.t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			w.t.Fatalf("%s %s: invalid JSON: %v: %s", method, path, err, body)
		}
		if err := s.Validate(v); err != nil {
			w.t.Errorf("%s %s: the response does not match the document: %v\n%s", method, path, err, body)
		}
	}
}

func matches(pattern, path string) bool {
	p, q := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if p[i] != q[i] && !strings.HasPrefix(p[i], "{") {
			return false
		}
	}
	return path != "/v1/calls/stream" || pattern == path
}

// event is one server-sent event.
type event struct{ id, name, data string }

// events opens a stream; next waits for the next event.
func (w *world) events(c *http.Client, path string, header ...string) (next func() event, end func()) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("GET %s: %d %s", path, res.StatusCode, res.Header)
	}
	w.check(http.MethodGet, path, res.StatusCode, "", nil)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	watchdog := time.AfterFunc(gatewaytest.Patience, func() { res.Body.Close() })
	end = func() { watchdog.Stop(); res.Body.Close() }
	w.t.Cleanup(end)
	return func() event {
		var e event
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case name == "id":
				e.id = value
			case name == "event":
				e.name = value
			case name == "data":
				e.data += value
			case name == "" && e != event{}:
				return e
			}
		}
		w.t.Helper()
		w.t.Fatalf("the stream of %s ended: %v", path, lines.Err())
		return e
	}, end
}
