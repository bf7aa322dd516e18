package journal_test

import (
	"fmt"
	"testing"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// BenchmarkAppend compares Append with the bare compare-and-swap publish of
// the same bytes under the same headers, one caller, on one server.
func BenchmarkAppend(b *testing.B) {
	for _, durability := range []journal.Durability{journal.DurabilityCached, journal.DurabilityFsynced} {
		srv := bustest.New(b, bustest.With(func(o *embed.Options) { o.Durability = durability }))
		j := srv.Journal("test")
		pub := journal.NewDirect(srv.Conn("raw"))
		rec := bustest.CallRecord("x", bustest.CallKey("c"), message.ToolCallAllowed, "allow")
		body, err := strictjson.Marshal(rec)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(string(durability)+"/raw", func(b *testing.B) {
			b.ReportAllocs()
			prev, n, key := uint64(0), 0, bustest.CallKey(fmt.Sprint("raw", b.N))
			for b.Loop() {
				n++
				w := write(b, key, "", prev, fmt.Sprintf("raw-%d-%d", b.N, n))
				w.Msg.Header.Set(journal.HeaderKind, "allow")
				w.Msg.Header.Set(journal.HeaderMAC, "0123456789abcdef AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
				w.Msg.Data = body
				ack, err := pub.Publish(b.Context(), w)
				if err != nil {
					b.Fatal(err)
				}
				prev = ack.Seq
			}
		})
		b.Run(string(durability)+"/append", func(b *testing.B) {
			b.ReportAllocs()
			prev, n, key := uint64(0), 0, bustest.CallKey(fmt.Sprint("app", b.N))
			for b.Loop() {
				n++
				rec := bustest.CallRecord(fmt.Sprintf("app-%d-%d", b.N, n), key, message.ToolCallAllowed, "allow")
				seq, err := j.Append(b.Context(), rec, prev)
				if err != nil {
					b.Fatal(err)
				}
				prev = seq
			}
		})
		b.Run(string(durability)+"/last", func(b *testing.B) {
			b.ReportAllocs()
			key := bustest.CallKey("last")
			bustest.MustAppend(b, j, bustest.CallRecord("last"+string(durability), key, message.ToolCallAllowed, "allow"), 0)
			for b.Loop() {
				if _, err := j.Last(b.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(string(durability)+"/read-nothing-new", func(b *testing.B) {
			session := bustest.CallKey("").SessionKey()
			_, end, err := j.Read(b.Context(), session, 1<<60, 1)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, _, err := j.Read(b.Context(), session, end, 100); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
