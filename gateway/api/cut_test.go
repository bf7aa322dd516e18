package api_test

import (
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// TestBodyThatBreaksOff: a request that is cut off does nothing, even if its JSON is complete or
// no body is required.
func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.A.Ask("s1", "r1", "c1")
	answer := `{"digest":"` + w.A.Show(k).Digest + `","kind":"approve"}`
	interrupt := "/v1/sessions/s1/replies/r1/interrupt"
	w.Cut("Authorization: Bearer "+w.A.Token(gatewaytest.Ann), callPath(k)+"/response", "application/json", answer)
	w.Cut("Authorization: Bearer "+w.A.Token(gatewaytest.Olga), interrupt, "application/json", `{"reason":"no more"}`)
	if c := w.A.Show(k); c.State != message.ToolCallAsking || len(c.Votes) > 0 {
		t.Errorf("the call is %s with %d votes, want asking", c.State, len(c.Votes))
	}
	w.ok(w.A.HTTP(gatewaytest.Ann), post, callPath(k)+"/response", answer, nil)
}
