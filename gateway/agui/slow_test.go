package agui_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway/gatewaytest"
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
