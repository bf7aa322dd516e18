package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
)

func TestPercentile(t *testing.T) {
	var l latencies
	if got := l.percentile(50); got != 0 {
		t.Errorf("of none: %v", got)
	}
	for i := 100; i > 0; i-- {
		l.add(time.Duration(i) * time.Microsecond)
	}
	for _, tc := range []struct {
		p    int
		want float64
	}{{1, 1}, {50, 50}, {99, 99}, {100, 100}} {
		if got := l.percentile(tc.p); got != tc.want {
			t.Errorf("p%d = %v µs, want %v", tc.p, got, tc.want)
		}
	}
}

func TestCompare(t *testing.T) {
	o := Outcome{CallsPerSecond: 5000, RecordsPerCall: 4, P50: 800}
	o.compare(Raw{Pipelined: 80_000, Sequential: 10_000, P50: 100})
	if o.ShareOfPipelined != 0.25 || o.TimesSequential != 2 || o.P50OverRaw != 2 {
		t.Errorf("ratios = %+v", o)
	}
	var none Outcome
	none.compare(Raw{})
	if none != (Outcome{}) {
		t.Errorf("ratios of nothing = %+v", none)
	}
}

func TestCheck(t *testing.T) {
	good := Config{Dir: "x", Concurrency: 1, Duration: time.Second, RecordBytes: 1}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		want   string
		change func(*Config)
	}{
		{"concurrency is 0", func(c *Config) { c.Concurrency = 0 }},
		{"calls is -1", func(c *Config) { c.Calls = -1 }},
		{"duration is 0s", func(c *Config) { c.Duration = 0 }},
		{"bare record has 0 bytes", func(c *Config) { c.RecordBytes = 0 }},
		{"no folder", func(c *Config) { c.Dir = "" }},
		{`no workload "x"`, func(c *Config) { c.Workloads = []string{"x"} }},
	} {
		c := good
		tc.change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Check = %v, want %q", err, tc.want)
		}
	}
}

// TestRecordsAreCounted runs each workload and counts what is in the stream.
func TestRecordsAreCounted(t *testing.T) {
	phases := map[string]bool{}
	r, err := Run(t.Context(), Config{
		Dir: t.TempDir(), Durability: bus.DurabilityCached, Concurrency: 3, Calls: 12, Duration: time.Second, RecordBytes: 64,
		Workloads: []string{"local", "full"}, Progress: func(phase string, done float64) { phases[phase] = done <= 1 || strings.HasPrefix(phase, "bare") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Workloads) != 2 || r.Workloads[0].Records != 24 || r.Workloads[1].Records != 48 {
		t.Errorf("workloads = %+v, want 2 and 4 records for each of 12 calls", r.Workloads)
	}
	for phase, ok := range phases {
		if !ok {
			t.Errorf("the progress of %s went over 1", phase)
		}
	}
	if _, err := Run(t.Context(), Config{}); err == nil {
		t.Error("an empty configuration was measured")
	}
}
