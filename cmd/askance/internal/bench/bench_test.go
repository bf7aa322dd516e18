package bench

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/journal"

	"github.com/google/pprof/profile"
)

func TestPercentile(t *testing.T) {
	var l latencies
	if got := l.percentile(50); got != 0 {
		t.Errorf("percentile of no samples: %v", got)
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
	if !reflect.DeepEqual(none, Outcome{}) {
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
		{"open is -1", func(c *Config) { c.Open = -1 }},
		{"duration is 0s", func(c *Config) { c.Duration = 0 }},
		{"record bytes is 0", func(c *Config) { c.RecordBytes = 0 }},
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

// TestRecordsAreCounted runs each workload and counts the records in the stream.
func TestRecordsAreCounted(t *testing.T) {
	phases := map[string]bool{}
	r, err := Run(t.Context(), Config{
		Dir: t.TempDir(), Durability: journal.DurabilityCached, Concurrency: 3, Calls: 12, Duration: time.Second, RecordBytes: 64,
		Workloads: []string{"local", "full"}, Open: 500, Progress: func(phase string, done float64) { phases[phase] = done <= 1 || strings.HasPrefix(phase, "bare") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Workloads) != 2 || r.Workloads[0].Records != 24 || r.Workloads[1].Records != 48 {
		t.Errorf("workloads = %+v, want 2 and 4 records for each of 12 calls", r.Workloads)
	}
	for _, w := range r.Workloads {
		c := w.PerCall
		if c.CPU <= 0 || c.SystemCPU > c.CPU || w.CPUOverRaw <= 0 || c.Allocations < 10 || c.AllocatedBytes < 10*c.Allocations {
			t.Errorf("workload %s uses %+v of the process", w.Name, c)
		}
		if c.JournalBytes < 100*w.RecordsPerCall || c.StoredBytes <= c.JournalBytes || c.MessagesIn < w.RecordsPerCall || c.MessagesOut < w.RecordsPerCall {
			t.Errorf("workload %s uses %+v of the server, for %v records", w.Name, c, w.RecordsPerCall)
		}
		if w.Stages != nil {
			t.Errorf("workload %s has stages without a profile", w.Name)
		}
	}
	if o := r.Open; o == nil || o.Requests != 500 || o.HeapBytes < 200 || o.HeapBytes > 100_000 {
		t.Errorf("open requests = %+v", o)
	}
	for phase, ok := range phases {
		if !ok {
			t.Errorf("the progress of %s exceeded 1", phase)
		}
	}
	if _, err := Run(t.Context(), Config{}); err == nil {
		t.Error("an empty configuration was measured")
	}
}

// TestQuorum measures on three servers.
func TestQuorum(t *testing.T) {
	r, err := Run(t.Context(), Config{Dir: t.TempDir(), Durability: journal.DurabilityQuorum, Concurrency: 3, Calls: 6, Duration: 100 * time.Millisecond, RecordBytes: 64, Workloads: []string{"full"}})
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Workloads[0]; r.Durability != string(journal.DurabilityQuorum) || w.Records != 24 || w.PerCall.MessagesIn < 3*w.RecordsPerCall {
		t.Errorf("durability %s, workload %+v: want 4 records of each call, each at three servers", r.Durability, w)
	}
}

func TestCosts(t *testing.T) {
	before := reading{user: time.Second, system: time.Second, objects: 100, bytes: 1000, journal: 500, stored: 700, messagesIn: 5, messagesOut: 9}
	after := reading{user: 3 * time.Second, system: 2 * time.Second, objects: 140, bytes: 1800, journal: 900, stored: 600, messagesIn: 15, messagesOut: 39}
	want := Cost{CPU: 750_000, SystemCPU: 250_000, Allocations: 10, AllocatedBytes: 200, JournalBytes: 100, StoredBytes: -25, MessagesIn: 2.5, MessagesOut: 7.5}
	if got := after.costSince(before, 4); got != want {
		t.Errorf("cost of a call = %+v, want %+v", got, want)
	}
	if least(0, 7) != 7 || least(5, 7) != 5 || least(7, 5) != 5 {
		t.Error("least does not return the smaller known figure")
	}
}

func TestCompareReports(t *testing.T) {
	report := func(durability string, cpu, stage float64, names ...string) *Report {
		r := &Report{Durability: durability, Concurrency: 32, Raw: Raw{Pipelined: 1000}}
		for _, n := range names {
			r.Workloads = append(r.Workloads, Outcome{Name: n, PerCall: Cost{CPU: cpu}, Stages: []StageCost{{Name: "sign", CPU: stage}}})
		}
		return r
	}
	c := report("fsynced", 700, 30, "local", "full").Compare(report("cached", 1400, 60, "full"))
	if want := []string{"durability was cached and is fsynced", "the earlier report has no workload local"}; !slices.Equal(c.Notes, want) {
		t.Errorf("notes = %q, want %q", c.Notes, want)
	}
	for _, want := range []Change{
		{"bare", "pipelined/s", 1000, 1000, 1},
		{"full", "processor time, µs", 1400, 700, 0.5},
		{"full", "allocations", 0, 0, 0},
		{"full", "stage sign, µs", 60, 30, 0.5},
	} {
		if !slices.Contains(c.Figures, want) {
			t.Errorf("figures lack %+v: %+v", want, c.Figures)
		}
	}
}

func TestStageOfStack(t *testing.T) {
	for want, stack := range map[string][]string{
		"encode":   {"runtime.mallocgc", "github.com/go-json-experiment/json.Marshal", "bus/journal.(*Journal).Append", "engine.(*Port).Call"},
		"publish":  {"runtime.growslice", "bus/journal.(*Journal).Append", "engine.(*Port).Call"},
		"server":   {"encoding/json.Marshal", "github.com/nats-io/nats-server/v2/server.(*stream).processJetStreamMsg"},
		"collect":  {"runtime.scanobject", "runtime.gcAssistAlloc", "github.com/nats-io/nats-server/v2/server.(*client).parse"},
		"hand out": {"engine.(*workers).startAttempt", "engine.(*Port).Call"},
		"result":   {"engine.(*workers).storeResultOf", "engine.(*Port).Call"},
		"other":    {"runtime.memmove"},
	} {
		if got := stageOf(stack); got != want {
			t.Errorf("stage of %q = %s, want %s", stack, got, want)
		}
	}
}

// maxOther is the largest share of the samples that may belong to no stage.
const maxOther = 0.05

// enough is the number of runs after which the share of the samples in no stage is judged. One
// run on a busy machine has too few samples for that.
const enough = 4

// TestEveryStageHasSamples finds stages whose functions were renamed. It measures until every
// stage has a sample, because a profile only samples.
func TestEveryStageHasSamples(t *testing.T) {
	missing := map[string]bool{}
	for _, s := range stages {
		missing[s.name] = true
	}
	dir, calls, other := t.TempDir(), 0, 0.0
	share := func() float64 { return other / float64(calls) }
	for run := 0; len(missing) > 0 || run < enough && share() > maxOther; run++ {
		if run == 20 {
			t.Fatalf("no sample belongs to the stages %v", slices.Sorted(maps.Keys(missing)))
		}
		w := profiledRun(t, filepath.Join(dir, strconv.Itoa(run)))
		calls += w.Calls
		for _, s := range w.Stages {
			switch {
			case s.Name == otherStage:
				other += s.Share * float64(w.Calls)
			case s.Share > 0:
				delete(missing, s.Name)
			}
		}
	}
	if share() > maxOther {
		t.Errorf("%.1f%% of the samples belong to no stage, at most %v%%", 100*share(), 100*maxOther)
	}
}

// profiledRun measures the full workload. The shares of its stages must add up to 1.
func profiledRun(t *testing.T, dir string) Outcome {
	t.Helper()
	r, err := Run(t.Context(), Config{
		Dir: dir, Durability: journal.DurabilityCached, Concurrency: 16, Duration: 2 * time.Second, RecordBytes: 64,
		Workloads: []string{"full"}, Profile: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	w, shares, cpu := r.Workloads[0], 0.0, 0.0
	for _, s := range w.Stages {
		shares, cpu = shares+s.Share, cpu+s.CPU
	}
	if math.Abs(shares-1) > 1e-9 || math.Abs(cpu-w.PerCall.CPU) > 1e-6*cpu {
		t.Errorf("the stages add up to %v of the samples and %v of %v µs", shares, cpu, w.PerCall.CPU)
	}
	if info, err := os.Stat(profileFile(dir, "full")); err != nil || info.Size() == 0 {
		t.Errorf("the profile was not kept: %v", err)
	}
	return w
}

func TestProfileWithoutSamples(t *testing.T) {
	if _, err := attribute(&profile.Profile{}); err == nil || !strings.Contains(err.Error(), "no samples") {
		t.Errorf("an empty profile was attributed: %v", err)
	}
}
