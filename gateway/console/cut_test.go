package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// TestFormThatBreaksOff: a form that did not arrive completely, or that cannot be parsed
// completely, decides nothing.
func TestFormThatBreaksOff(t *testing.T) {
	w := world(t)
	k := w.A.Ask("s1", "r1", "c1")
	form := url.Values{"session": {"s1"}, "reply": {"r1"}, "call": {"c1"}, "do": {"approve"}, "digest": {w.A.Show(k).Digest}, "csrf": {gatewaytest.ProofOf("ann")}}
	const kind = "application/x-www-form-urlencoded"
	w.Cut("Cookie: who=alpha.ann", "/inbox/response", kind, form.Encode())

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/inbox/response", strings.NewReader(form.Encode()+"&feedback=%zz"))
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "who", Value: "alpha.ann"})
	r.Header.Set("Content-Type", kind)
	res, err := w.Anonymous().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close() // only the status matters
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("a form with a field that cannot be read: %s, want 400", res.Status)
	}
	if c := w.A.Show(k); c.State != message.ToolCallAsking || len(c.Votes) > 0 {
		t.Errorf("the call is %s with %d votes, want asking", c.State, len(c.Votes))
	}
	if code, body := ask(t, w, "alpha.ann", http.MethodPost, "/inbox/response", form); w.A.Show(k).State == message.ToolCallAsking {
		t.Errorf("the complete form: %d %.300s", code, body)
	}
}
