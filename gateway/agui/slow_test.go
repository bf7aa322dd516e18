package agui_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/toolcall"
)

// TestSlowReader: a client that does not read is disconnected. The turn continues, and the client
// gets all of it when it returns.
func TestSlowReader(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStageIn(t, []gatewaytest.Option{gatewaytest.In(dir), gatewaytest.Piped()})
		res := s.raw(gatewaytest.Bot, http.MethodPost, "/agui", body("messages", `[{"id":"t-u1","role":"user","content":"stream 300"}]`))
		time.Sleep(30 * time.Second)
		c := s.client(gatewaytest.Bot, "t")
		c.runs = 5
		c.post("/agui/connect", c.input()).is(t, "success")
		if words := c.words(); !strings.Contains(words, "00300") {
			t.Errorf("the client has\n%.200s", words)
		}
		if got, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(string(got), "RUN_FINISHED") {
			t.Errorf("the slow reader was not disconnected: %v", err)
		}
	})
}

// TestUnknownOutcome: a run whose call waits for an operator ends with an interrupt, and goes on
// once the operator has resolved the call. Here the engine that ran it died.
func TestUnknownOutcome(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStageIn(t, []gatewaytest.Option{gatewaytest.In(dir), gatewaytest.Piped()})
		c := s.client(gatewaytest.Everything, "t").said("call slow {}", "say after")
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		_, _ = c.send(ctx, "/agui", c.input(), nil) // the tool still runs
		s.A.Restart()
		c.post("/agui/connect", c.input()).is(t, "interrupt")
		if i := c.open[0]; len(c.open) != 1 || *i.ToolCallID != "call-1-1" || !strings.Contains(*i.Message, "so the outcome is unknown), and an operator") {
			t.Errorf("the interrupt is %+v", i)
		}
		c.talk(c.all(`{}`)...).is(t, "interrupt")
		calls, err := s.A.Client(gatewaytest.Olga).List(t.Context(), toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseBlocked}})
		if err != nil || len(calls.Calls) != 1 {
			t.Fatalf("%+v, %v", calls, err)
		}
		if _, err := s.A.Client(gatewaytest.Olga).Resolve(t.Context(), toolcall.ResolveRequest{Key: calls.Calls[0].Key, Outcome: toolcall.OutcomeHappened, Attempt: calls.Calls[0].Attempt.Number, Output: "it ran"}); err != nil {
			t.Fatal(err)
		}
		c.talk(c.all(`{}`)...).is(t, "success")
		if words := c.words(); !strings.Contains(words, "slow: success: it ran") || !strings.Contains(words, "after") {
			t.Errorf("the client has\n%s", words)
		}
	})
}
