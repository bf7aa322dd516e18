package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/telemetry"
	"github.com/askance-dev/askance/executor"
)

// sendSpan sends one span to an endpoint and returns what was logged.
func sendSpan(t *testing.T, endpoint string) string {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=secret-header")
	var log strings.Builder
	tracer, err := telemetry.Open("v1", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	run := tracer.Handler(func(context.Context, executor.Task) (executor.Output, error) { return executor.Output{}, nil })
	task := executor.Task{Tool: "pay", Attempt: 1, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	if _, err := run(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	return log.String()
}

// A receiver that redirects gets no spans and no keys sent to another server.
func TestRedirectOfSpans(t *testing.T) {
	var stolen atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Store(true) }))
	defer elsewhere.Close()
	receiver := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer receiver.Close()
	log := sendSpan(t, receiver.URL+"/?key=secret-query")
	if stolen.Load() {
		t.Error("spans and headers were sent to a server that no variable names")
	}
	if !strings.Contains(log, "307") || strings.Contains(log, "secret") {
		t.Errorf("the log is %q", log)
	}
}

// The error about a receiver that cannot be reached has no key of its URL.
func TestUnreachableReceiver(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if err := telemetry.Send(t.Context(), gone.URL+"/?key=secret-query"); err == nil || !strings.Contains(err.Error(), "could not be reached") || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
}

// A receiver that is down is logged at once, and then once a minute with a count.
func TestRepeatedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		failed := telemetry.LogFailure(slog.New(slog.NewTextHandler(&log, nil)))
		for range 25 { // the last after 120s
			failed(errors.New("down"))
			time.Sleep(5 * time.Second)
		}
		if got := strings.Count(log.String(), "traces are not sent"); got != 3 || strings.Count(log.String(), "times=1 ") != 1 || strings.Count(log.String(), "times=12 ") != 2 {
			t.Errorf("%d lines in two minutes, want 3:\n%s", got, &log)
		}
	})
}
