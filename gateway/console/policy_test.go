package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/permission"
)

// livePolicy loads the seeded policy as a server does: from a file that can change, and with a
// shadow.
func livePolicy(t *testing.T) (live *permission.Live, path string, opts []engine.Option) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long-name-", 6)) // wider than a phone
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "rules.yaml")
	shadow := filepath.Join(dir, "shadow.yaml")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, seedRules)
	write(shadow, strings.Replace(seedRules, "amount_cents <= 5000", "amount_cents <= 1000", 1))
	var tools []permission.Tool
	for _, tool := range seedTools(t) {
		tools = append(tools, tool.Tool)
	}
	live, err := permission.NewLive(permission.Paths(path), permission.LiveOptions{
		Options: permission.Options{Tools: tools, AllowUnknownTools: true, Enforced: engine.Duties()}, Shadow: permission.Paths(shadow),
	})
	if err == nil {
		err = live.Reload(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return live, path, []engine.Option{engine.WithPolicyStatus(live.Status), engine.WithPolicyText(live.Text)}
}

// The page shows the rules with their hits, files, shadow and versions, and decides about a call
// that a person enters.
func TestPolicyPage(t *testing.T) {
	live, path, opts := livePolicy(t)
	w := seeded(t, gatewaytest.LivePolicy(live, opts...))
	b := open(t, w, gatewaytest.Ann)
	b.goTo(callPath(openOf(w, "Bash")[0]) + "&do=edit") // explains the call and previews an edit, which are not hits
	b.see("These arguments run instead")
	b.until(`document.body.textContent.includes("with the current policy: ")`)
	b.goTo("/policy")
	b.see("refunds-over-limit", "no-destruction", "loaded")
	for _, rule := range []string{"small-refunds", "commands"} {
		hits := eval[string](b, fmt.Sprintf(`[...document.querySelectorAll(".policy-rules tr")].find((r) => r.innerText.includes(%q)).querySelector("td.num a").innerText`, rule))
		if hits != "1" {
			t.Errorf("%s has %s hits", rule, hits)
		}
	}
	b.accessible("rules")
	b.click(`a[href^="/policy?rule=refunds-over-limit"]`)
	b.see(`message: '"Refund "`, "rules.yaml:")
	line := 1 + strings.Count(seedRules[:strings.Index(seedRules, "- name: refunds-over-limit")], "\n")
	if first := eval[int](b, `Number(document.querySelector("#rule .code-lines .n").innerText)`); first != line {
		t.Errorf("the rule begins at line %d, want %d", first, line)
	}
	b.click(`a[href="/policy?view=files"]`)
	b.see("name: acme-production", "1 hit")
	b.accessible("files")
	b.click(`a[href="/policy?view=shadow"]`)
	b.see("decides differently about", "small-refunds")
	b.shot("shadow")

	b.click(`a[href="/policy?view=try"]`)
	b.see("Nothing is proposed, recorded or run.")
	b.write("#try-tool", "Bash")
	b.write("#try-input", `{"command":"rm -rf /"}`)
	b.click("#try .btn")
	b.see("by rule no-destruction", `args.command.contains("rm -rf")`)
	b.until(`document.activeElement.matches("#try .btn")`)
	b.accessible("try")
	b.write("#try-input", `{"command":`)
	b.click("#try .btn")
	b.see("The arguments are not JSON")
	b.write("#try-input", `{"order_id":"o-1"}`)
	b.write("#try-tool", "refund")
	b.click("#try .btn")
	b.see("The call never reaches the policy")

	b.goTo("/policy?view=versions")
	b.see("loaded only one version")
	if err := os.WriteFile(path, []byte(strings.Replace(seedRules, "amount_cents <= 5000", "amount_cents <= 2500", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := live.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.goTo("/policy?view=versions")
	b.see("in force", "amount_cents <= 2500")
	b.until(`document.querySelector(".diff tr.minus").innerText.includes("amount_cents <= 5000")`)
	b.shot("versions")
	b.goTo("/policy")
	b.see("loaded")
	if hits := eval[string](b, `document.querySelector('td a[href="/history?rule=small-refunds"]').innerText`); hits != "1" {
		t.Errorf("after a new version small-refunds has %s hits", hits)
	}
	if err := os.WriteFile(path, []byte("rules: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if live.Reload(t.Context()) == nil {
		t.Fatal("a broken policy was loaded")
	}
	b.goTo("/policy")
	b.see("The newest policy was refused", "stays in force")
	b.accessible("refused")
	b.do(chromedp.EmulateViewport(390, 844))
	b.shot("phone")
}

// Without a policy the page says what decides: that differs if one is configured but was refused.
func TestNoPolicy(t *testing.T) {
	refused, err := permission.NewLive(permission.Paths(filepath.Join(t.TempDir(), "none.yaml")), permission.LiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if refused.Reload(t.Context()) == nil {
		t.Fatal("a missing file was loaded")
	}
	const denied, asks = "everything but read-only tools is denied", "every call needs an approval"
	for _, c := range []struct {
		name     string
		opts     []gatewaytest.Option
		says, no string
	}{
		{"not configured", nil, asks, denied},
		{"refused", []gatewaytest.Option{gatewaytest.LivePolicy(refused, engine.WithPolicyStatus(refused.Status), engine.WithPolicyText(refused.Text))}, denied, asks},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, page := ask(t, world(t, c.opts...), "alpha.ann", http.MethodGet, "/policy", nil)
			if code != http.StatusOK || !strings.Contains(page, c.says) || strings.Contains(page, c.no) {
				t.Errorf("the page says %d\n%s", code, page)
			}
		})
	}
}

// Versions whose texts are too large to send are compared only by digest.
func TestLargeVersions(t *testing.T) {
	live, path, opts := livePolicy(t)
	w := seeded(t, gatewaytest.LivePolicy(live, opts...))
	large := seedRules + strings.Repeat("# "+strings.Repeat("x", 100)+"\n", 6000)
	for _, limit := range []string{"4000", "2500"} { // first the earlier version is small, then it is large
		text := strings.Replace(large, "amount_cents <= 5000", "amount_cents <= "+limit, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := live.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, page := ask(t, w, "alpha.ann", http.MethodGet, "/policy?view=versions", nil)
		if !strings.Contains(page, "This file differs, but the policies are too large to compare line by line.") || strings.Contains(page, "Both versions have the same files") {
			t.Errorf("the comparison of two large versions says\n%s", page)
		}
	}
}

// Without a script the playground is a form that the server evaluates. Roles that may not read
// the space are refused.
func TestPlaygroundRoles(t *testing.T) {
	w := seeded(t)
	form := url.Values{"tool": {"Bash"}, "input": {`{"command":"rm -rf /"}`}}
	for _, c := range []struct {
		who  string
		code int
		says string
	}{
		{"alpha.audie", http.StatusOK, "no-destruction"},
		{"alpha.bot", http.StatusForbidden, ""},
		{"alpha.wendy", http.StatusForbidden, ""},
	} {
		code, body := ask(t, w, c.who, http.MethodPost, "/policy?view=try", form)
		if code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d\n%s", c.who, code, body)
		}
	}
	form.Set("input", fmt.Sprintf(`{"command":%q}`, strings.Repeat("x", 300<<10)))
	if code, _ := ask(t, w, "alpha.ann", http.MethodPost, "/policy?view=try", form); code < 400 {
		t.Errorf("300 kB of input: %d", code)
	}
	if code, body := ask(t, w, "alpha.ann", http.MethodGet, "/policy?rule=nope", nil); code != http.StatusOK || !strings.Contains(body, "no rule nope") && !strings.Contains(body, "No rules are in force") {
		t.Errorf("%d\n%s", code, body)
	}
}

// The page lists queues without workers and blocked calls first.
func TestWorkersPage(t *testing.T) {
	w := seeded(t)
	b := open(t, w, gatewaytest.Olga)
	b.goTo("/workers")
	b.see("build_report", "no worker is connected", "3", "outcome is unknown")
	if first := eval[string](b, `document.querySelector(".queues tbody th").innerText`); !strings.HasPrefix(first, "build_report") && !strings.HasPrefix(first, "frail") {
		t.Errorf("the first queue is %s", first)
	}
	b.accessible("workers")
	b.do(chromedp.EmulateViewport(390, 844))
	b.shot("phone")
}
