package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// never is the minute of an alert that does not fire.
const never = -1

// Each alert fires for what it names, at this minute, and not for what is harmless.
func TestAlertsFire(t *testing.T) {
	groups, errs := rulefmt.Parse(read(t, "../../prometheus/alerts.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	rules := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules[r.Alert] = r
		}
	}
	fires := map[string]bool{}
	for _, c := range []struct {
		name, alert string
		series      string // one value a minute
		at          int
	}{
		{"no target answers", "AskanceDown", `up{job="askance", instance="a"} 1x3 0x10`, 6},
		{"an engine is stuck", "AskanceDown", `askance_up{instance="a"} 1x3 0x10
			up{job="askance", instance="a"} 1x20`, 6},
		{"a restart", "AskanceDown", `up{job="askance", instance="a"} 1x3 0x1 1x10`, never},
		{"another job", "AskanceDown", `up{job="node"} 0x20`, never},
		{"one of two engines", "AskanceNATSDisconnected", `askance_nats_connected{instance="a"} 1x20
			askance_nats_connected{instance="b"} 1x3 0x10`, 5},
		{"connected", "AskanceNATSDisconnected", `askance_nats_connected 1x20`, never},
		{"refused", "AskancePolicyRefused", `askance_policy_error{instance="a"} 0x20
			askance_policy_error{instance="b"} 0x3 1x10`, 9},
		{"refused", "AskanceDirectoryRefused", `askance_directory_error{instance="a"} 0x20
			askance_directory_error{instance="b"} 0x3 1x10`, 9},
		{"half a change", "AskanceDirectoryRefused", `askance_directory_error 0x3 1x2 0x20`, never},
		{"unreadable", "AskanceTokensUnreadable", `askance_http_token_error 0x3 1x10`, 4},
		{"readable", "AskanceTokensUnreadable", `askance_http_token_error 0x20`, never},
		{"two policies", "AskancePoliciesDiffer", `askance_policy_info{instance="a", bundle="1"} 1x20
			askance_policy_info{instance="b", bundle="1"} 1x3 stale
			askance_policy_info{instance="b", bundle="2"} _x4 1x20`, 14},
		{"a policy of each space", "AskancePoliciesDiffer", `askance_policy_info{space="x", bundle="1"} 1x20
			askance_policy_info{space="y", bundle="2"} 1x20`, never},
		{"a new policy", "AskancePoliciesDiffer", `askance_policy_info{instance="a", bundle="1"} 1x3 stale
			askance_policy_info{instance="a", bundle="2"} _x4 1x20`, never},
		{"blocked", "AskanceCallsBlocked", `askance_blocked_calls{instance="a"} 0x3 1x20`, 14},
		{"resolved", "AskanceCallsBlocked", `askance_blocked_calls{instance="a"} 0x3 1x8 0x20`, never},
		{"no worker", "AskanceQueueWithoutWorkers", `askance_queue_depth{tool="pay", route="", placement="remote"} 0x3 2x20
			askance_queue_workers{tool="pay", route="", placement="remote"} 0x30`, 9},
		{"a worker at one engine", "AskanceQueueWithoutWorkers", `askance_queue_depth{instance="a", tool="pay", route="", placement="remote"} 2x30
			askance_queue_workers{instance="a", tool="pay", route="", placement="remote"} 0x30
			askance_queue_workers{instance="b", tool="pay", route="", placement="remote"} 1x30`, never},
		{"a slow queue", "AskanceQueueOld", `askance_queue_oldest_seconds{tool="pay"} 0+60x30`, 11},
		{"a request expires", "AskanceRequestsExpire", `askance_decisions_total{tool="pay", rule="r", verdict="expire"} 0x3 1x20`, 4},
		{"none expires", "AskanceRequestsExpire", `askance_decisions_total{tool="pay", rule="r", verdict="expire"} 7x20
			askance_decisions_total{tool="pay", rule="r", verdict="approve"} 0+1x20`, never},
		{"one in five waits an hour", "AskanceDecisionsSlow", decisionSeconds("a", 8, 2) + decisionSeconds("b", 8, 2), 31},
		{"one in twenty waits an hour", "AskanceDecisionsSlow", decisionSeconds("a", 19, 1), never},
		{"no request", "AskanceDecisionsSlow", decisionSeconds("a", 0, 0), never},
		{"one in three", "AskanceErrors", `askance_calls_finished_total{tool="pay", outcome="error"} 0+1x60
			askance_calls_finished_total{tool="pay", outcome="success"} 0+2x60`, 16},
		{"one in ten", "AskanceErrors", `askance_calls_finished_total{tool="pay", outcome="error"} 0+1x60
			askance_calls_finished_total{tool="pay", outcome="success"} 0+9x60`, never},
		{"one in ten writes", "AskanceJournalSlow", `askance_journal_write_seconds_bucket{le="1"} 0+90x60
			askance_journal_write_seconds_bucket{le="2.5"} 0+100x60
			askance_journal_write_seconds_bucket{le="+Inf"} 0+100x60`, 11},
		{"fast writes", "AskanceJournalSlow", `askance_journal_write_seconds_bucket{le="1"} 0+100x60
			askance_journal_write_seconds_bucket{le="2.5"} 0+100x60
			askance_journal_write_seconds_bucket{le="+Inf"} 0+100x60`, never},
		{"behind", "AskanceClockOff", `askance_clock_ahead_seconds{who="worker w"} -1x3 -31x20`, 14},
		{"ahead for one engine", "AskanceClockOff", `askance_clock_ahead_seconds{instance="a", who="worker w"} 31x20`, 10},
		{"a second", "AskanceClockOff", `askance_clock_ahead_seconds{who="worker w"} -1x20`, never},
		{"a dead letter", "AskanceDeadLetters", `askance_dead_letters 0x3 1x20`, 14},
		{"delivered", "AskanceDeadLetters", `askance_dead_letters 1x8 0x20`, never},
		{"not signed", "AskanceJournalUnsigned", `askance_journal_unsigned_oldest_seconds{instance="a"} 0+60x30
			askance_journal_unsigned_oldest_seconds{instance="b"} NaN NaN NaN`, 11},
		{"signed each minute", "AskanceJournalUnsigned", `askance_journal_unsigned_oldest_seconds 60x30`, never},
		{"a new anchor", "AskanceAnchorMissing", `askance_journal_anchor_new 0x3 1x20`, 4},
		{"the same anchor", "AskanceAnchorMissing", `askance_journal_anchor_new 0x20`, never},
		{"a receiver that is down", "AskanceWebhooksWait", `askance_webhook_oldest_seconds{destination="bot"} 0+60x90`, 71},
		{"a receiver that is slow", "AskanceWebhooksWait", `askance_webhook_oldest_seconds{destination="bot"} 300x90`, never},
		{"one in ten requests", "AskanceHTTPErrors", `askance_http_requests_total{route="/x", status="200"} 0+9x30
			askance_http_requests_total{route="/y", status="503"} 0+1x30`, 11},
		{"refused requests", "AskanceHTTPErrors", `askance_http_requests_total{route="/x", status="200"} 0+9x30
			askance_http_requests_total{route="/y", status="401"} 0+9x30`, never},
		{"no requests", "AskanceHTTPErrors", `askance_http_requests_total{route="/x", status="500"} 5x30`, never},
	} {
		t.Run(c.alert+"/"+c.name, func(t *testing.T) {
			rule, is := rules[c.alert]
			if !is {
				t.Fatal("there is no such alert")
			}
			fires[c.alert] = fires[c.alert] || c.at != never
			if got := firstMinute(t, rule, c.series); got != c.at {
				t.Errorf("it fires at minute %d, want %d", got, c.at)
			}
		})
	}
	for name := range rules {
		if !fires[name] {
			t.Errorf("no case lets %s fire", name)
		}
	}
}

// decisionSeconds are the buckets of an engine at which so many requests each minute take a minute,
// or an hour.
func decisionSeconds(instance string, minute, hour int) string {
	text := "\n"
	for _, b := range []struct {
		le string
		n  int
	}{{"60", minute}, {"1800", minute}, {"3600", minute + hour}, {"+Inf", minute + hour}} {
		text += `askance_decision_seconds_bucket{instance="` + instance + `", tool="pay", le="` + b.le + `"} 0+` + model.SampleValue(b.n).String() + "x90\n"
	}
	return text
}

// firstMinute returns the minute at which a rule begins to fire.
func firstMinute(t *testing.T, rule rulefmt.Rule, series string) int {
	t.Helper()
	store := loadSeries(t, series)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer func() { _ = engine.Close() }() // it has no files
	since := never
	for minute := range 120 {
		at := time.Unix(0, 0).Add(time.Duration(minute) * time.Minute)
		q, err := engine.NewInstantQuery(t.Context(), store, promql.NewPrometheusQueryOpts(false, 0, nil), rule.Expr, at)
		if err != nil {
			t.Fatal(err)
		}
		found, err := q.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		q.Close()
		switch {
		case len(found) == 0:
			since = never
		case since == never:
			since = minute
		}
		if since != never && time.Duration(minute-since)*time.Minute >= time.Duration(rule.For) {
			return minute
		}
	}
	return never
}

// loadSeries reads series in the notation of Prometheus' own tests, with one value a minute.
func loadSeries(t *testing.T, text string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		metric, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{t: int64(i) * time.Minute.Milliseconds(), f: v.Value})
			}
		}
		all = append(all, storage.NewListSeries(metric, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{SeriesSet: storage.EmptySeriesSet()}
		for _, s := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
				set.left = append(set.left, s)
			}
		}
		return set
	}}}
}

// sample is a number at a time.
type sample struct {
	chunks.Sample // no histogram
	t             int64
	f             float64
}

func (s sample) T() int64                 { return s.t }
func (s sample) ST() int64                { return 0 }
func (s sample) F() float64               { return s.f }
func (s sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// seriesSet yields the series of a list.
type seriesSet struct {
	storage.SeriesSet // its errors: none
	at                storage.Series
	left              []storage.Series
}

func (s *seriesSet) At() storage.Series { return s.at }

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}
