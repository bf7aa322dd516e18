package webhook_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/webhook"
)

func TestParseSecret(t *testing.T) {
	text := "whsec_" + base64.StdEncoding.EncodeToString(secretBytes)
	s, err := webhook.ParseSecret(text + "\n")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "destination", webhook.Destination{Name: "n", URL: "https://x.example/" + text, Secrets: []webhook.Secret{s}})
	b, _ := json.Marshal(s)
	for _, out := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %x %q", s, s, s, s, s, s), log.String(), string(b)} {
		if strings.Contains(out, string(secretBytes)) || strings.Contains(out, text[6:]) || strings.Contains(out, fmt.Sprintf("%x", secretBytes)) {
			t.Errorf("a secret is printed: %s", out)
		}
	}
	for _, bad := range []string{"", "x", "whsec_", "whsec_!", "whsec_AAAA", text[6:], "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := webhook.ParseSecret(bad); err == nil || bad != "" && len(bad) > 8 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The example signature of Standard Webhooks.
func TestSign(t *testing.T) {
	s, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := webhook.Sign([]webhook.Secret{s}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signature %s", got)
	}
}

func TestCheck(t *testing.T) {
	good := everything(t, "https://x.example/secret-path")
	for name, change := range map[string]func(*webhook.Destination){
		"name":     func(d *webhook.Destination) { d.Name = "a.b" },
		"url":      func(d *webhook.Destination) { d.URL = "http://x.example/secret-path" },
		"scheme":   func(d *webhook.Destination) { d.URL = "file:///secret-path" },
		"user":     func(d *webhook.Destination) { d.URL = "https://u:secret-path@x.example/" },
		"no host":  func(d *webhook.Destination) { d.URL = "https:///secret-path" },
		"broken":   func(d *webhook.Destination) { d.URL = "https://x.example/%zz/secret-path" },
		"secrets":  func(d *webhook.Destination) { d.Secrets = nil },
		"events":   func(d *webhook.Destination) { d.Events = nil },
		"event":    func(d *webhook.Destination) { d.Events = []webhook.Event{"x"} },
		"format":   func(d *webhook.Destination) { d.Format = "x" },
		"tools":    func(d *webhook.Destination) { d.Tools = []string{"a*b"} },
		"timeout":  func(d *webhook.Destination) { d.Timeout = time.Hour },
		"attempts": func(d *webhook.Destination) { d.Attempts = 1000 },
	} {
		d := good
		change(&d)
		if err := webhook.Check([]webhook.Destination{d}); err == nil || strings.Contains(err.Error(), "secret-path") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := webhook.Check([]webhook.Destination{good, good}); err == nil {
		t.Error("two destinations with the same name are accepted")
	}
	slack := webhook.Destination{Name: "s", URL: "http://127.0.0.1:1/x", Events: good.Events, Format: webhook.FormatSlack}
	if err := webhook.Check([]webhook.Destination{good, slack}); err != nil {
		t.Error(err)
	}
}

// The pause that a receiver requests counts, up to an hour, but never shortens a pause.
func TestPause(t *testing.T) {
	h, err := webhook.New(webhook.Config{Space: &gateway.Space{ID: "a"}, Outbox: struct{ webhook.Outbox }{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		attempt int
		header  string
		want    time.Duration
	}{
		{1, "", 5 * time.Second}, {2, "", time.Minute}, {3, "", 5 * time.Minute}, {4, "", 30 * time.Minute}, {6, "", 5 * time.Hour}, {7, "", 8 * time.Hour}, {20, "", 8 * time.Hour}, {0, "", 5 * time.Second},
		{1, "30", 30 * time.Second}, {1, "-5", 5 * time.Second}, {1, "soon", 5 * time.Second}, {1, "99999999999999999999", 5 * time.Second},
		{1, "9999999", time.Hour}, {5, "1", 2 * time.Hour}, {1, noon.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second},
		{1, noon.Add(-time.Hour).Format(http.TimeFormat), 5 * time.Second}, {1, noon.Add(1000 * time.Hour).Format(http.TimeFormat), time.Hour},
	} {
		for range 20 {
			if got := h.Pause(of.attempt, of.header, noon); got < of.want || got > of.want+of.want/10 {
				t.Errorf("after attempt %d and %q: %s, want %s", of.attempt, of.header, got, of.want)
			}
		}
	}
}
