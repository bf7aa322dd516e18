package console_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
)

// The page shows how much of the journal is signed, verifies it, finds a call by its id, offers
// its receipt, and says why a changed receipt is not valid.
func TestAuditPage(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Audie)
	b.goTo("/audit")
	b.see("Empty", "No records yet.")
	k := w.A.Propose("s1", "r1", "c<1>", gatewaytest.Login, `{"user":"u","password":"hush-hush"}`).Key
	w.A.Reject(gatewaytest.Ann, k, "no")
	b.write("#call", "c<1>")
	b.click(".inline-form .btn")
	b.see("s1 / r1 / c<1>", "Rejected")
	text := receiptOf(t, w, url.Values{"session": {"s1"}, "reply": {"r1"}, "call": {"c<1>"}})
	if strings.Contains(text, "hush-hush") {
		t.Error("the receipt contains a redacted value")
	}
	b.goTo("/audit?call=s1/r1/c<1>")
	b.see("s1 / r1 / c<1>", "everything is signed")
	b.click(".page-actions .btn")
	b.see("no finding", "Verified")
	check := func(receipt string) {
		t.Helper()
		eval[bool](b, `(document.querySelector("#receipt").value = `+quote(receipt)+`, true)`)
		b.click("#check-form .primary")
	}
	check(text)
	b.see("Valid.", "rejected by ann", "of them redacted")
	b.accessible("valid")
	check(strings.Replace(text, `"rejected"`, `"approved"`, 1)[:len(text)-3])
	b.see("Not valid.", "the file is not a receipt")
	check(strings.Replace(text, `"name":"ann"`, `"name":"bob"`, 1))
	b.see("Not valid.", "does not match its event records")
	b.accessible("invalid")
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string can always be encoded
	return string(b)
}

// receiptOf downloads a receipt using the form on the page.
func receiptOf(t *testing.T, w *gatewaytest.World, call url.Values) string {
	t.Helper()
	call.Set("csrf", gatewaytest.ProofOf(gatewaytest.Audie))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/audit/receipt", strings.NewReader(call.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", w.URL)
	req.AddCookie(&http.Cookie{Name: "who", Value: "alpha." + gatewaytest.Audie})
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment") {
		t.Fatalf("the receipt is answered with %d: %s, %v", res.StatusCode, body, err)
	}
	return strings.TrimSpace(string(body))
}
