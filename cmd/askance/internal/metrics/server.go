package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers scrapes.
type Server struct {
	listener net.Listener
	http     *http.Server
	wg       sync.WaitGroup
}

// Handler shows an engine, and the process. recent is how far back the metrics
// of recent answers reach.
func Handler(e Engine, recent time.Duration) http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(collector{e, recent}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{}))
	return mux
}

// Serve answers at an address until Close. Without a host it is that of
// loopback; port 0 takes a free one.
func Serve(ctx context.Context, address string, e Engine, recent time.Duration) (*Server, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s := &Server{listener: l, http: &http.Server{Handler: Handler(e, recent), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 2 * scrapeTime}}
	s.wg.Go(func() { _ = s.http.Serve(l) }) // ends with ErrServerClosed
	return s, nil
}

// URL is what to scrape.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/metrics" }

// Close stops it at once: a scrape that is cut off is made again.
func (s *Server) Close() error {
	err := s.http.Close()
	s.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
