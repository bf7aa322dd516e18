package schedule_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
)

func TestDouble(t *testing.T) {
	for _, tt := range []struct {
		d     time.Duration
		times int
		want  time.Duration
	}{
		{time.Second, -1, time.Second}, {time.Second, 0, time.Second}, {time.Second, 3, 8 * time.Second},
		{time.Second, 4, 10 * time.Second}, {time.Second, 1 << 30, 10 * time.Second}, {time.Minute, 0, 10 * time.Second},
	} {
		if got := schedule.Double(tt.d, tt.times, 10*time.Second); got != tt.want {
			t.Errorf("Double(%s, %d) = %s, want %s", tt.d, tt.times, got, tt.want)
		}
	}
}

func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := schedule.Pauses{Next: time.Second, Most: 3 * time.Second}
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			began := time.Now()
			if !p.Wait(t.Context()) || time.Since(began) != want {
				t.Errorf("a pause of %s, want %s", time.Since(began), want)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if began := time.Now(); p.Wait(ended) || time.Since(began) != 0 {
			t.Error("a pause does not end with its context")
		}
	})
}
