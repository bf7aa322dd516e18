package mcp

import (
	"context"
	"encoding/json"
	"fmt"
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
