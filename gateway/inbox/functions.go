package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
)

// functions are those that templates call.
func functions() template.FuncMap {
	return template.FuncMap{
		"line":    func(s any) template.HTML { return markup(reveal.Line(fmt.Sprint(s))) },
		"text":    func(s any) template.HTML { return markup(reveal.Text(fmt.Sprint(s))) },
		"safe":    safe,
		"time":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"ago":     func(t, now time.Time) string { return asked.Span(now.Sub(t)) + " ago" },
		"until":   asked.Until,
		"span":    asked.Span,
		"inc":     func(i int) int { return i + 1 },
		"plural":  asked.Count,
		"initial": initial,
		"send":    func(p *panel, label, tone string) button { return button{p, label, tone} },
		"scopes":  scopes,
		"lasts":   func() []choice { return lasts },
		"limits":  asked.Limits,
		"kinds":   func() []choice { return outcomes },
	}
}

// oddMark is how package reveal writes a character that is not shown as itself.
// Nobody else can write one: the brackets are marked, too.
var oddMark = regexp.MustCompile(`‹(U\+[0-9A-F]{4,6}|0x[0-9A-F]{2})›`)

// markup makes HTML of a text that package reveal has gone over, with its marks
// set apart.
func markup(revealed string) template.HTML {
	var b strings.Builder
	at := 0
	for _, m := range oddMark.FindAllStringSubmatchIndex(revealed, -1) {
		b.WriteString(template.HTMLEscapeString(revealed[at:m[0]]))
		name := revealed[m[2]:m[3]]
		b.WriteString(`<mark class="odd" title="a character that is invisible, or looks like another one">` + name + `</mark>`)
		at = m[1]
	}
	b.WriteString(template.HTMLEscapeString(revealed[at:]))
	return template.HTML(b.String()) //nolint:gosec // every piece was escaped above
}

// safe is for text that package asked or reveal has made visible already.
func safe(s string) template.HTML { return markup(s) }

// initial is the dead letter of a person's badge.
func initial(name string) string {
	for _, r := range reveal.Line(name) {
		return strings.ToUpper(string(r))
	}
	return "?"
}

// domID names the call in pages and events. Ids of calls may contain anything.
func domID(k message.Key) string {
	sum := sha256.Sum256([]byte(k.IdempotencyKey()))
	return "c" + hex.EncodeToString(sum[:8])
}

// address is the page of a call. more are further parameters, in pairs; those
// without a value are left out.
func address(k message.Key, base url.Values, more ...string) string {
	q := url.Values{}
	maps.Copy(q, base)
	q.Set("session", string(k.Session))
	q.Set("reply", string(k.Reply))
	q.Set("call", string(k.Call))
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			q.Set(more[i], more[i+1])
		}
	}
	return pathCall + "?" + q.Encode()
}

// keyOf reads the address of a call.
func keyOf(q url.Values, space message.SpaceID) (message.Key, error) {
	k := message.Key{Space: space, Session: message.SessionID(q.Get("session")), Reply: message.ReplyID(q.Get("reply")), Call: message.CallID(q.Get("call"))}
	return k, k.Validate()
}
