package cli

import (
	"fmt"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/bench"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
)

func benchText(out *term.Out, r *bench.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", out.Bold(fmt.Sprintf("Durability %s, %d callers, %d CPUs, %s", r.Durability, r.Concurrency, r.CPUs, r.Go)))
	fmt.Fprintf(&b, "  %-22s %10s/s   %s of processor time\n", fmt.Sprintf("bare, pipelined, %d B", r.Raw.RecordBytes), number(r.Raw.Pipelined), micros(r.Raw.PipelinedCPU))
	fmt.Fprintf(&b, "  %-22s %10s/s   %s of processor time  p50 %s  p99 %s\n", "bare, one by one", number(r.Raw.Sequential), micros(r.Raw.SequentialCPU), micros(r.Raw.P50), micros(r.Raw.P99))
	for _, w := range r.Workloads {
		writeWorkload(&b, out, r, w)
	}
	if r.Open != nil {
		fmt.Fprintf(&b, "\n%s\n", out.Bold(number(float64(r.Open.Requests))+" open requests"))
		fmt.Fprintf(&b, "  %-22s %10s B   %s B of the resident set, for each request\n", "memory", number(r.Open.HeapBytes), number(r.Open.ResidentBytes))
	}
	if r.Compared != nil {
		writeComparison(&b, out, r.Compared)
	}
	return b.String()
}

func writeWorkload(b *strings.Builder, out *term.Out, r *bench.Report, w bench.Outcome) {
	fmt.Fprintf(b, "\n%s %s\n", out.Name(w.Name), out.Dim(w.What))
	fmt.Fprintf(b, "  %-22s %10s/s   p50 %s  p99 %s\n", fmt.Sprintf("%d calls, %d callers", w.Calls, w.Concurrency), number(w.CallsPerSecond), micros(w.P50), micros(w.P99))
	fmt.Fprintf(b, "  %-22s %9.1f%%     of %s calls/s that the bare journal could carry\n", "share of pipelined", 100*w.ShareOfPipelined, number(r.Raw.Pipelined/w.RecordsPerCall))
	fmt.Fprintf(b, "  %-22s %10.2f     times %s calls/s\n", "times sequential", w.TimesSequential, number(r.Raw.Sequential/w.RecordsPerCall))
	if w.Concurrency == 1 {
		fmt.Fprintf(b, "  %-22s %10.2f     times %s for %.0f bare records\n", "p50 over bare", w.P50OverRaw, micros(r.Raw.P50*w.RecordsPerCall), w.RecordsPerCall)
	}
	fmt.Fprintf(b, "  %s\n", out.Dim("each call:"))
	fmt.Fprintf(b, "  %-22s %10s     %s of it in the system; %.1f times that of %.0f bare records\n", "processor time", micros(w.PerCall.CPU), micros(w.PerCall.SystemCPU), w.CPUOverRaw, w.RecordsPerCall)
	fmt.Fprintf(b, "  %-22s %10.2f     counted: %d records\n", "records per call", w.RecordsPerCall, w.Records)
	fmt.Fprintf(b, "  %-22s %10s B   %s B in all streams\n", "in the journal", number(w.PerCall.JournalBytes), number(w.PerCall.StoredBytes))
	fmt.Fprintf(b, "  %-22s %10s     %s B\n", "allocations", number(w.PerCall.Allocations), number(w.PerCall.AllocatedBytes))
	fmt.Fprintf(b, "  %-22s %10.1f     in, %.1f out through the NATS server\n", "messages", w.PerCall.MessagesIn, w.PerCall.MessagesOut)
	if len(w.Stages) == 0 {
		return
	}
	fmt.Fprintf(b, "  %s\n", out.Dim("processor time by stage:"))
	for _, s := range w.Stages {
		fmt.Fprintf(b, "  %-22s %9.1f%%  %8s  %s\n", s.Name, 100*s.Share, micros(s.CPU), out.Dim(s.What))
	}
}

func writeComparison(b *strings.Builder, out *term.Out, c *bench.Comparison) {
	fmt.Fprintf(b, "\n%s\n", out.Bold("Compared with the earlier report"))
	for _, n := range c.Notes {
		fmt.Fprintf(b, "  Not the same: %s.\n", n)
	}
	fmt.Fprintf(b, "  %-8s %-34s %12s %12s %8s\n", "", "", "old", "new", "new÷old")
	for _, f := range c.Figures {
		ratio := "-"
		if f.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f", f.Ratio)
		}
		fmt.Fprintf(b, "  %-8s %-34s %12s %12s %8s\n", f.Workload, f.Figure, quantity(f.Old), quantity(f.New), ratio)
	}
}

// quantity formats a figure of any size, with decimals if it is small.
func quantity(f float64) string {
	if f < 100 {
		return fmt.Sprintf("%.2f", f)
	}
	return number(f)
}

// number formats a rate without decimals, in groups of three digits.
func number(f float64) string {
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func micros(us float64) string {
	if us >= 10_000 {
		return fmt.Sprintf("%.1fms", us/1000)
	}
	return fmt.Sprintf("%.0fµs", us)
}
