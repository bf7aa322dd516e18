package gateway

import (
	"log/slog"
	"net/http"
	"time"
)

// Limits of connections. The server's own are for a peer that sends or takes
// nothing; streams have a limit for each write (see SSE).
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	answerTimeout = time.Minute // longer than any request may be held
	maxHeader     = 64 << 10
)

// HTTP is a server for h, usually a Server, with limits for slow and silent
// peers.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	if log != nil {
		s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	}
	return s
}
