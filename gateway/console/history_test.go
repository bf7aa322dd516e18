package console_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/toolcall"
)

// The history lists finished calls with who decided them, filters them, and links to the next
// page. Decided calls that are still running are listed above them.
func TestHistoryPage(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	b.goTo("/history")
	b.see("No finished calls yet")
	yes, no := w.A.Ask("s1", "r1", "c1"), w.A.Ask("s1", "r1", "c2")
	w.A.Approve(gatewaytest.Bob, yes)
	w.A.Finished(yes)
	w.A.Reject(gatewaytest.Ann, no, "too <much>")
	w.A.Propose("s2", "r1", "c1", gatewaytest.Drop, `{}`)
	slow := w.A.Propose("s2", "r1", "c2", gatewaytest.Slow, `{}`)
	b.see("approved by bob", "rejected by ann", "too <much>", "denied by rule never", "Decided but not finished")
	b.accessible("full")
	w.A.Release()
	w.A.Finished(slow.Key)
	b.until(`!document.body.innerText.includes("Decided but not finished")`)
	b.choose("#f-outcome", "rejected")
	b.until(`document.querySelectorAll(".history tbody tr").length === 1 && location.search === "?outcome=rejected"`)
	b.goTo("/history?by=bob&period=1h")
	b.until(`document.querySelectorAll(".history tbody tr").length === 1`)
	b.see("approved by bob")
	b.goTo("/history?by=nobody")
	b.see("No call matches", "Clear all filters")
	b.expect("400")
	b.goTo("/history?from=yesterday")
	b.see("enter a date and time")
	for i := range 60 {
		w.A.Finished(w.A.Propose("many", "r1", fmt.Sprint("c", i), gatewaytest.Echo, `{}`).Key)
	}
	b.goTo("/history")
	b.until(`document.querySelectorAll(".history tbody tr").length === 50`)
	b.click(`[rel=next]`)
	b.until(`document.querySelectorAll(".history tbody tr").length === 14`)
	b.see("Newest")
}

// An export contains every call that matches the filter, not only one page. It hides redacted
// values and contains no cell that a spreadsheet would take for a formula.
func TestHistoryExport(t *testing.T) {
	w := world(t)
	for i := range 230 {
		w.A.Finished(w.A.Propose("s1", "r1", fmt.Sprint("c", i), gatewaytest.Echo, `{}`).Key)
	}
	k := w.A.Propose("=1+1", "r1", "c1", gatewaytest.Login, `{"user":"u","password":"hush-hush"}`).Key
	w.A.Reject(gatewaytest.Ann, k, "no")
	get := func(query string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+"/history/export?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(&http.Cookie{Name: "who", Value: "alpha." + gatewaytest.Audie})
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	_, text := get("format=csv")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 232 {
		t.Fatalf("the file has %d rows, %v", len(rows), err)
	}
	if rows[1][2] != "'=1+1" || rows[1][9] != "Rejected" || rows[1][13] != "ann" || strings.Contains(text, "hush-hush") {
		t.Errorf("the newest call is %q", rows[1])
	}
	_, text = get("format=json&tool=login")
	var calls []*toolcall.Call
	if err := json.Unmarshal([]byte(text), &calls); err != nil || len(calls) != 1 || calls[0].Tool != gatewaytest.Login || strings.Contains(text, "hush-hush") {
		t.Errorf("the file is %s, %v", text, err)
	}
	if _, text = get("format=json&tool=nope"); strings.TrimSpace(text) != "[\n]" {
		t.Errorf("an empty export is %q", text)
	}
	if status, _ := get("format=xls"); status != http.StatusBadRequest {
		t.Errorf("an unknown format gets the status %d", status)
	}
}
