package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func ownRow(kind, name, help string, labels ...string) row {
	m := row{name: prefix + name, kind: kind, help: help, labels: labels}
	ofProcess = append(ofProcess, m)
	return m
}

// The metrics of the process.
var (
	journalWrite   = ownRow("histogram", "journal_write_seconds", "Time until the journal has confirmed a record of this engine.")
	httpRequests   = ownRow("counter", "http_requests_total", "HTTP requests by route and status; without a route: paths that do not exist.", "method", "route", "status")
	httpTime       = ownRow("histogram", "http_request_seconds", "Time to the end of the reply, including streams and held requests.", "method", "route")
	NATSConnected  = ownRow("gauge", "nats_connected", "1 while the connection to the NATS server is up, else 0.")
	NATSReconnects = ownRow("counter", "nats_reconnects_total", "Reconnections to the NATS server.")
	TokenError     = ownRow("gauge", "http_token_error", "1 while the token file is unreadable: the last tokens stay valid for a minute, then none are.")
)

// Number is one metric of the process. Value may be called from several goroutines.
type Number struct {
	row
	Value func() float64
}

// Own returns a Number for one of the exported rows.
func Own(of row, value func() float64) Number { return Number{of, value} }

func (n Number) collector() prometheus.Collector {
	if n.kind == "counter" {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: n.name, Help: n.help}, n.Value)
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: n.name, Help: n.help}, n.Value)
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

func (p *Process) register(at prometheus.Registerer) {
	at.MustRegister(p.writes, p.requests, p.times)
}
