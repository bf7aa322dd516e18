package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
)

// writeTimeout is how long a reader of a stream may take for one write.
const writeTimeout = 10 * time.Second

// SSE writes server-sent events. It is for one goroutine.
type SSE struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// NewSSE begins a stream of server-sent events.
func NewSSE(w http.ResponseWriter) *SSE {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // the request is read; the peer may be silent from now on
	return &SSE{w: w, rc: rc}
}

// Event writes one event; id and name may be empty. data must have no line
// breaks but in JSON's escaped form, or is split as the format demands.
func (s *SSE) Event(id, name string, data []byte) error {
	var b strings.Builder
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		b.WriteString("data: " + strings.TrimSuffix(line, "\r") + "\n")
	}
	b.WriteString("\n")
	return s.Write([]byte(b.String()))
}

// JSON writes one event without an id, whose data is v.
func (s *SSE) JSON(name string, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	return s.Event("", name, b)
}

// KeepAlive writes a comment, which clients skip.
func (s *SSE) KeepAlive() error { return s.Write([]byte(":\n\n")) }

// Write writes bytes that are framed already, and flushes them. A reader that
// does not take them within writeTimeout is cut off.
func (s *SSE) Write(b []byte) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.rc.Flush()
}
