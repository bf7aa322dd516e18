package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Frames that wait for a slow client are not sent after its credentials have ended.
func TestNoFramesAfterTheCredentials(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/mcp", nil)
	r.Header.Set("Accept", "text/event-stream")
	w := httptest.NewRecorder()
	a := newAnswer(w, r, false)
	end()
	a.send(&frame{method: "notifications/message"})
	if w.Body.Len() > 0 {
		t.Errorf("sent %q", w.Body)
	}
	a.finish(responseTo(intID(1), []byte(`"secret"`), nil), false)
	if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("answered %d %q", w.Code, w.Body)
	}
}
