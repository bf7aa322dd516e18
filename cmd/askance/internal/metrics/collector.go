// Package metrics shows an engine to Prometheus: its open calls, its policy, and
// the load of its reviewers, as text at /metrics.
//
// The counters and the response time count from the beginning of the journal,
// so that rates over any window are Prometheus's to take. The gauges named
// askance_reviewer_recent_* are about the responses of a window that ends with the
// scrape, an hour unless askance serve --metrics-window says otherwise; who has
// not responded within it is left out.
//
// Nothing is counted here. Each scrape reads what the engine knows, so a scrape
// costs one pass over the reviewers, and no scrape costs nothing. The names of
// reviewers are labels; package reviewers bounds how many there can be.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/askance-dev/askance/toolcall"
)

// Engine is what is shown. engine.Client has it.
type Engine interface {
	Info(ctx context.Context) (toolcall.InfoReply, error)
	Load(ctx context.Context, r toolcall.LoadRequest) (toolcall.LoadReply, error)
}

const scrapeTime = 5 * time.Second

type collector struct {
	engine Engine
	recent time.Duration
}

var who = []string{"kind", "name"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("askance_"+name, help, labels, nil)
}

var (
	up           = desc("up", "1 if the engine responds, else 0.")
	build        = desc("build_info", "Always 1; the labels describe the engine.", "version", "engine", "space", "durability")
	openCalls    = desc("open_calls", "Calls that are not finished.")
	blockedCalls = desc("blocked_calls", "Calls that wait for an operator to resolve them.")
	returned     = desc("returned_calls", "Open calls that do not run because workers returned their tasks; askance list says which worker and why.")
	clockAhead   = desc("clock_ahead_seconds", "How far a clock is ahead of the engine's, if it differs: of a worker, or of the journal's server. Negative: behind.", "who")
	policyError  = desc("policy_error", "1 while the last policy could not be loaded and an older one is in force.")
	openAsked    = desc("open_requests", "Open approval requests.")
	unassigned   = desc("open_requests_unassigned", "Open approval requests for any approver.")
	refused      = desc("reviewer_limit_refusals_total", "Responses that this engine refused because of a limit for reviewers.")
	others       = desc("reviewers_not_shown", "Reviewers and groups without metrics of their own.")

	reviewerOpen = desc("reviewer_open_requests", "Open approval requests for this person or group.", who...)
	responses    = desc("reviewer_responses_total", "Responses by kind: approve, reject, respond; pass counts skipped and delegated requests.", "kind", "name", "response")
	tooSoon      = desc("reviewer_responses_within_2s_total", "Responses within two seconds, too soon to read the request.", who...)
	tookTime     = desc("reviewer_response_seconds", "Time from request to response, since the start of the journal; the median within 5 %.", who...)
	limit        = desc("reviewer_limit", "Limits for one reviewer: responses per_minute and per_hour, and max_open requests.", "limit")

	window          = desc("reviewer_recent_window_seconds", "How far back the metrics askance_reviewer_recent_* reach.")
	recentResponses = desc("reviewer_recent_responses", "Responses within the window, by kind.", "kind", "name", "response")
	recentApprove   = desc("reviewer_recent_approve_ratio", "Share of approvals among the responses within the window, from 0 to 1.", who...)
	recentFast      = desc("reviewer_recent_within_2s_ratio", "Share of the responses within the window that came within two seconds of the request.", who...)
	recentMedian    = desc("reviewer_recent_response_median_seconds", "Median time from request to response within the window, to within 5 %.", who...)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{up, build, openCalls, blockedCalls, returned, clockAhead, policyError, openAsked, unassigned, refused, others, reviewerOpen, responses, tooSoon, tookTime, limit, window, recentResponses, recentApprove, recentFast, recentMedian} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. An engine that does not answer is
// shown as that, and nothing of it is made up.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	info, err := c.engine.Info(ctx)
	if err != nil {
		ch <- gauge(up, 0)
		return
	}
	load, err := c.engine.Load(ctx, toolcall.LoadRequest{V: 1})
	if err != nil {
		ch <- gauge(up, 0)
		return
	}
	late, err := c.engine.Load(ctx, toolcall.LoadRequest{V: 1, Since: time.Now().Add(-c.recent).UTC()})
	if err != nil {
		ch <- gauge(up, 0)
		return
	}
	ch <- gauge(up, 1)
	ch <- gauge(build, 1, info.Version, info.Engine, string(info.Space), info.Durability)
	ch <- gauge(openCalls, info.Open)
	ch <- gauge(blockedCalls, info.Blocked)
	ch <- gauge(returned, info.Returned)
	for _, r := range info.Clocks {
		ch <- prometheus.MustNewConstMetric(clockAhead, prometheus.GaugeValue, float64(r.AheadMS)/1000, r.Who)
	}
	failed := 0
	if info.PolicyErr != "" {
		failed = 1
	}
	ch <- gauge(policyError, failed)
	ch <- gauge(openAsked, load.Open)
	ch <- gauge(unassigned, load.Unassigned)
	ch <- counter(refused, load.Refused)
	ch <- gauge(others, load.Others)
	reviewers(ch, "person", load.People)
	reviewers(ch, "group", load.Groups)
	for name, n := range map[string]int{"per_minute": load.Limits.PerMinute, "per_hour": load.Limits.PerHour, "max_open": load.Limits.MaxOpen} {
		if n > 0 {
			ch <- gauge(limit, n, name)
		}
	}
	ch <- gauge(window, int(c.recent.Seconds()))
	collectRecent(ch, "person", late.People)
	collectRecent(ch, "group", late.Groups)
}

func reviewers(ch chan<- prometheus.Metric, kind string, all []toolcall.ReviewerLoad) {
	for _, r := range all {
		ch <- gauge(reviewerOpen, r.Open, kind, r.Name)
		for response, n := range byKind(r) {
			ch <- counter(responses, n, kind, r.Name, response)
		}
		ch <- counter(tooSoon, r.Within2S, kind, r.Name)
		ch <- prometheus.MustNewConstSummary(tookTime, uint64(max(0, r.Answered)), seconds(r.TotalMS), map[float64]float64{0.5: seconds(r.MedianMS)}, kind, r.Name)
	}
}

// collectRecent shows the reviewers who responded within the window.
func collectRecent(ch chan<- prometheus.Metric, kind string, all []toolcall.ReviewerLoad) {
	for _, r := range all {
		if r.Answered+r.Passed == 0 {
			continue
		}
		for response, n := range byKind(r) {
			ch <- gauge(recentResponses, n, kind, r.Name, response)
		}
		if r.Answered == 0 {
			continue
		}
		for d, v := range map[*prometheus.Desc]float64{recentApprove: r.ApproveRate(), recentFast: r.FastShare(), recentMedian: seconds(r.MedianMS)} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, kind, r.Name)
		}
	}
}

func byKind(r toolcall.ReviewerLoad) map[string]int {
	return map[string]int{"approve": r.Approved, "reject": r.Rejected, "respond": r.Responded, "pass": r.Passed}
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

func gauge(d *prometheus.Desc, n int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
}

func counter(d *prometheus.Desc, n int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}
