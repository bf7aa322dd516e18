package api

import (
	"net/http"
	"slices"

	"github.com/askance-dev/askance/gateway"
)

// Config says what the API is told about itself.
type Config struct {
	// Version of askance, for the OpenAPI document.
	Version string
	// Webhooks serves messages that were given up; nil: there are none.
	Webhooks Webhooks
}

// API is the surface. Its handlers may run in many goroutines.
type API struct {
	ops  []*op
	spec []byte // the OpenAPI document
	page []byte // the readable page
}

// New makes the API.
func New(cfg Config) (*API, error) {
	a := &API{ops: operations(newKept(), cfg.Webhooks)}
	var err error
	if a.spec, err = document(cfg.Version); err != nil {
		return nil, err
	}
	a.page, err = page(a.ops, a.spec)
	return a, err
}

func operations(keep *kept, hooks Webhooks) []*op {
	return slices.Concat(tableOps(keep), spaceOps(), hookOps(keep, hooks))
}

// OpenAPI is the OpenAPI 3.1 document.
func (a *API) OpenAPI() []byte { return a.spec }

// Routes implements gateway.Surface.
func (a *API) Routes() []gateway.Route {
	out := make([]gateway.Route, 0, len(a.ops)+2)
	for _, o := range a.ops {
		out = append(out, o.route())
	}
	return append(out,
		static("/openapi.json", "application/json", "The OpenAPI 3.1 document of this API.", a.spec),
		static("/docs", "text/html; charset=utf-8", "This API for people to read.", a.page),
	)
}

func static(path, kind, doc string, body []byte) gateway.Route {
	return gateway.Route{Method: http.MethodGet, Path: path, Access: gateway.Everybody, Doc: doc, Serve: func(w http.ResponseWriter, _ *http.Request, _ *gateway.Peer) error {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(body) // the peer may be gone
		return nil
	}}
}
