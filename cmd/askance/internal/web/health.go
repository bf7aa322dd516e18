package web

import (
	"net/http"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
)

// health says whether the process lives and whether it can work. Neither tells
// strangers anything else.
func (w *Web) health() gateway.Surface {
	return gateway.Routes{
		{Method: http.MethodGet, Path: "/healthz", Access: gateway.Everybody, Doc: "Whether the process answers.", Serve: func(rw http.ResponseWriter, _ *http.Request, _ *gateway.Peer) error {
			return ok(rw)
		}},
		{Method: http.MethodGet, Path: "/readyz", Access: gateway.Everybody, Doc: "Whether the engine works.", Serve: func(rw http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
			by := message.Principal{Role: message.RoleAuditor, Name: "askance-ready", Auth: "in-process"}
			if _, err := w.cfg.Space.As(by).Info(r.Context()); err != nil {
				return &message.Error{Code: message.CodeUnavailable, Op: "ready", What: "the engine does not work now", Hint: "try again", Err: err}
			}
			return ok(rw)
		}},
	}
}

func ok(rw http.ResponseWriter) error {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.Header().Set("Cache-Control", "no-store")
	_, err := rw.Write([]byte("ok\n"))
	return err
}
