package react_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// model is a server that replays answers, one for each request.
type model struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex // guards what follows
	answers []response
	asked   []request
	size    int // of the pieces in which streams are sent; 0: whole
}

// response is what the server does with one request.
type response struct {
	file   string // in testdata
	status int    // default 200
	header map[string]string
	cut    bool // the connection breaks after the file
	hold   chan struct{}
}

// request is what the agent sends.
type request struct {
	Model         string           `json:"model"`
	Messages      []map[string]any `json:"messages"`
	Tools         []map[string]any `json:"tools"`
	Stream        bool             `json:"stream"`
	StreamOptions map[string]any   `json:"stream_options"`
	key           string
}

func newModel(t testing.TB, answers ...response) *model {
	t.Helper()
	m := &model{t: t, answers: answers}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	var req request
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil || r.URL.Path != "/v1/chat/completions" || r.Method != http.MethodPost {
		m.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	req.key = r.Header.Get("Authorization")
	m.mu.Lock()
	m.asked = append(m.asked, req)
	a, size := response{status: http.StatusTeapot}, m.size
	if len(m.answers) > 0 {
		a, m.answers = m.answers[0], m.answers[1:]
	}
	m.mu.Unlock()
	var body []byte
	if a.file != "" {
		var err error
		if body, err = os.ReadFile(filepath.Join("testdata", a.file)); err != nil {
			m.t.Error(err)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if filepath.Ext(a.file) == ".sse" {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	if size == 0 {
		size = max(len(body), 1)
	}
	for piece := range slices.Chunk(body, size) {
		_, _ = w.Write(piece) // the agent may be gone
		w.(http.Flusher).Flush()
	}
	if a.hold != nil {
		select {
		case <-a.hold:
		case <-r.Context().Done():
		}
	}
	if a.cut {
		panic(http.ErrAbortHandler)
	}
}

// requests are those that came, as JSON for messages.
func (m *model) requests() []request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// messages are a request's messages, one a line.
func (r request) messages(t testing.TB) string {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for _, m := range r.Messages {
		if err := e.Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
