package gateway

import (
	"cmp"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/askance-dev/askance/message"
	"golang.org/x/time/rate"
)

// Limits bound what one peer can request. Zero values are the defaults.
type Limits struct {
	// PerSecond is the sustained rate of one peer's requests, Burst how many are
	// accepted at once; reads count separately. Defaults: 500 and 2000.
	PerSecond float64
	Burst     int
	Streams   int // open streams of one peer; default 2048
	// Failures is how many wrong credentials from one address are answered per minute; default 30.
	// Valid credentials are always accepted.
	Failures int
}

func (l Limits) withDefaults() Limits {
	l.PerSecond, l.Burst = cmp.Or(max(l.PerSecond, 0), 500), cmp.Or(max(l.Burst, 0), 2000)
	l.Streams, l.Failures = cmp.Or(max(l.Streams, 0), 2048), cmp.Or(max(l.Failures, 0), 30)
	return l
}

const (
	maxBuckets = 1 << 16         // of peers, and of addresses
	bucketLife = 5 * time.Minute // of an unused one: it is full again by then
)

// limiter applies Limits. It is safe for concurrent use.
type limiter struct {
	limits Limits

	mu        sync.Mutex // guards what follows
	peers     buckets
	addresses buckets
	streams   map[string]int
}

func newLimiter(l Limits) *limiter {
	l = l.withDefaults()
	return &limiter{
		limits: l, streams: map[string]int{},
		peers:     buckets{limit: rate.Limit(l.PerSecond), burst: l.Burst, all: map[string]*bucket{}},
		addresses: buckets{limit: rate.Limit(float64(l.Failures) / 60), burst: l.Failures, all: map[string]*bucket{}},
	}
}

func peerKey(p *Peer) string { return string(p.Space.ID) + "\x00" + p.Name }

// takeRequest reports whether a peer may make one more request. Reads cannot use up
// the requests that decide or stop something.
func (l *limiter) takeRequest(p *Peer, alters bool) bool {
	key := peerKey(p)
	if !alters {
		key += "\x00read"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peers.take(key, time.Now())
}

// takeFailure reports whether one more wrong credential from an address is answered.
func (l *limiter) takeFailure(remote string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addresses.take(address(remote), time.Now())
}

// takeStream counts a stream as open until done is called.
func (l *limiter) takeStream(p *Peer) (done func(), ok bool) {
	key := peerKey(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[key] >= l.limits.Streams {
		return nil, false
	}
	l.streams[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.streams[key]--; l.streams[key] <= 0 {
			delete(l.streams, key)
		}
	}, true
}

// address returns the client address of a request; for IPv6, its /64 network, and for a Unix
// socket, the user.
func address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return remote // the user of a Unix socket
	}
	if ip.Unmap().Is4() {
		return host
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}

// buckets are at most maxBuckets token buckets by name.
type buckets struct {
	limit rate.Limit
	burst int
	all   map[string]*bucket
	swept time.Time
}

type bucket struct {
	*rate.Limiter
	used time.Time
}

func (b *buckets) take(name string, now time.Time) bool {
	found := b.all[name]
	if found == nil {
		b.sweep(now)
		if len(b.all) >= maxBuckets {
			name = "" // shared by all that do not fit
			found = b.all[name]
		}
	}
	if found == nil {
		found = &bucket{Limiter: rate.NewLimiter(b.limit, b.burst)}
		b.all[name] = found
	}
	found.used = now
	return found.AllowN(now, 1)
}

// sweep removes the buckets that are full again.
func (b *buckets) sweep(now time.Time) {
	if now.Sub(b.swept) < bucketLife/5 {
		return
	}
	b.swept = now
	for name, old := range b.all {
		if now.Sub(old.used) > bucketLife {
			delete(b.all, name)
		}
	}
}

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

// CheckOrigins refuses origins that browsers never send in this form, so that they match no page.
func CheckOrigins(listed []string) error {
	_, err := newOrigins(listed)
	return err
}

// defaultPorts are the ports that browsers leave out.
var defaultPorts = map[string]bool{"http:80": true, "https:443": true}

func newOrigins(listed []string) (*origins, error) {
	o := &origins{listed: listed, cross: http.NewCrossOriginProtection()}
	for _, origin := range listed {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme+"://"+u.Host != origin || u.Hostname() == "" || strings.Contains(origin, "*") {
			return nil, fmt.Errorf("gateway: %q is not an origin: write it as https://app.example, without a path or a wildcard", origin)
		}
		isASCII := !strings.ContainsFunc(u.Host, func(r rune) bool { return r >= utf8.RuneSelf })
		if defaultPorts[u.Scheme+":"+u.Port()] || strings.HasSuffix(u.Host, ":") || u.Host != strings.ToLower(u.Host) || !isASCII {
			return nil, fmt.Errorf("gateway: browsers never send the origin %q: write its host in lower case and ASCII, without the default port", origin)
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
	// The form of a login has no proof, because its page may be older than the current session.
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
	if origin := r.Header.Get("Origin"); !slices.Contains(o.listed, origin) {
		return errOrigin(origin)
	}
	return nil
}
