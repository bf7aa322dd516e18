package webhook

import (
	"cmp"
	"context"
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

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Event is a kind of message that a destination may want.
type Event string

// The events that a destination may ask for.
const (
	EventRequest    Event = "request"    // an approval request opened or changed
	EventEscalation Event = "escalation" // more people are asked
	EventOutcome    Event = "outcome"    // a call finished in any way
)

// Format is the format of messages.
type Format string

// The formats.
const (
	FormatAskance Format = "askance" // Notice
	FormatSlack   Format = "slack"   // what Slack's incoming webhooks accept
)

// Defaults and bounds of destinations.
const (
	defaultTimeout  = 15 * time.Second
	maxTimeout      = time.Minute
	defaultAttempts = 8
	MaxAttempts     = 20
	maxDestinations = 64
)

// Destination is a receiver of messages. Zero values of Format, Timeout and Attempts mean their
// defaults.
type Destination struct {
	// Name names the durable consumer: letters, digits, _ and -. A new name starts a new consumer.
	Name string
	URL  string // https, or http on loopback
	// Secrets sign each message; a receiver accepts any of them, so they can be
	// rotated. FormatSlack needs none.
	Secrets  []Secret
	Events   []Event  // at least one
	Tools    []string // names, or prefixes with * at the end; none: all
	Format   Format
	Timeout  time.Duration // of one attempt
	Attempts int
}

// String is only the name: an address may be a secret.
func (d Destination) String() string { return "destination " + d.Name }

// GoString is String.
func (d Destination) GoString() string { return d.String() }

// Check checks destinations. Errors have no address and no secret.
func Check(all []Destination) error {
	if len(all) > maxDestinations {
		return fmt.Errorf("%d destinations are too many: name at most %d", len(all), maxDestinations)
	}
	names := map[string]bool{}
	for _, d := range all {
		d.setDefaults()
		if err := d.check(); err != nil {
			return fmt.Errorf("destination %.80q: %w", d.Name, err)
		}
		if names[d.Name] {
			return fmt.Errorf("destination %q occurs twice: rename or remove one", d.Name)
		}
		names[d.Name] = true
	}
	return nil
}

func (d *Destination) setDefaults() {
	d.Format = cmp.Or(d.Format, FormatAskance)
	d.Timeout = cmp.Or(d.Timeout, defaultTimeout)
	d.Attempts = cmp.Or(d.Attempts, defaultAttempts)
}

func (d *Destination) check() error {
	known := []Event{EventRequest, EventEscalation, EventOutcome}
	switch {
	case d.Name == "" || len(d.Name) > 64 || strings.Trim(d.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "":
		return fmt.Errorf("name: %.80q: use letters, digits, _ and -, at most 64", d.Name)
	case d.Format != FormatAskance && d.Format != FormatSlack:
		return fmt.Errorf("format: %.40q is unknown: write askance or slack", string(d.Format))
	case d.Format == FormatAskance && len(d.Secrets) == 0:
		return errors.New("secrets: none, so a receiver could not verify messages: add one")
	case len(d.Events) == 0:
		return errors.New("events: none: name request, escalation or outcome")
	case d.Timeout < 0 || d.Timeout > maxTimeout:
		return fmt.Errorf("timeout: %s is not between 0 and %s", d.Timeout, maxTimeout)
	case d.Attempts < 0 || d.Attempts > MaxAttempts:
		return fmt.Errorf("attempts: %d is not between 1 and %d", d.Attempts, MaxAttempts)
	}
	for _, e := range d.Events {
		if !slices.Contains(known, e) {
			return fmt.Errorf("events: %.40q is unknown: name request, escalation or outcome", string(e))
		}
	}
	for _, t := range d.Tools {
		if t == "" || strings.Contains(strings.TrimSuffix(t, "*"), "*") {
			return fmt.Errorf("tools: %.80q: write a name, or a prefix with * at the end", t)
		}
	}
	return checkURL(d.URL)
}

// checkURL checks an address; its errors do not contain it.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("url: is not valid: write it as https://receiver.example/path, without a user and #")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return errors.New("url: is neither https nor http: use https")
	}
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return errors.New("url: http to another machine would expose calls to the network: use https")
}

func (d *Destination) wants(e Event, tool string) bool {
	return slices.Contains(d.Events, e) && (len(d.Tools) == 0 || slices.ContainsFunc(d.Tools, func(t string) bool {
		prefix, all := strings.CutSuffix(t, "*")
		return t == tool || all && strings.HasPrefix(tool, prefix)
	}))
}

// Headers of the Standard Webhooks scheme.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// Bounds of a secret's length in bytes, from the scheme.
const (
	minSecret = 24
	maxSecret = 64
)

const secretPrefix = "whsec_"

// Secret signs a destination's messages. It is never printed. The zero value is none.
type Secret struct{ key string }

// ParseSecret reads "whsec_" and the base64 of 24 to 64 bytes. Errors do not contain
// the text.
func ParseSecret(text string) (Secret, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !ok {
		return Secret{}, errors.New("the secret does not begin with whsec_")
	}
	key, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return Secret{}, errors.New("the text after whsec_ is not base64")
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("the secret has %d bytes and needs %d to %d", len(key), minSecret, maxSecret)
	}
	return Secret{string(key)}, nil
}

// Format writes a placeholder for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("whsec_…")) }

// LogValue is a placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue("whsec_…") }

// MarshalText writes a placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte("whsec_…"), nil }

// Sign returns the signature header of a message: one signature for each secret.
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

// LinkPath is the path of links; the inbox serves it.
const LinkPath = "/inbox/link"

// linkLife is how long links are valid by default.
const linkLife = 7 * 24 * time.Hour

// maxLink bounds tokens, which browsers and the login page carry in addresses.
const maxLink = 2048

var encoding = base64.RawURLEncoding

// linkDomain separates the MAC of links from any other.
const linkDomain = "askance-link-v1\x00"

// LinksConfig configures Links. All but Life and Now are required.
type LinksConfig struct {
	Space  toolcall.SpaceID
	Key    [32]byte // authenticates links; shared by every gateway of the space
	Public string   // the URL at which browsers reach the gateway
	// UseOnce reports whether this is the first use of a token in any process of the
	// space, and remembers it for ttl.
	UseOnce func(ctx context.Context, token string, ttl time.Duration) (first bool, err error)
	Life    time.Duration // 0: linkLife
	Now     func() time.Time
}

// Links makes and opens the links of one space. It is safe for concurrent use.
type Links struct{ cfg LinksConfig }

// NewLinks checks the configuration.
func NewLinks(cfg LinksConfig) (*Links, error) {
	u, err := url.Parse(cfg.Public)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || cfg.UseOnce == nil || cfg.Space == "" || cfg.Key == [32]byte{} {
		return nil, errors.New("webhook: the space, key, public URL or UseOnce of links is missing: set all of them")
	}
	cfg.Life = cmp.Or(max(cfg.Life, 0), linkLife)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Public = strings.TrimSuffix(cfg.Public, "/")
	return &Links{cfg}, nil
}

// Link is a prepared decision about one approval request. It names no person.
type Link struct {
	Key    toolcall.Key
	Digest string
	// Kind is ResponseApprove or ResponseReject.
	Kind    toolcall.ResponseKind
	Expires time.Time
	// Destination and Seq name the message that contains it.
	Destination string
	Seq         uint64
}

// body is the content of a token.
type body struct {
	V           int                   `json:"v"`
	Key         toolcall.Key          `json:"key"`
	Digest      string                `json:"digest"`
	Kind        toolcall.ResponseKind `json:"kind"`
	Expires     int64                 `json:"expires"`
	Destination string                `json:"to"`
	Seq         uint64                `json:"seq"`
}

// Token makes the token of a link. Equal links have equal tokens.
func (l *Links) Token(link Link) (string, error) {
	b, err := strictjson.Marshal(body{1, link.Key, link.Digest, link.Kind, link.Expires.Unix(), link.Destination, link.Seq})
	if err != nil {
		return "", err
	}
	text := encoding.EncodeToString(b)
	token := text + "." + encoding.EncodeToString(l.mac(text))
	if len(token) > maxLink {
		return "", &message.Error{Code: message.CodeTooLarge, Op: "make link", What: "the ids of the call are too long for a link", Hint: "use shorter ids, for example UUIDs"}
	}
	return token, nil
}

func (l *Links) mac(text string) []byte {
	m := hmac.New(sha256.New, l.cfg.Key[:])
	m.Write([]byte(linkDomain + string(l.cfg.Space) + "\x00" + text))
	return m.Sum(nil)
}

func (l *Links) makeSet(destination string, n *Notice) *LinkSet {
	k := n.Call.Key
	set := &LinkSet{Request: l.cfg.Public + "/inbox/call?" + url.Values{"session": {string(k.Session)}, "reply": {string(k.Reply)}, "call": {string(k.Call)}}.Encode()}
	if n.Waiting == nil || !n.isRequest() {
		return set
	}
	link := Link{Key: k, Digest: n.Call.Digest, Expires: n.Timestamp.Add(l.cfg.Life), Destination: destination, Seq: n.Seq}
	if ends := n.Waiting.Ends; !ends.IsZero() && ends.Before(link.Expires) {
		link.Expires = ends
	}
	for kind, to := range map[toolcall.ResponseKind]*string{toolcall.ResponseApprove: &set.Approve, toolcall.ResponseReject: &set.Reject} {
		link.Kind = kind
		if token, err := l.Token(link); err == nil { // otherwise only the request's page is linked
			*to = l.cfg.Public + LinkPath + "?" + url.Values{"token": {token}}.Encode()
		}
	}
	return set
}

// Open reads a token and changes nothing. It returns ErrForbidden if the token is not of this
// space, and ErrFinished if it has expired.
func (l *Links) Open(token string, space toolcall.SpaceID) (Link, error) {
	const op = "open link"
	foreign := &message.Error{Code: message.CodeForbidden, Op: op, What: "this link is incomplete, or not of this server", Hint: "open it from the original message, or find the approval request in the inbox"}
	text, sum, ok := strings.Cut(token, ".")
	if !ok || len(token) > maxLink || !hmac.Equal([]byte(sum), []byte(encoding.EncodeToString(l.mac(text)))) || space != l.cfg.Space {
		return Link{}, foreign
	}
	raw, err := encoding.DecodeString(text)
	if err != nil {
		return Link{}, foreign
	}
	var b body
	if err := strictjson.Unmarshal(raw, &b); err != nil || b.V != 1 || b.Key.Space != space || b.Kind != toolcall.ResponseApprove && b.Kind != toolcall.ResponseReject {
		return Link{}, foreign
	}
	link := Link{b.Key, b.Digest, b.Kind, time.Unix(b.Expires, 0).UTC(), b.Destination, b.Seq}
	if !l.cfg.Now().Before(link.Expires) {
		return link, &message.Error{Code: message.CodeFinished, Op: op, What: "this link expired at " + link.Expires.Format(time.RFC1123), Hint: "find the approval request in the inbox"}
	}
	return link, nil
}

// Use uses up a token that Open has read. It returns ErrConflict if the token was used before, in
// any process of the space.
func (l *Links) Use(ctx context.Context, token string, link Link) error {
	const op = "use link"
	text, _, _ := strings.Cut(token, ".")
	left := max(0, link.Expires.Sub(l.cfg.Now()))
	first, err := l.cfg.UseOnce(ctx, text, left+l.cfg.Life) // to a gateway whose clock is behind, it expires later
	switch {
	case err != nil:
		return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the server cannot check whether this link was used before", Hint: "try again, or respond in the inbox", Err: err}
	case !first:
		return &message.Error{Code: message.CodeConflict, Op: op, What: "this link was already used, and each link is valid for one response", Hint: "respond to the approval request in the inbox"}
	}
	return nil
}
