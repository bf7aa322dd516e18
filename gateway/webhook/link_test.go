package webhook_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// used records used tokens, for tests without NATS.
type used struct {
	mu  sync.Mutex // guards all fields
	all map[string]bool
	err error
}

func (u *used) once(_ context.Context, token string, _ time.Duration) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[string]bool{}
	}
	defer func() { u.all[token] = true }()
	return !u.all[token], u.err
}

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func linksAt(t *testing.T, space toolcall.SpaceID, key [32]byte, now time.Time, u *used) *webhook.Links {
	t.Helper()
	l, err := webhook.NewLinks(webhook.LinksConfig{Space: space, Key: key, Public: "https://x.example", UseOnce: u.once, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func aLink() webhook.Link {
	return webhook.Link{
		Key: toolcall.Key{Space: "alpha", Session: "s", Reply: "r", Call: "c"}, Digest: "sha256:aa", Kind: toolcall.ResponseApprove,
		Expires: noon.Add(time.Hour), Destination: "bot", Seq: 7,
	}
}

func TestLink(t *testing.T) {
	u := &used{}
	l := linksAt(t, "alpha", linkKey, noon, u)
	token, err := l.Token(aLink())
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.Open(token, "alpha")
	if err != nil || got != aLink() {
		t.Errorf("Open = %+v, %v", got, err)
	}
	if again, _ := l.Token(aLink()); again != token {
		t.Error("the same link has two tokens")
	}
	for i := range 3 {
		err := l.Use(t.Context(), token, got)
		if (err == nil) != (i == 0) || i > 0 && !errors.Is(err, message.ErrConflict) {
			t.Errorf("use number %d: %v", i, err)
		}
	}
	u.err = errors.New("down")
	if err := l.Use(t.Context(), "other."+token, got); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("it is not known whether the link was used: %v", err)
	}
}

// A link that was used is not valid again where the clock of a gateway is behind.
func TestLinkIsUsedOnceWithOtherClocks(t *testing.T) {
	begin, store := noon, map[string]time.Time{} // until when NATS remembers a token, by its own clock
	at := func(ahead time.Duration) (*webhook.Links, *time.Time) {
		nats := begin
		l, err := webhook.NewLinks(webhook.LinksConfig{Space: "alpha", Key: linkKey, Public: "https://x.example", Now: func() time.Time { return nats.Add(ahead) },
			UseOnce: func(_ context.Context, token string, ttl time.Duration) (bool, error) {
				first := !nats.Before(store[token])
				if first {
					store[token] = nats.Add(ttl)
				}
				return first, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		return l, &nats
	}
	first, _ := at(0)
	token, err := first.Token(aLink())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Use(t.Context(), token, aLink()); err != nil {
		t.Fatal(err)
	}
	for _, behind := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		l, nats := at(-behind)
		*nats = aLink().Expires.Add(behind - time.Second)
		if link, err := l.Open(token, "alpha"); err != nil {
			t.Errorf("%s behind: %v", behind, err)
		} else if err := l.Use(t.Context(), token, link); !errors.Is(err, message.ErrConflict) {
			t.Errorf("%s behind, the link is used again: %v", behind, err)
		}
	}
}

// Only a complete, genuine and current token opens a link.
func TestLinkRefused(t *testing.T) {
	u := &used{}
	l := linksAt(t, "alpha", linkKey, noon, u)
	token, err := l.Token(aLink())
	if err != nil {
		t.Fatal(err)
	}
	text, sum, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	bob := aLink()
	bob.Kind = "submit_response"
	odd, _ := l.Token(bob)
	elsewhere, _ := linksAt(t, "beta", linkKey, noon, u).Token(aLink())
	forged, _ := linksAt(t, "alpha", [32]byte{9}, noon, u).Token(aLink())
	for name, bad := range map[string]string{
		"nothing": "", "a word": "x", "dot": ".", "no sum": text + ".", "no text": "." + sum, "cut": token[:len(token)-1], "longer": token + "A", "line": token + "\n",
		"other text": base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(raw), "approve", "reject", 1))) + "." + sum,
		"forged":     forged, "another space": elsewhere, "another kind": odd, "huge": strings.Repeat("A", 1<<20) + "." + sum,
		"twice": token + "." + sum,
	} {
		if _, err := l.Open(bad, "alpha"); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range len(token) { // any character
		for _, c := range []byte{'A', 'B', '_', '='} {
			if changed := token[:i] + string(c) + token[i+1:]; changed != token {
				if _, err := l.Open(changed, "alpha"); !errors.Is(err, message.ErrForbidden) {
					t.Fatalf("changed at %d: %v", i, err)
				}
			}
		}
	}
	if _, err := l.Open(token, "beta"); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("opened in another space: %v", err)
	}
	late := linksAt(t, "alpha", linkKey, noon.Add(time.Hour), u)
	if _, err := late.Open(token, "alpha"); !errors.Is(err, message.ErrFinished) {
		t.Errorf("late: %v", err)
	}
	long := aLink()
	long.Key.Session = message.SessionID(strings.Repeat("s", 5000))
	if _, err := l.Token(long); !errors.Is(err, message.ErrTooLarge) {
		t.Errorf("long ids: %v", err)
	}
}

func TestNewLinksNeeds(t *testing.T) {
	good := webhook.LinksConfig{Space: "a", Key: linkKey, Public: "https://x.example", UseOnce: (&used{}).once}
	for name, change := range map[string]func(*webhook.LinksConfig){
		"space": func(c *webhook.LinksConfig) { c.Space = "" }, "key": func(c *webhook.LinksConfig) { c.Key = [32]byte{} },
		"public": func(c *webhook.LinksConfig) { c.Public = "javascript:alert(1)" }, "use": func(c *webhook.LinksConfig) { c.UseOnce = nil },
	} {
		c := good
		change(&c)
		if _, err := webhook.NewLinks(c); err == nil {
			t.Errorf("links are created without a valid %s", name)
		}
	}
	if _, err := webhook.NewLinks(good); err != nil {
		t.Error(err)
	}
}

// FuzzLink: only tokens open a link, and nothing panics.
func FuzzLink(f *testing.F) {
	u := &used{}
	l, err := webhook.NewLinks(webhook.LinksConfig{Space: "alpha", Key: linkKey, Public: "https://x.example", UseOnce: u.once, Now: func() time.Time { return noon }})
	if err != nil {
		f.Fatal(err)
	}
	token, err := l.Token(aLink())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Add("a.b")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := l.Open(text, "alpha"); (err == nil) != (text == token) {
			t.Errorf("Open(%q): %v", text, err)
		}
	})
}
