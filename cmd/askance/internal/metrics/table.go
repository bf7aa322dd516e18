package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

const prefix = "askance_"

// row is a metric of the reference.
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

// The metrics of an engine.
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
