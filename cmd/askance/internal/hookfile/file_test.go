package hookfile_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/hookfile"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/gateway/webhook"
)

var secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("BOT_SECRET", secret)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, url := write("key", secret+"\n"), write("url", "https://hooks.example/T/B/X\n")
	all, err := hookfile.Load(write("hooks.yaml", `version: 1
destinations:
  - name: bot
    url: https://bot.example/askance
    secrets: [{file: `+key+`}, {env: BOT_SECRET}]
    events: [request, escalation, outcome]
    tools: [refund, "github/*"]
    timeout: 20s
    attempts: 3
  - {name: chat, format: slack, url_file: `+url+`, events: [request]}
`))
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	bot, chat := all[0], all[1]
	if bot.Name != "bot" || bot.URL != "https://bot.example/askance" || len(bot.Secrets) != 2 || len(bot.Events) != 3 || len(bot.Tools) != 2 || bot.Timeout != 20*time.Second || bot.Attempts != 3 {
		t.Errorf("bot: %+v", bot)
	}
	if chat.Format != webhook.FormatSlack || chat.URL != "https://hooks.example/T/B/X" {
		t.Errorf("chat: %v", chat)
	}
	if _, err := hookfile.Load(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file was loaded")
	}
}

// Errors say what is wrong without showing a secret.
func TestParseRefused(t *testing.T) {
	t.Setenv("ODD", "very-secret")
	t.Setenv("EMPTY", "")
	const head = "version: 1\ndestinations:\n"
	for text, want := range map[string]string{
		"version: 2":        "write version: 1",
		"version: 1\nx: 1":  `unknown field "x"`,
		"version: 1\n\t- x": "",
		head + "  - {name: a, url: https://x.example, events: [request]}":                                     "secrets: none",
		head + "  - {name: a, url: https://x.example, events: [request], secrets: [{env: ODD}]}":              "secrets: $ODD: the secret does not begin with whsec_",
		head + "  - {name: a, url: https://x.example, events: [request], secrets: [{env: EMPTY}]}":            "the environment variable EMPTY is not set",
		head + "  - {name: a, url: https://x.example, events: [request], secrets: [{}]}":                      "pass exactly one of file and env",
		head + "  - {name: a, url: https://x.example, events: [request], secrets: [{file: /none/there}]}":     "secrets: open /none/there",
		head + "  - {name: a, url: https://x.example, events: [request], secrets: [" + secret + "]}":          "",
		head + "  - {name: a, format: slack, events: [request]}":                                              "pass exactly one of url, url_file and url_env",
		head + "  - {name: a, format: slack, url_file: 'https://x.example/very-secret', events: [request]}":   "write the URL itself as url",
		head + "  - {name: a, format: slack, url_env: ODD, events: [request]}":                                "url: is not valid",
		head + "  - {name: a, format: slack, url: https://x.example, url_env: ODD, events: [request]}":        "pass exactly one of url",
		head + "  - {name: a, format: slack, url: https://x.example, events: [request], timeout: x}":          "timeout",
		head + "  - {name: a, format: slack, url: https://x.example, events: [request], attempts: 0}":         "attempts: 0 is below 1",
		head + "  - {name: a, format: slack, url: https://x.example, events: [request], hidden: 1}":           "unknown field",
		head + "  - {name: a, format: slack, url: https://x.example, events: [request], name: b}":             "",
		head + "  - {name: a, format: slack, url: https://x.example, events: [asked]}":                        "name request",
		head + strings.Repeat("  - {name: a, format: slack, url: https://x.example, events: [request]}\n", 2): "occurs twice",
		head + "  - &x {name: a, format: slack, url: https://x.example, events: [request]}\n  - *x":           "is an anchor",
		head + "  - {name: a, format: slack, url: https://x.example, events: [request], attempts: 2.5}":       "attempts: must be a whole number",
		"# " + strings.Repeat("x", textfile.MaxBytes):                                                         "longer than 1 MiB",
	} {
		all, err := hookfile.Parse("hooks.yaml", []byte(text))
		bad, ok := errors.AsType[*textfile.Error](err)
		if !ok || all != nil || !strings.Contains(err.Error(), want) || bad.File != "hooks.yaml" {
			t.Errorf("%.200s\n%v, want %q", text, err, want)
			continue
		}
		if strings.Contains(err.Error(), "very-secret") || strings.Contains(err.Error(), secret) {
			t.Errorf("the error contains a secret: %v", err)
		}
	}
}

// FuzzParse: no file causes a panic, and accepted files can be used.
func FuzzParse(f *testing.F) {
	f.Add("version: 1\ndestinations:\n  - {name: a, format: slack, url: https://x.example, events: [request]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := hookfile.Parse("f", []byte(text))
		if err == nil && webhook.Check(all) != nil {
			t.Errorf("an accepted file is invalid: %v", webhook.Check(all))
		}
	})
}
