package journal_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats-server/v2/server"
)

// BenchmarkPublishers compares batches with single writes on a server that syncs
// each request, on the disk of TMPDIR. make bench-slowdisk gives it one whose sync
// takes 1 ms.
func BenchmarkPublishers(b *testing.B) {
	srv := bustest.New(b, bustest.With(func(o *embed.Options) { o.Durability = journal.DurabilityFsynced }))
	conn := srv.Conn("engine")
	always := func() bool { return true }
	for _, callers := range []int{1, 8, 16, 32, 64, 128, 256} {
		for _, p := range []struct {
			name string
			pub  journal.Publisher
		}{{"single", journal.NewDirect(conn)}, {"batched", journal.NewBatched(conn, always)}} {
			j := srv.JournalWith("test", journal.Options{Durability: srv.Durability(), Publisher: p.pub})
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
		pub     journal.Publisher
		callers int
	}{
		{"single", journal.NewDirect(conn), 1},
		{"single", journal.NewDirect(conn), 256},
		{"batched", journal.NewBatched(conn, func() bool { return true }), 256},
	} {
		j, err := journal.Open(b.Context(), conn, "test", keys, journal.Options{Durability: journal.DurabilityQuorum, Publisher: tc.pub})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%s/%d", tc.name, tc.callers), func(b *testing.B) { appendFrom(b, j, tc.callers) })
	}
}

// appendFrom divides b.N appends among callers, and reports their rate and latencies.
func appendFrom(b *testing.B, j *journal.Journal, callers int) {
	b.Helper()
	var wg sync.WaitGroup
	took := make([][]time.Duration, callers)
	run := time.Now().UnixNano()
	for c := range callers {
		wg.Go(func() {
			prev, key := uint64(0), bustest.CallKey(fmt.Sprintf("c%d-%d", c, run))
			for n := c; n < b.N; n += callers {
				began := time.Now()
				seq, err := j.Append(b.Context(), bustest.CallRecord(fmt.Sprintf("r%d-%d-%d", c, n, run), key, message.ToolCallAllowed, "allow"), prev)
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
