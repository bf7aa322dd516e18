package metrics_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

type engine struct{ err error }

func (e engine) Info(context.Context) (toolcall.InfoReply, error) {
	return toolcall.InfoReply{Version: "v1", Engine: "eng_1", Space: "default", Durability: "fsynced", Open: 7, Blocked: 1, PolicyErr: "bad", Clocks: []toolcall.ClockReading{{Who: "worker wk-1", AheadMS: -240_500}}}, e.err
}

func (e engine) Load(_ context.Context, r toolcall.LoadRequest) (toolcall.LoadReply, error) {
	if r.Window() {
		if ago := time.Since(r.Since); ago < 30*time.Minute || ago > 31*time.Minute || !r.Until.IsZero() {
			return toolcall.LoadReply{}, message.ErrInvalid
		}
		return toolcall.LoadReply{
			People: []toolcall.ReviewerLoad{{Name: "ann", Answered: 2, Approved: 1, Rejected: 1, Within2S: 1, MedianMS: 2500}, {Name: "bob", Open: 3}, {Name: "eve", Passed: 1}},
		}, e.err
	}
	return toolcall.LoadReply{
		Open: 5, Unassigned: 2, Refused: 3, Limits: toolcall.ReviewerLimits{PerHour: 60},
		People: []toolcall.ReviewerLoad{{Name: "ann \"x\"\n", Open: 3, Answered: 4, Approved: 3, Rejected: 1, Within2S: 2, MedianMS: 1500, TotalMS: 9000}},
		Groups: []toolcall.ReviewerLoad{{Name: "ops", Open: 1}},
	}, e.err
}

func scrape(t *testing.T, e engine) []string {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.Handler(e, 30*time.Minute).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "askance_") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	want := `askance_blocked_calls 1
askance_build_info{durability="fsynced",engine="eng_1",space="default",version="v1"} 1
askance_clock_ahead_seconds{who="worker wk-1"} -240.5
askance_open_calls 7
askance_open_requests 5
askance_open_requests_unassigned 2
askance_policy_error 1
askance_returned_calls 0
askance_reviewer_limit{limit="per_hour"} 60
askance_reviewer_limit_refusals_total 3
askance_reviewer_open_requests{kind="group",name="ops"} 1
askance_reviewer_open_requests{kind="person",name="ann \"x\"\n"} 3
askance_reviewer_recent_approve_ratio{kind="person",name="ann"} 0.5
askance_reviewer_recent_response_median_seconds{kind="person",name="ann"} 2.5
askance_reviewer_recent_responses{kind="person",name="ann",response="approve"} 1
askance_reviewer_recent_responses{kind="person",name="ann",response="pass"} 0
askance_reviewer_recent_responses{kind="person",name="ann",response="reject"} 1
askance_reviewer_recent_responses{kind="person",name="ann",response="respond"} 0
askance_reviewer_recent_responses{kind="person",name="eve",response="approve"} 0
askance_reviewer_recent_responses{kind="person",name="eve",response="pass"} 1
askance_reviewer_recent_responses{kind="person",name="eve",response="reject"} 0
askance_reviewer_recent_responses{kind="person",name="eve",response="respond"} 0
askance_reviewer_recent_window_seconds 1800
askance_reviewer_recent_within_2s_ratio{kind="person",name="ann"} 0.5
askance_reviewer_response_seconds{kind="group",name="ops",quantile="0.5"} 0
askance_reviewer_response_seconds_sum{kind="group",name="ops"} 0
askance_reviewer_response_seconds_count{kind="group",name="ops"} 0
askance_reviewer_response_seconds{kind="person",name="ann \"x\"\n",quantile="0.5"} 1.5
askance_reviewer_response_seconds_sum{kind="person",name="ann \"x\"\n"} 9
askance_reviewer_response_seconds_count{kind="person",name="ann \"x\"\n"} 4
askance_reviewer_responses_total{kind="group",name="ops",response="approve"} 0
askance_reviewer_responses_total{kind="group",name="ops",response="pass"} 0
askance_reviewer_responses_total{kind="group",name="ops",response="reject"} 0
askance_reviewer_responses_total{kind="group",name="ops",response="respond"} 0
askance_reviewer_responses_total{kind="person",name="ann \"x\"\n",response="approve"} 3
askance_reviewer_responses_total{kind="person",name="ann \"x\"\n",response="pass"} 0
askance_reviewer_responses_total{kind="person",name="ann \"x\"\n",response="reject"} 1
askance_reviewer_responses_total{kind="person",name="ann \"x\"\n",response="respond"} 0
askance_reviewer_responses_within_2s_total{kind="group",name="ops"} 0
askance_reviewer_responses_within_2s_total{kind="person",name="ann \"x\"\n"} 2
askance_reviewers_not_shown 0
askance_up 1`
	if got := strings.Join(scrape(t, engine{}), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMetricsOfASilentEngine(t *testing.T) {
	if got := scrape(t, engine{message.ErrUnavailable}); len(got) != 1 || got[0] != "askance_up 0" {
		t.Errorf("got %q", got)
	}
}

func TestServe(t *testing.T) {
	l, err := metrics.Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	s := metrics.Serve(l, engine{}, time.Hour, metrics.Gauge{Name: "own", Help: "Of the process.", Value: func() float64 { return 7 }})
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") {
		t.Errorf("an address without a host is not that of loopback: %s", s.URL())
	}
	resp, err := http.Get(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(body), "go_goroutines") || !strings.Contains(string(body), "askance_own 7") {
		t.Errorf("%v\n%s", err, body)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := metrics.Listen(t.Context(), "nowhere"); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("no address: %v", err)
	}
}
