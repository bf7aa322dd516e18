package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/internal/strictjson"
)

// HTTPConfig says who may use the HTTP endpoint.
type HTTPConfig struct {
	// Authenticate returns the principal of a request; an error becomes a reply with status 401.
	// It is called again while the request is open, which ends once the principal changes.
	Authenticate func(*http.Request) (string, error)
	// Origins are pages that may use the endpoint from a browser.
	Origins []string
	// Public: the endpoint is reached under other names than this machine's loopback.
	Public bool
	// Sessions is how many sessions may be open; one principal can have half. Default 2000.
	Sessions int
}

// httpServer is the streamable HTTP endpoint, of both eras.
type httpServer struct {
	g        *Gateway
	cfg      HTTPConfig
	mu       sync.Mutex // guards sessions
	sessions map[string]*session
}

// Handler serves clients over streamable HTTP.
func (g *Gateway) Handler(cfg HTTPConfig) http.Handler {
	if cfg.Sessions <= 0 {
		cfg.Sessions = maxSessions
	}
	return &httpServer{g: g, cfg: cfg, sessions: map[string]*session{}}
}

// bodyTime is how long a client may take to send its message.
const bodyTime = 30 * time.Second

// limitBody gives the rest of a request a time limit. None means that all of it was read: a limit
// would later look like a client that is gone.
func limitBody(w http.ResponseWriter, limit time.Duration) {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	_ = http.NewResponseController(w).SetReadDeadline(until) // fails only in a test without deadlines
}

func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limitBody(w, bodyTime) // also for a refused request, whose body net/http reads
	if origin := r.Header.Get("Origin"); origin != "" && !slices.Contains(s.cfg.Origins, origin) && !s.isOwnPage(origin) {
		http.Error(w, "the origin "+origin+" may not use this endpoint: name it with --http-origin", http.StatusForbidden)
		return
	}
	if !s.cfg.Public && !auth.LoopbackHost(r.Host) {
		http.Error(w, "the host "+r.Host+" is not this machine", http.StatusForbidden)
		return
	}
	if s.preflight(w.Header(), r) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	principal, err := s.cfg.Authenticate(r)
	if err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "send a runtime's token of this space (askance token create NAME --role runtime --space SPACE) as Authorization: Bearer", http.StatusUnauthorized)
		return
	}
	r, stop := s.untilRevoked(r, principal)
	defer stop()
	version := r.Header.Get("MCP-Protocol-Version")
	switch {
	case r.Method == http.MethodPost:
		s.post(w, r, principal)
	case version == modernVersion || r.Method != http.MethodGet && r.Method != http.MethodDelete:
		w.Header().Set("Allow", "POST")
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
	default:
		if r.ContentLength == 0 { // no body is to be read
			limitBody(w, 0)
		}
		s.serveSession(w, r, principal)
	}
}

// lookEvery is how often the credentials of an open request are checked again.
const lookEvery = time.Second

// untilRevoked returns the request with a context that also ends soon after its credentials.
func (s *httpServer) untilRevoked(r *http.Request, principal string) (*http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		for range gateway.Every(ctx, lookEvery) {
			if now, err := s.cfg.Authenticate(r); err != nil || now != principal {
				cancel()
			}
		}
	}()
	return r.WithContext(ctx), cancel
}

// isOwnPage reports whether an origin is a page of this machine's loopback, which may
// use an endpoint there.
func (s *httpServer) isOwnPage(origin string) bool {
	_, host, found := strings.Cut(origin, "://")
	return found && !s.cfg.Public && auth.LoopbackHost(host)
}

// preflight sets the CORS headers for pages of a listed origin, and reports whether r is a browser's
// question before such a request. Credentials are never allowed, so browsers send no cookies.
func (s *httpServer) preflight(h http.Header, r *http.Request) bool {
	if len(s.cfg.Origins) > 0 {
		h.Add("Vary", "Origin")
	}
	origin := r.Header.Get("Origin")
	if !slices.Contains(s.cfg.Origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", sessionField+", WWW-Authenticate")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers")) // tools name further ones
	h.Set("Access-Control-Max-Age", "600")
	return true
}

func refuseEnded(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "the credentials ended before the request was answered", http.StatusUnauthorized)
}

func (s *httpServer) post(w http.ResponseWriter, r *http.Request, principal string) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "the body is not application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFrame))
	if err != nil {
		http.Error(w, "the body is too large or did not arrive", http.StatusRequestEntityTooLarge)
		return
	}
	limitBody(w, 0)
	if now, err := s.cfg.Authenticate(r); err != nil || now != principal {
		refuseEnded(w)
		return
	}
	f, err := readClient(body)
	if err != nil {
		refuse(w, parseError(body, err))
		return
	}
	meta, modern := eraOf(objectOf(f.params))
	version := r.Header.Get("MCP-Protocol-Version")
	if modern || version == modernVersion || version != "" && !isLegacy(version) {
		s.serveModern(w, r, principal, f, meta)
		return
	}
	s.serveLegacy(w, r, principal, f)
}

// refuse sends an error before the request is carried out.
func refuse(w http.ResponseWriter, response *frame) {
	if response.id == nil {
		response.id = json.RawMessage("null")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(response.bytes()) //nolint:gosec // G705: JSON, and the client may be gone
}

func (s *httpServer) serveModern(w http.ResponseWriter, r *http.Request, principal string, f *frame, meta object) {
	if err := checkHeaders(r.Header, f, meta); err != nil {
		refuse(w, responseTo(f.id, nil, err))
		return
	}
	switch {
	case f.isResponse():
		refuse(w, responseTo(f.id, nil, &rpcError{code: codeInvalidRequest, text: "a client sends no responses in this revision"}))
		return
	case !f.isRequest():
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := checkModern(meta); err != nil {
		refuse(w, responseTo(f.id, nil, err))
		return
	}
	p, release, ok := s.g.modernPeer(principal, meta)
	if !ok {
		http.Error(w, tooMany, http.StatusServiceUnavailable)
		return
	}
	defer release()
	a := newAnswer(w, r, false)
	x := newExchange(p, f, a.send)
	x.header = r.Header
	s.carryOut(r, p, x, a, &inflight{}, errCancelled)
}

// carryOut carries a request out. gone is the cancellation cause when the client disconnects.
func (s *httpServer) carryOut(r *http.Request, p *peer, x *exchange, a *answer, of *inflight, gone error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	stop := context.AfterFunc(r.Context(), func() { cancel(gone) })
	defer stop()
	defer context.AfterFunc(s.g.life, func() { cancel(errStopped) })()
	defer a.keepAlive()()
	response := p.accept(ctx, x, of)()
	a.finish(response, p.modern)
}

// checkHeaders compares the headers of a modern request with its body.
func checkHeaders(h http.Header, f *frame, meta object) *rpcError {
	mismatch := func(text string) *rpcError {
		return &rpcError{code: codeHeaders, text: "Header mismatch: " + text}
	}
	version, inBody := h.Get("MCP-Protocol-Version"), meta.text(metaVersion)
	switch {
	case version == "":
		return mismatch("MCP-Protocol-Version is missing")
	case inBody != "" && version != inBody:
		return mismatch("MCP-Protocol-Version is " + version + ", the body says " + inBody)
	case version != modernVersion:
		return &rpcError{code: codeVersion, text: "Unsupported protocol version", data: encode(map[string]any{"supported": allVersions(), "requested": version})}
	case f.isResponse():
		return nil
	case h.Get("Mcp-Method") != f.method || len(h.Values("Mcp-Method")) != 1 || len(h.Values("MCP-Protocol-Version")) != 1:
		return mismatch("Mcp-Method is not " + f.method + ", or a header occurs twice")
	}
	name, has := nameOf(f.method, objectOf(f.params))
	if !has {
		return nil
	}
	text, ok := headerText(h.Get("Mcp-Name"))
	if !ok || text != name || len(h.Values("Mcp-Name")) != 1 {
		return mismatch("Mcp-Name is not the name in the body")
	}
	return nil
}

// checkParamHeaders compares the headers that a tool's schema requires with the arguments.
func checkParamHeaders(h http.Header, schema, arguments json.RawMessage) error {
	want, _ := paramHeaders(schema, arguments)
	for name, value := range want {
		text, ok := headerText(h.Get("Mcp-Param-" + name))
		if !ok || len(h.Values("Mcp-Param-"+name)) != 1 || text != value && !sameNumber(text, value) {
			return &rpcError{code: codeHeaders, text: "Header mismatch: Mcp-Param-" + name + " is not the argument in the body"}
		}
	}
	for name := range h {
		rest, is := strings.CutPrefix(name, "Mcp-Param-")
		if !is {
			continue
		}
		known := false
		for n := range want {
			known = known || strings.EqualFold(n, rest)
		}
		if !known && asksFor(schema, rest) {
			return &rpcError{code: codeHeaders, text: "Header mismatch: the body has no argument for " + name}
		}
	}
	return nil
}

func asksFor(schema json.RawMessage, name string) bool {
	return slices.ContainsFunc(objectOf(objectOf(schema).get("properties")), func(p strictjson.Member) bool {
		return strings.EqualFold(objectOf(p.Value).text("x-mcp-header"), name) || asksFor(p.Value, name)
	})
}

func sameNumber(a, b string) bool {
	x, ok := new(big.Rat).SetString(a)
	y, also := new(big.Rat).SetString(b)
	return ok && also && len(a) < 64 && len(b) < 64 && x.Cmp(y) == 0
}

// answer is the response to one POST: JSON, or a stream once something comes before
// the result.
type answer struct {
	legacy  bool
	ctx     context.Context //nolint:containedctx // of the request: it ends with the credentials
	mu      sync.Mutex      // guards the rest
	w       http.ResponseWriter
	streams bool         // the client accepts a stream
	sse     *gateway.SSE // once the stream has begun
	over    bool
}

func newAnswer(w http.ResponseWriter, r *http.Request, legacy bool) *answer {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return &answer{w: w, legacy: legacy, ctx: r.Context(), streams: strings.Contains(accept, "text/event-stream")}
}

// begin begins the stream. It returns false if the client accepts none or the answer is over.
func (a *answer) begin() bool {
	if a.over || !a.streams {
		return false
	}
	if a.sse == nil {
		a.sse = gateway.NewSSE(a.w)
		if a.legacy {
			a.write([]byte("retry: 1000\n\n"))
		}
	}
	return true
}

// open begins the stream at once, if the client accepts one.
func (a *answer) open() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begin() {
		a.write(nil)
	}
}

// write writes a part. One that is not read in time would block the server that the client shares
// with others.
func (a *answer) write(text []byte) {
	_ = gateway.Write(a.w, text) // a client that is gone ends its request
}

func event(f *frame) []byte {
	return append(append([]byte("event: message\ndata: "), f.bytes()...), "\n\n"...)
}

func (a *answer) send(f *frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() == nil && a.begin() {
		a.write(event(f))
	}
}

// aliveEvery is how often an idle stream gets a comment, so that proxies keep it.
const aliveEvery = 15 * time.Second

// keepAlive writes comments until the function is called.
func (a *answer) keepAlive() (stop func()) {
	ctx, stop := context.WithCancel(a.ctx)
	go func() {
		for range gateway.Every(ctx, aliveEvery) {
			a.mu.Lock()
			if a.begin() {
				a.write([]byte(": wait\n\n"))
			}
			a.mu.Unlock()
		}
	}()
	return stop
}

func (a *answer) finish(f *frame, modern bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil { // the client is gone, or its credentials have ended
		if a.sse == nil {
			refuseEnded(a.w)
		}
		a.over = true
		return
	}
	if (a.sse != nil || f.fault == nil) && a.begin() {
		a.write(event(f))
		a.over = true
		return
	}
	a.over = true
	status := http.StatusOK
	if modern && f.fault != nil {
		switch readError(f.fault).code {
		case codeNoMethod:
			status = http.StatusNotFound
		case codeHeaders, codeCapability, codeVersion:
			status = http.StatusBadRequest
		}
	}
	a.w.Header().Set("Content-Type", "application/json")
	a.w.WriteHeader(status)
	a.write(f.bytes())
}

// CheckAddress refuses an address at which strangers could call tools, or see tokens.
func CheckAddress(address string, hasTokens, private bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("--http " + address + " is not host:port; write 127.0.0.1:8788, or 127.0.0.1:0 for a free port")
	}
	ip := net.ParseIP(host)
	switch {
	case host == "localhost" || ip != nil && ip.IsLoopback():
		return nil
	case !hasTokens:
		return errors.New("--http " + address + " is not a loopback address, and there is no token file: everyone who reaches it could call the tools; create tokens with askance token create, or listen on 127.0.0.1")
	case !private:
		return errors.New("--http " + address + " is not a loopback address, and without TLS the network sees every token: pass --http-cert and --http-key, or --http-insecure if a proxy in front has TLS")
	}
	return nil
}
