package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/askance-dev/askance/toolcall"
)

// form posts a form, or gets a page if form is nil.
func (w *wired) form(c *http.Client, path string, form url.Values) (int, string) {
	w.t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := c.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// TestApproverIsWhoLoggedIn covers the way from the login page to the vote in the journal, which
// contains the name of the token, not one from the form.
func TestApproverIsWhoLoggedIn(t *testing.T) {
	w := wire(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	if code, text := w.form(c, "/", nil); code != http.StatusOK || !strings.Contains(text, `action="/login"`) {
		t.Fatalf("a request without a login gets %d and no login page", code)
	}
	if code, text := w.form(c, "/login", url.Values{"token": {w.secrets["approver of A"]}, "next": {"/"}}); code != http.StatusOK || !strings.Contains(text, marker) {
		t.Fatalf("after the login: %d", code)
	}
	_, text := w.form(c, "/auth/session", nil)
	var self struct{ CSRF string }
	if err := json.Unmarshal([]byte(text), &self); err != nil {
		t.Fatal(err)
	}
	answer := url.Values{
		"session": {"s1"}, "reply": {"r1"}, "call": {"c1"}, "digest": {w.call.Digest}, "do": {"approve"},
		"name": {"mallory"}, "by": {"mallory"}, "approver": {"mallory"}, "user": {"mallory"},
	}
	if code, _ := w.form(c, "/inbox/response", answer); code != http.StatusForbidden {
		t.Errorf("a response without the CSRF token: %d", code)
	}
	answer.Set("csrf", self.CSRF)
	if code, text := w.form(c, "/inbox/response", answer); code != http.StatusOK {
		t.Errorf("the response: %d %.300s", code, text)
	}
	votes := w.A.Finished(w.call.Key).Votes
	if len(votes) != 1 || votes[0].By != (toolcall.Principal{Role: toolcall.RoleApprover, Name: "approver", Auth: "http-token"}) {
		t.Errorf("the journal has the votes %+v", votes)
	}
	if code, _ := w.form(c, "/logout", url.Values{"csrf": {self.CSRF}}); code != http.StatusOK {
		t.Errorf("log-out: %d", code)
	}
	if _, text := w.form(c, "/", nil); strings.Contains(text, marker) {
		t.Error("the inbox is still open after the logout")
	}
}
