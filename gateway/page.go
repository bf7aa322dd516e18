package gateway

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
)

// PageCSS is the style of the pages outside of the console: login, errors, reference.
//
//go:embed page.css
var PageCSS string

// Brand is the mark of those pages, a link to the console.
const Brand template.HTML = `<a class="brand" href="/"><svg viewBox="0 0 32 32" aria-hidden="true"><path d="M2 16C6 9 11 6 16 6s10 3 14 10c-4 7-9 10-14 10S6 23 2 16z"/><circle cx="20" cy="16" r="5"/></svg>askance</a>`

//go:embed error.html
var errorHTML string

var errorPage = template.Must(template.New("error").Parse(errorHTML))

// errorPolicy allows the page's own style and nothing else.
var errorPolicy = func() string {
	sum := sha256.Sum256([]byte(PageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}()

// sentence turns the text of an error into a sentence.
func sentence(words string) string {
	if words == "" {
		return ""
	}
	return strings.ToUpper(words[:1]) + strings.TrimSuffix(words[1:], ".") + "."
}

// writePage replies to a browser. A login that may not open a page can be ended there, because the
// login page only leads back.
func (p Problem) writePage(w *response) {
	heading, csrf := p.Title, ""
	switch p.Status {
	case http.StatusNotFound:
		heading = "Page not found"
	case http.StatusForbidden:
		heading, csrf = "You cannot do this", w.csrf
	case http.StatusTooManyRequests:
		heading = "Too many requests"
	case http.StatusInternalServerError:
		heading = "The server failed"
	case http.StatusServiceUnavailable:
		heading = "The server is not ready"
	}
	var b bytes.Buffer
	err := errorPage.Execute(&b, struct {
		Problem
		Heading, Sentence, CSRF string
		Style, Brand            template.HTML
	}{p, heading, sentence(p.Detail), csrf, template.HTML("<style>" + PageCSS + "</style>"), Brand}) //nolint:gosec // our own file
	if err != nil { // only a mistake in the template
		b.Reset()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", errorPolicy)
	w.WriteHeader(p.Status)
	_, _ = w.Write(b.Bytes()) // the peer may be gone
}
