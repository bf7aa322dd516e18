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
	if cfg.Life <= 0 {
		cfg.Life = linkLife
	}
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
	first, err := l.cfg.UseOnce(ctx, text, link.Expires.Sub(l.cfg.Now())+time.Minute)
	switch {
	case err != nil:
		return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the server cannot check whether this link was used before", Hint: "try again, or respond in the inbox", Err: err}
	case !first:
		return &message.Error{Code: message.CodeConflict, Op: op, What: "this link was already used, and each link is valid for one response", Hint: "respond to the approval request in the inbox"}
	}
	return nil
}
