package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Event is a kind of news.
type Event string

// The events that a destination may ask for.
const (
	EventRequest    Event = "request"    // an approval request is open, or was asked anew
	EventEscalation Event = "escalation" // further people are asked
	EventOutcome    Event = "outcome"    // a call is finished, however
)

// Format is how a message is written.
type Format string

// The formats.
const (
	FormatAskance Format = "askance" // Notice
	FormatSlack   Format = "slack"   // what Slack's incoming webhooks take
)

// Defaults and bounds of destinations.
const (
	DefaultTimeout  = 15 * time.Second
	MaxTimeout      = time.Minute
	DefaultAttempts = 8
	MaxAttempts     = 20
	MaxDestinations = 64
)

// Destination is who is told what. The zero values of Format, Timeout and
// Attempts stand for their defaults.
type Destination struct {
	// Name is that of the durable consumer: letters, digits, _ and -. A new name
	// begins anew.
	Name string
	// URL is where messages go: https, or http on loopback.
	URL string
	// Secrets sign; the receiver takes any one of them, so that they can be
	// replaced without a gap. FormatSlack needs none.
	Secrets []Secret
	// Events are what it is told of; at least one.
	Events []Event
	// Tools are the names of tools, * at the end for all that begin so; none: all.
	Tools    []string
	Format   Format
	Timeout  time.Duration // of one attempt
	Attempts int
}

// String gives the name alone: an address may be a secret.
func (d Destination) String() string { return "destination " + d.Name }

// GoString gives the name alone.
func (d Destination) GoString() string { return d.String() }

// Check reports what cannot work. Errors show no address and no secret.
func Check(all []Destination) error {
	if len(all) > MaxDestinations {
		return fmt.Errorf("%d destinations are more than %d", len(all), MaxDestinations)
	}
	names := map[string]bool{}
	for _, d := range all {
		d.defaults()
		if err := d.check(); err != nil {
			return fmt.Errorf("destination %.80q: %w", d.Name, err)
		}
		if names[d.Name] {
			return fmt.Errorf("destination %q is there twice", d.Name)
		}
		names[d.Name] = true
	}
	return nil
}

func (d *Destination) defaults() {
	if d.Format == "" {
		d.Format = FormatAskance
	}
	if d.Timeout == 0 {
		d.Timeout = DefaultTimeout
	}
	if d.Attempts == 0 {
		d.Attempts = DefaultAttempts
	}
}

func (d *Destination) check() error {
	known := []Event{EventRequest, EventEscalation, EventOutcome}
	switch {
	case d.Name == "" || len(d.Name) > 64 || strings.Trim(d.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "":
		return fmt.Errorf("name: %.80q: use letters, digits, _ and -, at most 64", d.Name)
	case d.Format != FormatAskance && d.Format != FormatSlack:
		return fmt.Errorf("format: %.40q is neither askance nor slack", string(d.Format))
	case d.Format == FormatAskance && len(d.Secrets) == 0:
		return errors.New("secrets: none: a receiver could not tell our messages from those of others")
	case len(d.Events) == 0:
		return errors.New("events: none of request, escalation, outcome")
	case d.Timeout < 0 || d.Timeout > MaxTimeout:
		return fmt.Errorf("timeout: %s is not within 0 and %s", d.Timeout, MaxTimeout)
	case d.Attempts < 0 || d.Attempts > MaxAttempts:
		return fmt.Errorf("attempts: %d is not within 1 and %d", d.Attempts, MaxAttempts)
	}
	for _, e := range d.Events {
		if !slices.Contains(known, e) {
			return fmt.Errorf("events: %.40q is none of request, escalation, outcome", string(e))
		}
	}
	for _, t := range d.Tools {
		if t == "" || strings.Contains(strings.TrimSuffix(t, "*"), "*") {
			return fmt.Errorf("tools: %.80q: write a name, with * at the end for all that begin so", t)
		}
	}
	return checkURL(d.URL)
}

// checkURL says nothing of the address itself.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("url: is no address like https://receiver.example/path, without a user and #")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return errors.New("url: is neither https nor http")
	}
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return errors.New("url: http beyond this machine would show calls to the network; use https")
}

// wants reports whether the destination is told of an event about a tool.
func (d *Destination) wants(e Event, tool string) bool {
	return slices.Contains(d.Events, e) && (len(d.Tools) == 0 || slices.ContainsFunc(d.Tools, func(t string) bool {
		prefix, all := strings.CutSuffix(t, "*")
		return t == tool || all && strings.HasPrefix(tool, prefix)
	}))
}

// Headers of the Standard Webhooks scheme.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// Bounds of a secret's length in bytes, as the scheme has them.
const (
	minSecret = 24
	maxSecret = 64
)

const secretPrefix = "whsec_"

// Secret is what a destination's messages are signed with. It never prints
// itself. The zero value is none.
type Secret struct{ key string }

// ParseSecret reads "whsec_" and the base64 of 24 to 64 bytes. Errors do not
// show the text.
func ParseSecret(text string) (Secret, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !ok {
		return Secret{}, errors.New("the secret does not begin with whsec_")
	}
	key, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return Secret{}, errors.New("what follows whsec_ is no base64")
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("the secret has %d bytes and needs %d to %d", len(key), minSecret, maxSecret)
	}
	return Secret{string(key)}, nil
}

// Format writes nothing of the secret, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("whsec_…")) }

// LogValue writes nothing of the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue("whsec_…") }

// MarshalText writes nothing of the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("whsec_…"), nil }

// Sign is the value of the signature header for a message: one signature by
// each secret.
func Sign(secrets []Secret, id string, at time.Time, body []byte) string {
	out := make([]string, len(secrets))
	for i, s := range secrets {
		m := hmac.New(sha256.New, []byte(s.key))
		m.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		m.Write(body)
		out[i] = "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	}
	return strings.Join(out, " ")
}
