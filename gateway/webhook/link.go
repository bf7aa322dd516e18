package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// LinkPath is where links lead: the inbox serves it.
const LinkPath = "/inbox/link"

// LinkLife is how long links are good if nothing else is said.
const LinkLife = 7 * 24 * time.Hour

// maxLink bounds tokens: a browser and its log-in page must be able to carry
// one.
const maxLink = 2048

var encoding = base64.RawURLEncoding

// linkDomain keeps a link's MAC from being one of anything else.
const linkDomain = "askance-link-v1\x00"

// LinksConfig says how links are made. All but Life and Now are required.
type LinksConfig struct {
	Space toolcall.SpaceID
	// Key authenticates links; every gateway of the space has the same one.
	Key [32]byte
	// Public is the URL by which browsers reach the gateway.
	Public string
	// UseOnce reports whether a token is used for the first time, in any process
	// of the space, and remembers it for ttl.
	UseOnce func(ctx context.Context, token string, ttl time.Duration) (first bool, err error)
	Life    time.Duration // 0: LinkLife
	Now     func() time.Time
}

// Links makes and opens links of one space. It may be used from many
// goroutines.
type Links struct{ cfg LinksConfig }

// NewLinks checks the configuration.
func NewLinks(cfg LinksConfig) (*Links, error) {
	u, err := url.Parse(cfg.Public)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || cfg.UseOnce == nil || cfg.Space == "" || cfg.Key == [32]byte{} {
		return nil, errors.New("webhook: links need a space, a key, a public URL and UseOnce")
	}
	if cfg.Life <= 0 {
		cfg.Life = LinkLife
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Public = strings.TrimSuffix(cfg.Public, "/")
	return &Links{cfg}, nil
}

// Link is one decision about one approval request, prepared. It says nothing about who
// follows it.
type Link struct {
	Key    toolcall.Key
	Digest string
	// Kind is ResponseApprove or ResponseReject.
	Kind    toolcall.ResponseKind
	Expires time.Time
	// Destination and Seq say with which message it was sent.
	Destination string
	Seq         uint64
}

// body is a link as the token has it.
type body struct {
	V           int                   `json:"v"`
	Key         toolcall.Key          `json:"key"`
	Digest      string                `json:"digest"`
	Kind        toolcall.ResponseKind `json:"kind"`
	Expires     int64                 `json:"expires"`
	Destination string                `json:"to"`
	Seq         uint64                `json:"seq"`
}

// Token makes the token of a link: the same link, the same token.
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

// address is where a token is followed.
func (l *Links) address(token string) string {
	return l.cfg.Public + LinkPath + "?" + url.Values{"token": {token}}.Encode()
}

// of makes the links of a notice.
func (l *Links) of(destination string, n *Notice) *LinkSet {
	k := n.Call.Key
	set := &LinkSet{Request: l.cfg.Public + "/inbox/call?" + url.Values{"session": {string(k.Session)}, "reply": {string(k.Reply)}, "call": {string(k.Call)}}.Encode()}
	if n.Waiting == nil || !n.asks() {
		return set
	}
	link := Link{Key: k, Digest: n.Call.Digest, Expires: n.Timestamp.Add(l.cfg.Life), Destination: destination, Seq: n.Seq}
	if ends := n.Waiting.Ends; !ends.IsZero() && ends.Before(link.Expires) {
		link.Expires = ends
	}
	for kind, to := range map[toolcall.ResponseKind]*string{toolcall.ResponseApprove: &set.Approve, toolcall.ResponseReject: &set.Reject} {
		link.Kind = kind
		if token, err := l.Token(link); err == nil { // without one there is still the approval request's page
			*to = l.address(token)
		}
	}
	return set
}

// Open reads a token for somebody in a space. It changes nothing. Errors:
// ErrForbidden if it is not one of this space's, ErrFinished if it is too old.
func (l *Links) Open(token string, space toolcall.SpaceID) (Link, error) {
	const op = "open link"
	foreign := &message.Error{Code: message.CodeForbidden, Op: op, What: "this link was not made here, or is not whole any more", Hint: "follow it from the message itself, or look for the approval request in the inbox"}
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
		return link, &message.Error{Code: message.CodeFinished, Op: op, What: "this link was good until " + link.Expires.Format(time.RFC1123), Hint: "look for the approval request in the inbox"}
	}
	return link, nil
}

// Use spends a token that Open has read. ErrConflict if somebody has used it
// before, in any process of the space.
func (l *Links) Use(ctx context.Context, token string, link Link) error {
	const op = "use link"
	text, _, _ := strings.Cut(token, ".")
	first, err := l.cfg.UseOnce(ctx, text, link.Expires.Sub(l.cfg.Now())+time.Minute)
	switch {
	case err != nil:
		return &message.Error{Code: message.CodeUnavailable, Op: op, What: "whether this link was used before cannot be told now", Hint: "try again, or answer in the inbox", Err: err}
	case !first:
		return &message.Error{Code: message.CodeConflict, Op: op, What: "this link has been used before, and each is good for one answer", Hint: "the approval request is answered in the inbox"}
	}
	return nil
}
