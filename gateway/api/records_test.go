package api_test

import (
	"net/http"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// TestRecordsAreNotMadeUp: programs cannot write records of what people were asked and answered.
func TestRecordsAreNotMadeUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const at = "/v1/sessions/s1/replies/r1/events"
	bot := w.A.HTTP(gatewaytest.Bot)
	for _, name := range []string{"askance.turn", "askance.agui.park", "askance.turn.opened"} {
		w.refused(bot, post, at, `{"events":[{"type":"CUSTOM","name":"other","value":{}},{"type":"CUSTOM","name":"`+name+`","value":{"v":1,"by":"ann"}}]}`, http.StatusForbidden, message.CodeForbidden)
	}
	w.ok(bot, post, at, `{"events":[{"type":"CUSTOM","name":"mine","value":{}}]}`, nil)
}
