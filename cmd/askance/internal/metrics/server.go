package metrics

import (
	"cmp"
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

	"github.com/askance-dev/askance/gateway/auth"
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
		all.MustRegister(n)
	}
	all.MustRegister(process.writes, process.requests, process.times)
	if len(cfg.Spaces) == 0 {
		all.MustRegister(newCollector(cfg, false))
	}
	for id, space := range cfg.Spaces {
		cfg.Engine, cfg.Journal = space.Engine, space.Journal
		prometheus.WrapRegistererWith(prometheus.Labels{"space": string(id)}, all).MustRegister(newCollector(cfg, true))
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
	host = cmp.Or(host, "127.0.0.1")
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "metrics", What: "cannot listen at " + address, Hint: "choose another address with --metrics", Err: err}
	}
	return l, nil
}

// Serve serves scrapes on l until Close, which also closes l.
func Serve(l net.Listener, cfg Config, process *Process) *Server {
	h := Handler(cfg, process)
	if auth.LoopbackHost(l.Addr().String()) {
		h = refuseForeignHosts(h)
	}
	s := &Server{listener: l, http: &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 3 * scrapeTime, IdleTimeout: 5 * time.Minute, WriteTimeout: 2 * scrapeTime}}
	s.wg.Go(func() { _ = s.http.Serve(l) }) // ends with ErrServerClosed
	return s
}

// refuseForeignHosts refuses requests under names that are not of this machine. A page of another
// site can have its name resolve to loopback, and so read what only this machine should.
func refuseForeignHosts(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !auth.LoopbackHost(r.Host) {
			http.Error(w, "this address is only for this machine: scrape it as localhost, or listen elsewhere with --metrics", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
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

func ownRow(kind, name, help string, labels ...string) row {
	m := row{name: prefix + name, kind: kind, help: help, labels: labels}
	ofProcess = append(ofProcess, m)
	return m
}

// The metrics of the process. Those of other packages are exported.
var (
	journalWrite   = ownRow("histogram", "journal_write_seconds", "Time until the journal has confirmed a record of this engine.")
	httpRequests   = ownRow("counter", "http_requests_total", "HTTP requests by route and status; without a route: paths that do not exist.", "method", "route", "status")
	httpTime       = ownRow("histogram", "http_request_seconds", "Time to the end of the reply, including streams and held requests.", "method", "route")
	NATSConnected  = ownRow("gauge", "nats_connected", "1 while the connection to the NATS server is up, else 0.")
	NATSReconnects = ownRow("counter", "nats_reconnects_total", "Reconnections to the NATS server.")
	TokenError     = ownRow("gauge", "http_token_error", "1 while the token file is unreadable: the last tokens stay valid for a minute, then none are.")
	DirectoryError = ownRow("gauge", "directory_error", "1 while the people files of a space are refused and older ones are in force.")
	DeadLetters    = ownRow("gauge", "dead_letters", "Webhook messages that a destination did not accept in any attempt; askance webhooks list shows them. NaN while they cannot be counted.")
)

// Number is one metric of the process.
type Number struct{ prometheus.Collector }

// Own returns a Number for one of the exported rows. value may be called from several goroutines.
func Own(of row, value func() float64) Number {
	if of.kind == "counter" {
		return Number{prometheus.NewCounterFunc(prometheus.CounterOpts{Name: of.name, Help: of.help}, value)}
	}
	return Number{prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: of.name, Help: of.help}, value)}
}

// Process counts what one process does. Its methods may be called from many goroutines.
type Process struct {
	writes   prometheus.Histogram
	requests *prometheus.CounterVec
	times    *prometheus.HistogramVec
}

// NewProcess returns the metrics of a process, all 0.
func NewProcess() *Process {
	writes := prometheus.HistogramOpts{Name: journalWrite.name, Help: journalWrite.help, Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}
	times := prometheus.HistogramOpts{Name: httpTime.name, Help: httpTime.help, Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}}
	return &Process{
		writes:   prometheus.NewHistogram(writes),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: httpRequests.name, Help: httpRequests.help}, httpRequests.labels),
		times:    prometheus.NewHistogramVec(times, httpTime.labels),
	}
}

// Wrote counts a write to the journal.
func (p *Process) Wrote(took time.Duration) { p.writes.Observe(took.Seconds()) }

// Served counts a request over HTTP. Routes are those that surfaces declare, so their
// number is bounded.
func (p *Process) Served(method, route string, status int, took time.Duration) {
	p.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	p.times.WithLabelValues(method, route).Observe(took.Seconds())
}
