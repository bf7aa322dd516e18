package metrics

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/askance-dev/askance/message"
)

// Server serves scrapes.
type Server struct {
	listener net.Listener
	http     *http.Server
	wg       sync.WaitGroup
}

// Handler exports the metrics of an engine, of the process, and of cfg.Own.
func Handler(cfg Config, process *Process) http.Handler {
	all := prometheus.NewRegistry()
	for _, n := range cfg.Own {
		all.MustRegister(n.collector())
	}
	process.register(all)
	if len(cfg.Spaces) == 0 {
		all.MustRegister(newCollector(cfg, false))
	}
	for space, engine := range cfg.Spaces {
		cfg.Engine = engine
		prometheus.WrapRegistererWith(prometheus.Labels{"space": string(space)}, all).MustRegister(newCollector(cfg, true))
	}
	all.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{}))
	return mux
}

// Listen binds an address, before there is anything to export. Without a host it listens
// on loopback; port 0 picks a free port.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "metrics", What: "the address " + strconv.Quote(address) + " is not host:port", Hint: "write 127.0.0.1:9464, or :9464"}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "metrics", What: "cannot listen at " + address, Hint: "choose another address with --metrics", Err: err}
	}
	return l, nil
}

// Serve serves scrapes on l until Close, which also closes l.
func Serve(l net.Listener, cfg Config, process *Process) *Server {
	s := &Server{listener: l, http: &http.Server{Handler: Handler(cfg, process), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 2 * scrapeTime}}
	s.wg.Go(func() { _ = s.http.Serve(l) }) // ends with ErrServerClosed
	return s
}

// URL returns the URL to scrape.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/metrics" }

// Close stops the server at once: Prometheus repeats a scrape that is cut off.
func (s *Server) Close() error {
	err := s.http.Close()
	s.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
