package gateway

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
)

// CSRFHeader and csrfField carry Identity.CSRF, the proof that one of our pages
// made a request.
const (
	CSRFHeader = "X-CSRF-Token"
	csrfField  = "csrf"
)

// origins decides whose pages may use the server from a browser.
type origins struct {
	listed []string
	cross  *http.CrossOriginProtection
}

// CheckOrigins checks Config.Origins.
func CheckOrigins(listed []string) error {
	_, err := newOrigins(listed)
	return err
}

func newOrigins(listed []string) (*origins, error) {
	o := &origins{listed: listed, cross: http.NewCrossOriginProtection()}
	for _, origin := range listed {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme+"://"+u.Host != origin || u.Host == "" || strings.Contains(origin, "*") {
			return nil, fmt.Errorf("gateway: %q is not an origin: write it as https://app.example, without a path or a wildcard", origin)
		}
		if err := o.cross.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("gateway: origin %q: %w", origin, err)
		}
	}
	return o, nil
}

// preflight sets the CORS headers and reports whether r was a preflight request, which it
// answers. Credentials are never allowed, so browsers send no cookie with cross-origin requests.
func (o *origins) preflight(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if len(o.listed) > 0 {
		w.Header().Add("Vary", "Origin")
	}
	allowed := slices.Contains(o.listed, origin)
	h := w.Header()
	if allowed {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Location, Link, ETag")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	if !allowed {
		writeProblem(w, errOrigin(origin))
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Last-Event-ID, Idempotency-Key, If-Match, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

func errOrigin(origin string) error {
	return &message.Error{Code: message.CodeForbidden, Op: "check origin", What: fmt.Sprintf("pages of %.100q cannot use this server", origin), Hint: "allow the origin with askance serve --http-origin"}
}

// checkSocket checks the origin of WebSockets, for which browsers send no preflight.
func (o *origins) checkSocket(r *http.Request) error {
	if origin := r.Header.Get("Origin"); isForeignSocket(r) && !slices.Contains(o.listed, origin) {
		return errOrigin(origin)
	}
	return nil
}

// isForeignSocket reports whether a page of another origin opens a WebSocket. Browsers send
// cookies with it from the same site (another port or subdomain), and it needs no CSRF proof.
func isForeignSocket(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	isOwn := err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && origin != "" && !isOwn
}

// alters reports whether a request may change something.
func alters(route *Route, r *http.Request) bool {
	return !route.Safe && r.Method != http.MethodGet && r.Method != http.MethodHead
}

// check requires proof that one of our pages made a request whose credentials a browser sends
// automatically.
func (o *origins) check(route *Route, r *http.Request, id *Identity) error {
	if !id.Ambient {
		return nil
	}
	if err := o.checkSite(r); err != nil {
		return err
	}
	// The form of a login has no proof, because its page may be older than the present session.
	if err := o.checkPublic(route, r); err != nil || id.CSRF == "" || route.OwnAuth || !alters(route, r) {
		return err
	}
	proof := r.Header.Get(CSRFHeader)
	if proof == "" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		// The form is read once: a later reader would not see this error.
		if err := r.ParseForm(); err != nil {
			return &message.Error{Code: message.CodeInvalid, Op: "check origin", What: "the form is incomplete or cannot be read", Hint: "load the page again", Err: err}
		}
		proof = r.PostForm.Get(csrfField)
	}
	if subtle.ConstantTimeCompare([]byte(proof), []byte(id.CSRF)) != 1 {
		return &message.Error{Code: message.CodeForbidden, Op: "check origin", What: "the request does not prove that a page of this server made it", Hint: "load the page again; a program sends Authorization: Bearer TOKEN and no cookie"}
	}
	return nil
}

// checkPublic is check for requests without credentials, such as a login: another
// site must not log a person in under another name.
func (o *origins) checkPublic(route *Route, r *http.Request) error {
	if !alters(route, r) {
		return nil
	}
	if err := o.cross.Check(r); err != nil {
		return errOrigin(r.Header.Get("Origin"))
	}
	return nil
}

// checkSite keeps other sites from loading anything but pages that a person
// navigates to.
func (o *origins) checkSite(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "cross-site" && site != "same-site" || r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		return nil
	}
	if origin := r.Header.Get("Origin"); slices.Contains(o.listed, origin) {
		return nil
	}
	return errOrigin(r.Header.Get("Origin"))
}
