package bus_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats-server/v2/server"
)

// BenchmarkPublishers compares batches with single writes on a server that syncs
// each request, on the disk of TMPDIR. make bench-slowdisk gives it one whose sync
// takes 1 ms.
func BenchmarkPublishers(b *testing.B) {
	srv := bustest.New(b, bustest.With(func(o *embed.Options) { o.Durability = bus.DurabilityFsynced }))
	conn := srv.Conn("engine")
	always := func() bool { return true }
	for _, callers := range []int{1, 8, 16, 32, 64, 128, 256} {
		for _, p := range []struct {
			name string
			pub  bus.Publisher
		}{{"single", bus.NewDirect(conn)}, {"batched", bus.NewBatched(conn, always)}} {
			j := srv.JournalWith("test", bus.JournalOptions{Durability: srv.Durability(), Publisher: p.pub})
			b.Run(fmt.Sprintf("%s/%d", p.name, callers), func(b *testing.B) {
				appendFrom(b, j, callers)
			})
		}
	}
}

// BenchmarkQuorum compares one append at a time on three servers, each of which syncs before
// it acknowledges, with many at once in single writes and in batches.
func BenchmarkQuorum(b *testing.B) {
	c := bustest.NewCluster(b, 3, func(o *server.Options) { o.SyncAlways = true })
	conn, keys := c.Conn("engine"), newClusterKeys(b)
	for _, tc := range []struct {
		name    string
		pub     bus.Publisher
		callers int
	}{
		{"single", bus.NewDirect(conn), 1},
		{"single", bus.NewDirect(conn), 256},
		{"batched", bus.NewBatched(conn, func() bool { return true }), 256},
	} {
		j, err := bus.OpenJournal(b.Context(), conn, "test", keys, bus.JournalOptions{Durability: bus.DurabilityQuorum, Publisher: tc.pub})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%s/%d", tc.name, tc.callers), func(b *testing.B) { appendFrom(b, j, tc.callers) })
	}
}

// appendFrom divides b.N appends among callers, and reports their rate and latencies.
func appendFrom(b *testing.B, j *bus.Journal, callers int) {
	b.Helper()
	var wg sync.WaitGroup
	took := make([][]time.Duration, callers)
	run := time.Now().UnixNano()
	for c := range callers {
		wg.Go(func() {
			prev, key := uint64(0), callKey(fmt.Sprintf("c%d-%d", c, run))
			for n := c; n < b.N; n += callers {
				began := time.Now()
				seq, err := j.Append(b.Context(), callRecord(fmt.Sprintf("r%d-%d-%d", c, n, run), key, message.ToolCallAllowed, "allow"), prev)
				if err != nil {
					b.Error(err)
					return
				}
				took[c], prev = append(took[c], time.Since(began)), seq
			}
		})
	}
	wg.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}
