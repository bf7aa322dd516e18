package bus_test

import (
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/toolcall"
)

// A queue is listening if a worker waits for its tasks.
func TestCountListening(t *testing.T) {
	t.Parallel()
	j := bustest.New(t).Journal("prod")
	idle, busy := toolcall.Queue{Tool: "idle"}, toolcall.Queue{Tool: "busy", Route: "gpu"}
	for _, q := range []toolcall.Queue{idle, busy} {
		if err := j.EnsureQueue(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := j.TakeTasks(t.Context(), busy, 1, 10*time.Second)
		done <- err
	}()
	for look := time.NewTicker(100 * time.Millisecond); ; <-look.C {
		n, err := j.CountListening(t.Context(), []toolcall.Queue{idle, busy})
		if err != nil || n[idle] != 0 {
			t.Fatalf("%v, %v", n, err)
		}
		if n[busy] == 1 {
			return
		}
		select {
		case err := <-done:
			t.Fatalf("the worker was never counted: %v", err)
		default:
		}
	}
}
