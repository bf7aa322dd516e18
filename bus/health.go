package bus

import (
	"net/http"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// Health is nil while everything works, and else a *HealthError. A disk that
// filled up under a stream shows here and nowhere else: the server then leaves
// writes unanswered until it is restarted: see [Server.Recover].
func (s *Server) Health() error {
	h := s.now().Healthz(&server.HealthzOptions{Details: true})
	if h.StatusCode == http.StatusOK {
		return nil
	}
	e := &HealthError{}
	for _, p := range h.Errors {
		e.Problems = append(e.Problems, p.Error)
		if p.Type == server.HealthzErrorStream && strings.Contains(p.Error, "write error") {
			e.Broken = append(e.Broken, p.Stream)
		}
	}
	return e
}

// HealthError says what is wrong with a server.
type HealthError struct {
	Problems []string
	// Broken are the streams whose files could not be written. They take nothing
	// any more until the server is restarted: what is not in them by now will never
	// be.
	Broken []string
}

func (e *HealthError) Error() string {
	if len(e.Problems) == 0 {
		return "the server is not well"
	}
	return strings.Join(e.Problems, "; ")
}
