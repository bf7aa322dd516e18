package telemetry

import (
	"context"
	"log/slog"
	"net/http"
)

// Send makes one attempt to send no spans to a URL.
func Send(ctx context.Context, url string) error {
	_, err := (&exporter{url: url, headers: http.Header{}, client: http.DefaultClient}).send(ctx, nil)
	return err
}

// LogFailure returns what logs an error of the exporter.
func LogFailure(log *slog.Logger) func(error) { return (&failures{log: log}).Handle }
