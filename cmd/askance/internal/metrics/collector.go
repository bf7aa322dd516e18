// Package metrics exports the metrics of an engine to Prometheus at /metrics: calls and
// decisions and how long they took, queues and workers, the policy, the journal, HTTP
// and NATS. docs/metrics.md lists all of them.
//
// Counters and histograms of calls count from the beginning of the journal, so every
// engine of a space exports the same values, even after a restart: take the maximum over
// engines, not the sum. Those of the process (journal writes, HTTP, NATS, Go) start with
// it.
//
// Labels are bounded: the engine's tools, [maxDeclared] tools that runtimes declare, and
// [maxPairs] pairs of tool and rule have their own series, all others are counted as
// "other". Names of people are labels only if [Config].People is set.
package metrics

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

const (
	scrapeTime  = 5 * time.Second
	maxPairs    = 500
	maxDeclared = 50
	maxWorkers  = 200
	// maxDestinations bounds the destinations of webhooks, which operators name.
	maxDestinations = 200
	other           = "other"
)

// Config says what is exported.
type Config struct {
	// Engine is called for each scrape; an engine.Port, for example.
	Engine api.Caller
	// Journal is read for each scrape; nil: it is not exported.
	Journal Journal
	// Spaces has the engines and journals of several spaces instead: each of their metrics
	// then has the label space.
	Spaces map[toolcall.SpaceID]Space
	// People exports metrics for each reviewer, with names as labels.
	People bool
	// Recent is how far back the metrics of recent responses reach.
	Recent time.Duration
	// Own has more metrics of the process.
	Own []Number
}

// Space is the engine of one space with its journal.
type Space struct {
	Engine  api.Caller
	Journal Journal
}

// Journal is what is exported of a journal and its ledger.
type Journal interface {
	// Unsigned returns how many records no checkpoint signs, and when the first of them was stored.
	Unsigned(ctx context.Context) (records uint64, oldest time.Time, err error)
	// ListWaiting returns what waits for each destination of webhooks.
	ListWaiting(ctx context.Context) ([]journal.Waiting, error)
}

type collector struct {
	Config
	labeled  bool       // a registry adds the label space
	mu       sync.Mutex // guards all below
	pairs    admitted[[2]string]
	declared admitted[string] // tools
	// destinations are those of the last listing that succeeded.
	destinations []journal.Waiting
}

// admitted has the first names that were seen: they keep their series.
type admitted[K comparable] map[K]bool

func (a admitted[K]) admit(k K, most int) bool {
	if !a[k] && len(a) < most {
		a[k] = true
	}
	return a[k]
}

func newCollector(cfg Config, labeled bool) *collector {
	return &collector{Config: cfg, labeled: labeled, pairs: admitted[[2]string]{}, declared: admitted[string]{}}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range described {
		if m.desc == build && c.labeled {
			m.desc = buildOfSpace
		}
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector. For an engine that does not answer it only
// exports that it is down.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	if c.Journal != nil { // it may not answer in time, but the engine reads its memory
		wg.Go(func() { c.collectJournal(ctx, ch) })
	}
	info, err := api.Info.Call(ctx, c.Engine, struct{}{})
	var load, late toolcall.LoadReply
	var did toolcall.ActivityReply
	var policy api.PolicyStatusReply
	if err == nil {
		load, err = api.Load.Call(ctx, c.Engine, toolcall.LoadRequest{V: 1})
	}
	if err == nil {
		late, err = api.Load.Call(ctx, c.Engine, toolcall.LoadRequest{V: 1, Since: time.Now().Add(-c.Recent).UTC()})
	}
	if err == nil {
		did, err = api.Activity.Call(ctx, c.Engine, toolcall.ActivityRequest{V: 1, Recent: 1})
	}
	if err == nil {
		policy, err = api.PolicyStatus.Call(ctx, c.Engine, struct{}{})
	}
	if err != nil {
		ch <- gauge(up, 0)
		return
	}
	ch <- gauge(up, 1)
	c.collectInfo(ch, info)
	collectPolicy(ch, policy)
	c.mu.Lock()
	c.collectCalls(ch, did, info.Tools)
	c.mu.Unlock()
	collectQueues(ch, did.Queues, time.Now())
	ch <- gauge(openAsked, load.Open)
	ch <- gauge(unassigned, load.Unassigned)
	ch <- counter(refused, load.Refused)
	for name, n := range map[string]int{"per_minute": load.Limits.PerMinute, "per_hour": load.Limits.PerHour, "max_open": load.Limits.MaxOpen} {
		if n > 0 {
			ch <- gauge(limit, n, name)
		}
	}
	ch <- gauge(others, load.Others)
	ch <- gauge(window, int(c.Recent.Seconds()))
	collectReviewers(ch, "group", load.Groups)
	collectRecent(ch, "group", late.Groups)
	if c.People {
		collectReviewers(ch, "person", load.People)
		collectRecent(ch, "person", late.People)
	}
}

// collectJournal exports what operators must know about the journal itself.
func (c *collector) collectJournal(ctx context.Context, ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	records, oldest, err := c.Journal.Unsigned(ctx)
	if err != nil {
		send(unsigned, math.NaN())
		send(unsignedOldest, math.NaN())
	} else {
		send(unsigned, float64(records))
		send(unsignedOldest, secondsSince(oldest))
	}
	all, err := c.Journal.ListWaiting(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.destinations = all[:min(maxDestinations, len(all))]
	}
	for _, w := range c.destinations {
		if err != nil { // only the names are known
			send(webhookWaiting, math.NaN(), w.Destination)
			send(webhookOldest, math.NaN(), w.Destination)
			continue
		}
		send(webhookWaiting, float64(w.Records), w.Destination)
		send(webhookOldest, secondsSince(w.Oldest), w.Destination)
	}
}

// secondsSince is 0 for the zero time.
func secondsSince(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, time.Since(at).Seconds())
}

func (c *collector) collectInfo(ch chan<- prometheus.Metric, info toolcall.InfoReply) {
	if c.labeled {
		ch <- gauge(buildOfSpace, 1, info.Version, info.Engine, info.Durability)
	} else {
		ch <- gauge(build, 1, info.Version, info.Engine, string(info.Space), info.Durability)
	}
	ch <- gauge(openCalls, info.Open)
	ch <- gauge(blockedCalls, info.Blocked)
	ch <- gauge(returned, info.Returned)
	for i, r := range info.Clocks {
		if i < maxWorkers {
			ch <- prometheus.MustNewConstMetric(clockAhead, prometheus.GaugeValue, float64(r.AheadMS)/1000, r.Who)
		}
	}
	ch <- gauge(policyError, one(info.PolicyErr != ""))
	ch <- gauge(anchorNew, one(info.AnchorNew))
}

// one is 1 if something is true.
func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

func collectPolicy(ch chan<- prometheus.Metric, p api.PolicyStatusReply) {
	ch <- gauge(policyInfo, 1, p.Bundle)
	ch <- gauge(policyRules, p.Rules)
	if !p.Loaded.IsZero() {
		ch <- prometheus.MustNewConstMetric(policyLoaded, prometheus.GaugeValue, float64(p.Loaded.UnixMilli())/1000)
	}
	ch <- prometheus.MustNewConstMetric(policyReloads, prometheus.CounterValue, float64(p.Loads), "loaded")
	ch <- prometheus.MustNewConstMetric(policyReloads, prometheus.CounterValue, float64(p.Refused), "refused")
	if s := p.Shadow; s != nil {
		ch <- prometheus.MustNewConstMetric(shadowCalls, prometheus.CounterValue, float64(s.Compared-s.Differing), "same")
		ch <- prometheus.MustNewConstMetric(shadowCalls, prometheus.CounterValue, float64(s.Differing), "different")
	}
}

// collectCalls exports what happened to calls. The tools of the engine, and the first
// maxDeclared that runtimes declare, have their own series.
func (c *collector) collectCalls(ch chan<- prometheus.Metric, r toolcall.ActivityReply, tools []string) {
	label := func(tool string) string {
		if !slices.Contains(tools, tool) && !c.declared.admit(tool, maxDeclared) {
			return other
		}
		return tool
	}
	decided := map[[3]string]int{}
	for _, a := range r.ByToolAndRule {
		pair := [2]string{label(a.Tool), a.Rule}
		if !c.pairs.admit(pair, maxPairs) {
			pair = [2]string{other, other}
		}
		for verdict, n := range map[toolcall.Verdict]int{
			toolcall.VerdictAllow: a.Allowed, toolcall.VerdictAsk: a.Asked, toolcall.VerdictDeny: a.Denied, toolcall.VerdictRefuse: a.Refused,
			toolcall.VerdictApprove: a.Approved, toolcall.VerdictReject: a.Rejected, toolcall.VerdictRespond: a.Responded, toolcall.VerdictExpire: a.Expired,
		} {
			if n > 0 || verdict == toolcall.VerdictExpire && a.Asked > 0 { // else the first one would be no increase
				decided[[3]string{pair[0], pair[1], string(verdict)}] += n
			}
		}
	}
	for k, n := range decided {
		ch <- counter(decisions, n, k[0], k[1], k[2])
	}
	byTool := map[string]*toolcall.ActivityTool{}
	for _, t := range r.ByTool {
		t.Name = label(t.Name)
		if has := byTool[t.Name]; has != nil {
			merge(has, t)
			continue
		}
		byTool[t.Name] = &t
	}
	for name, t := range byTool {
		ch <- counter(proposed, t.Proposed, name)
		ch <- counter(standing, t.Standing, name)
		ch <- counter(attempts, t.Started, name)
		ch <- counter(retries, t.Retried, name)
		ch <- counter(blocked, t.Blocked, name)
		for outcome, n := range map[string]int{"success": t.Succeeded, "error": t.Failed, "revoked": t.Revoked, "interrupted": t.Interrupted} {
			ch <- counter(finished, n, name, outcome)
		}
		for d, times := range map[*prometheus.Desc]toolcall.ActivityTimes{toDecision: t.ToDecision, queuedFor: t.Queued, ranFor: t.Run} {
			if times.Count > 0 { // without limits, only +Inf would begin at 0, and rates would see the first time there
				ch <- histogram(d, times, name)
			}
		}
	}
}

// merge adds the counts of b to a.
func merge(a *toolcall.ActivityTool, b toolcall.ActivityTool) {
	a.Proposed += b.Proposed
	a.Standing += b.Standing
	a.Started += b.Started
	a.Retried += b.Retried
	a.Blocked += b.Blocked
	a.Succeeded += b.Succeeded
	a.Failed += b.Failed
	a.Revoked += b.Revoked
	a.Interrupted += b.Interrupted
	for _, p := range [][2]*toolcall.ActivityTimes{{&a.ToDecision, &b.ToDecision}, {&a.Queued, &b.Queued}, {&a.Run, &b.Run}} {
		to, from := p[0], p[1]
		to.Count += from.Count
		to.SumMS += from.SumMS
		if len(to.Buckets) == 0 {
			to.Buckets = from.Buckets
			continue
		}
		sum := append([]toolcall.ActivityUpTo{}, to.Buckets...)
		for i, b := range from.Buckets {
			sum[i].Count += b.Count
		}
		to.Buckets = sum
	}
}

func collectQueues(ch chan<- prometheus.Metric, queues []toolcall.ActivityQueue, now time.Time) {
	for i, q := range queues {
		if i >= maxPairs {
			return
		}
		at := []string{q.Tool, q.Route, string(q.Placement)}
		age := 0.0
		if !q.Oldest.IsZero() {
			age = max(0, now.Sub(q.Oldest).Seconds())
		}
		ch <- gauge(queueDepth, q.Depth, at...)
		ch <- prometheus.MustNewConstMetric(queueOldest, prometheus.GaugeValue, age, at...)
		ch <- gauge(queueRunning, q.Running, at...)
		ch <- gauge(queueRetrying, q.Retrying, at...)
		ch <- gauge(queueBlocked, q.Blocked, at...)
		ch <- gauge(queueWorkers, q.Connected(now), at...)
	}
}

func collectReviewers(ch chan<- prometheus.Metric, kind string, all []toolcall.ReviewerLoad) {
	for _, r := range all {
		ch <- gauge(reviewerOpen, r.Open, kind, r.Name)
		for response, n := range byKind(r) {
			ch <- counter(responses, n, kind, r.Name, response)
		}
		ch <- counter(tooSoon, r.Within2S, kind, r.Name)
		ch <- prometheus.MustNewConstSummary(tookTime, uint64(max(0, r.Answered)), seconds(r.TotalMS), map[float64]float64{0.5: seconds(r.MedianMS)}, kind, r.Name)
	}
}

// collectRecent exports the reviewers who responded within the window.
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

func histogram(d *prometheus.Desc, t toolcall.ActivityTimes, labels ...string) prometheus.Metric {
	upTo, sum := map[float64]uint64{}, uint64(0)
	for _, b := range t.Buckets {
		sum += uint64(max(0, b.Count))
		if b.UpToMS > 0 {
			upTo[seconds(b.UpToMS)] = sum
		}
	}
	return prometheus.MustNewConstHistogram(d, uint64(max(0, t.Count)), seconds(t.SumMS), upTo, labels...)
}

const prefix = "askance_"

type row struct {
	name, kind, help string
	labels           []string
	desc             *prometheus.Desc
}

// described are the metrics of the collector, in the order of the reference; ofProcess
// are those of the process.
var described, ofProcess []row

func describe(kind, name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prefix+name, help, labels, nil)
	described = append(described, row{prefix + name, kind, help, labels, d})
	return d
}

var who = []string{"kind", "name"}

var queueLabels = []string{"tool", "route", "placement"}

var (
	up    = describe("gauge", "up", "1 if the engine responds, else 0.")
	build = describe("gauge", "build_info", "Always 1; the labels describe the engine.", "version", "engine", "space", "durability")
	// buildOfSpace is build if each metric has the label space.
	buildOfSpace = prometheus.NewDesc(prefix+"build_info", "Always 1; the labels describe the engine.", []string{"version", "engine", "durability"}, nil)

	proposed   = describe("counter", "calls_proposed_total", "Proposed calls.", "tool")
	decisions  = describe("counter", "decisions_total", "Decisions about calls: allow, ask, deny by the policy; refuse of unknown tools and bad input; approve, reject, respond by people; expire.", "tool", "rule", "verdict")
	standing   = describe("counter", "standing_allows_total", "Decisions to allow that standing approvals made.", "tool")
	finished   = describe("counter", "calls_finished_total", "Finished calls that had been allowed, and interrupted ones: success, error, revoked, interrupted.", "tool", "outcome")
	toDecision = describe("histogram", "decision_seconds", "Time from a request for approval to its response or expiry.", "tool")
	queuedFor  = describe("histogram", "queued_seconds", "Time from the offer of an attempt to its start.", "tool")
	ranFor     = describe("histogram", "run_seconds", "Time from the start of an attempt to its result.", "tool")
	attempts   = describe("counter", "attempts_total", "Started attempts.", "tool")
	retries    = describe("counter", "retries_total", "Attempts that were lost, or returned by their worker.", "tool")
	blocked    = describe("counter", "blocked_total", "Calls that became blocked and need an operator.", "tool")

	openCalls    = describe("gauge", "open_calls", "Calls that are not finished.")
	blockedCalls = describe("gauge", "blocked_calls", "Calls that wait for an operator to resolve them.")
	returned     = describe("gauge", "returned_calls", "Open calls that do not run because workers returned their tasks; askance list says which worker and why.")
	openAsked    = describe("gauge", "open_requests", "Open approval requests.")
	unassigned   = describe("gauge", "open_requests_unassigned", "Open approval requests for any approver.")

	queueDepth    = describe("gauge", "queue_depth", "Calls that wait for a worker.", queueLabels...)
	queueOldest   = describe("gauge", "queue_oldest_seconds", "Time since the first of these calls was offered; 0 if none waits.", queueLabels...)
	queueRunning  = describe("gauge", "queue_running", "Running calls.", queueLabels...)
	queueRetrying = describe("gauge", "queue_retrying", "Calls that wait for their next attempt.", queueLabels...)
	queueBlocked  = describe("gauge", "queue_blocked", "Blocked calls.", queueLabels...)
	queueWorkers  = describe("gauge", "queue_workers", "Workers that run a call, or that this engine heard of within 90 seconds.", queueLabels...)
	clockAhead    = describe("gauge", "clock_ahead_seconds", "How far the clock of a worker or of the journal's server is ahead of the engine's, if it differs; negative if it is behind.", "who")

	unsigned       = describe("gauge", "journal_unsigned_records", "Records of the journal that no checkpoint signs yet. NaN while they cannot be counted.")
	unsignedOldest = describe("gauge", "journal_unsigned_oldest_seconds", "Time since the first of these records was stored; 0 if there is none. Engines sign each minute.")
	anchorNew      = describe("gauge", "journal_anchor_new", "1 if the journal had records but no anchor file when this engine started: only checkpoints show an earlier loss.")
	webhookWaiting = describe("gauge", "webhook_waiting_records", "Event records that a destination of webhooks has not received, even if no webhooks file names it any more. NaN while they cannot be counted.", "destination")
	webhookOldest  = describe("gauge", "webhook_oldest_seconds", "Time since the first of these records was stored; 0 if none waits, NaN while it cannot be found.", "destination")

	policyInfo    = describe("gauge", "policy_info", "Always 1; the label is the hash of the policy in force.", "bundle")
	policyRules   = describe("gauge", "policy_rules", "Rules in force.")
	policyLoaded  = describe("gauge", "policy_loaded_timestamp_seconds", "When the policy came into force, in seconds since 1970.")
	policyReloads = describe("counter", "policy_reloads_total", "Policies that this engine has loaded or refused since its start.", "result")
	policyError   = describe("gauge", "policy_error", "1 while the last policy could not be loaded and an older one is in force.")
	shadowCalls   = describe("counter", "shadow_policy_calls_total", "Calls by whether the shadow policy makes the same decision: same or different. Only with a shadow policy.", "result")

	refused         = describe("counter", "reviewer_limit_refusals_total", "Responses that this engine refused because of a limit for reviewers.")
	limit           = describe("gauge", "reviewer_limit", "Limits for one reviewer: responses per_minute and per_hour, and max_open requests.", "limit")
	others          = describe("gauge", "reviewers_not_shown", "Reviewers and groups beyond those that the engine counts.")
	reviewerOpen    = describe("gauge", "reviewer_open_requests", "Open approval requests for this group, or person with --metrics-people.", who...)
	responses       = describe("counter", "reviewer_responses_total", "Responses by kind: approve, reject, respond; pass counts skipped and delegated requests.", "kind", "name", "response")
	tooSoon         = describe("counter", "reviewer_responses_within_2s_total", "Responses within two seconds, too soon to read the request.", who...)
	tookTime        = describe("summary", "reviewer_response_seconds", "Time from request to response, since the start of the journal; the median within 5%.", who...)
	window          = describe("gauge", "reviewer_recent_window_seconds", "How far back the metrics askance_reviewer_recent_* reach.")
	recentResponses = describe("gauge", "reviewer_recent_responses", "Responses within the window, by kind.", "kind", "name", "response")
	recentApprove   = describe("gauge", "reviewer_recent_approve_ratio", "Share of approvals among the responses within the window, from 0 to 1.", who...)
	recentFast      = describe("gauge", "reviewer_recent_within_2s_ratio", "Share of the responses within the window that came within two seconds of the request.", who...)
	recentMedian    = describe("gauge", "reviewer_recent_response_median_seconds", "Median time from request to response within the window, to within 5%.", who...)
)
