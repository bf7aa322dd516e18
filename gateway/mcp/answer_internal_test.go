package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
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

// limited records the time limits of a request.
type limited struct {
	*httptest.ResponseRecorder
	until []time.Time
}

func (l *limited) SetReadDeadline(t time.Time) error {
	l.until = append(l.until, t)
	return nil
}

// A request that arrives slowly does not occupy its connection for ever. A whole one can wait for
// a person.
func TestBodyHasTimeLimit(t *testing.T) {
	for _, c := range []struct {
		name, method, kind, body string
		admitted, whole          bool
	}{
		{"a message", http.MethodPost, "application/json", `{}`, true, true},
		{"a message of a stranger", http.MethodPost, "application/json", `{}`, false, false},
		{"a body that is not read", http.MethodPost, "text/plain", `{}`, true, false},
		{"a stream", http.MethodGet, "", "", true, true},
		{"a stream with a body that is not read", http.MethodGet, "", `{}`, true, false},
	} {
		s := &httpServer{g: &Gateway{}, cfg: HTTPConfig{Public: true, Authenticate: func(*http.Request) (string, error) {
			if !c.admitted {
				return "", errors.New("unknown")
			}
			return "bot", nil
		}}, sessions: map[string]*session{}}
		w := &limited{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/mcp", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		s.ServeHTTP(w, r)
		if len(w.until) == 0 || w.until[0].IsZero() || w.until[len(w.until)-1].IsZero() != c.whole {
			t.Errorf("%s: the time limits were %v", c.name, w.until)
		}
	}
}

// The output schema of a server decides only whether a person's response is structured. This one
// would double the work of a checker 64 times.
func TestRespondDespiteHostileSchema(t *testing.T) {
	var schema strings.Builder
	schema.WriteString(`{"$ref":"#/$defs/0","$defs":{`)
	for i := range 64 {
		fmt.Fprintf(&schema, `"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
	}
	schema.WriteString(`"64":{}}}`)
	typed := &held{tool: &tool{definition: object{{Name: "outputSchema", Value: json.RawMessage(schema.String())}}}}
	for _, c := range []struct {
		h          *held
		text       string
		structured bool
	}{
		{typed, `{"n":7}`, true},
		{typed, `7`, false},
		{typed, `{"n":7} ` + "and so on", false},
		{&held{tool: &tool{}}, `{"n":7}`, false},
	} {
		got := make(chan *outcome, 1)
		go func() {
			got <- c.h.answered(&toolcall.Call{Result: &message.ToolResultBlock{Output: message.Content{Text: c.text}}}, "")
		}()
		select {
		case o := <-got:
			if strings.Contains(string(o.result), `"structuredContent":`+c.text) != c.structured {
				t.Errorf("%q became %s", c.text, o.result)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%q: the schema is still being checked", c.text)
		}
	}
}

// A server cannot make the gateway reconnect without a pause.
func TestReconnectPause(t *testing.T) {
	for retry, want := range map[string]time.Duration{"0": minReconnect, "500": 500 * time.Millisecond, "999999999": time.Minute, "-1": time.Second} {
		if _, wait, _ := readEvents(io.NopCloser(strings.NewReader("id: 1\nretry: "+retry+"\n\n")), func(*frame) {}); wait != want {
			t.Errorf("retry %s: a pause of %v, want %v", retry, wait, want)
		}
	}
}
