// Command benchpeers measures how long a decision takes in askance, Cedar and OPA, with
// the same rules and inputs, in one run. It prints the tables of the README. It is a
// separate module, so askance does not depend on the peers.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

var sizes = []int{1, 10, 100, 1000}

// last returns the highest rule about tool 0 among n.
func last(n int) int { return (n - 1) / tools * tools }

// inputsOf returns inputs with the answers that every engine must give.
func inputsOf(s shape, n int) map[string]string {
	out := map[string]string{noMatch: "none"}
	if s.match != nil {
		out[s.match(last(n))] = behaviorOf(last(n))
	}
	return out
}

func main() {
	rounds := flag.Int("rounds", 9, "rounds; the fastest of each engine counts")
	per := flag.Duration("per", 20*time.Millisecond, "time of one engine in one round")
	flag.Parse()
	if err := run(*rounds, *per); err != nil {
		fmt.Fprintln(os.Stderr, "benchpeers:", err)
		os.Exit(1)
	}
}

func run(rounds int, per time.Duration) error {
	fmt.Printf("%s, %s/%s, %d cores, %d rounds of %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), rounds, per)
	for _, s := range shapes {
		for _, matching := range []bool{false, true} {
			if matching && s.match == nil {
				continue
			}
			if err := table(s, matching, rounds, per); err != nil {
				return err
			}
		}
	}
	if err := tail(); err != nil {
		return err
	}
	return loading(rounds)
}

// table prints the times of one shape at every size.
func table(s shape, matching bool, rounds int, per time.Duration) error {
	what := "no rule matches"
	if matching {
		what = "the last rule matches"
	}
	fmt.Printf("\n%s, %s (%s); µs per decision\n\n", s.name, what, s.doc)
	fmt.Println("| rules | askance | Cedar | OPA | Cedar, ready | OPA, ready | times Cedar | times OPA | times Cedar, ready | times OPA, ready |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for _, n := range sizes {
		input := []byte(noMatch)
		if matching {
			input = []byte(s.match(last(n)))
		}
		var jobs []func() error
		for _, p := range peers {
			e, err := p.load(p.file(s, n))
			if err != nil {
				return err
			}
			v, err := e.prepare(input)
			if err != nil {
				return err
			}
			jobs = append(jobs, func() error { _, err := e.decide(input); return err }, func() error { _, err := e.ready(v); return err })
		}
		best, err := fastest(jobs, rounds, per)
		if err != nil {
			return err
		}
		us := func(i int) float64 { return float64(best[i].Nanoseconds()) / 1000 }
		fmt.Printf("| %d | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f | %.1f | %.1f | %.1f |\n", n, us(0), us(2), us(4), us(3), us(5),
			us(2)/us(0), us(4)/us(0), us(3)/us(0), us(5)/us(0))
	}
	return nil
}

// fastest runs the jobs in turns, so that a disturbance affects all of them, and
// returns the shortest time of each.
func fastest(jobs []func() error, rounds int, per time.Duration) ([]time.Duration, error) {
	best := slices.Repeat([]time.Duration{time.Hour}, len(jobs))
	for range rounds {
		for i, job := range jobs {
			t, err := average(job, per)
			if err != nil {
				return nil, err
			}
			best[i] = min(best[i], t)
		}
	}
	return best, nil
}

func average(job func() error, per time.Duration) (time.Duration, error) {
	n, start := 0, spent(unix.CLOCK_PROCESS_CPUTIME_ID)
	for spent(unix.CLOCK_PROCESS_CPUTIME_ID)-start < per {
		for range 100 {
			if err := job(); err != nil {
				return 0, err
			}
		}
		n += 100
	}
	return (spent(unix.CLOCK_PROCESS_CPUTIME_ID) - start) / time.Duration(n), nil
}

// spent returns the processor time that the process, including garbage collection, or
// the thread has used. Unlike wall-clock time it does not count the time that other
// programs use.
func spent(clock int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic(err) // these clocks always exist
	}
	return time.Duration(ts.Nano())
}

// tail prints our slowest decisions at 1000 rules and their allocations.
func tail() error {
	fmt.Print("\naskance at 1000 rules, 50 of them about the tool, no rule matches\n\n")
	fmt.Println("| shape | median µs | p99 µs | p99.9 µs | allocations | for each rule evaluated by CEL |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, s := range shapes {
		none, err := loadOurs("version: 1\nname: none\nrules: []\n")
		if err != nil {
			return err
		}
		e, err := loadOurs(s.askanceFile(1000))
		if err != nil {
			return err
		}
		times := make([]time.Duration, 20_000)
		runtime.LockOSThread()
		for i := range times {
			start := spent(unix.CLOCK_THREAD_CPUTIME_ID)
			if _, err := e.decide([]byte(noMatch)); err != nil {
				return err
			}
			times[i] = spent(unix.CLOCK_THREAD_CPUTIME_ID) - start
		}
		runtime.UnlockOSThread()
		slices.Sort(times)
		at := func(share float64) float64 {
			return float64(times[int(share*float64(len(times)-1))].Nanoseconds()) / 1000
		}
		base, all := allocations(none), allocations(e)
		fmt.Printf("| %s | %.1f | %.1f | %.1f | %.0f | %.2f |\n", s.name, at(0.5), at(0.99), at(0.999), all, (all-base)/50)
	}
	return nil
}

// allocations returns the number of allocations of one decision.
func allocations(e engine) float64 {
	const n = 2000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		_, _ = e.decide([]byte(noMatch)) // decided without an error before
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n
}

// loading prints how long it takes to load 1000 rules from their file, in wall-clock
// time and, in brackets, in time of all processors together.
func loading(rounds int) error {
	fmt.Print("\nloading 1000 rules from their file; ms by the clock (and of processor time)\n\n| shape | askance | Cedar | OPA |\n|---|---|---|---|\n")
	for _, s := range shapes {
		fmt.Printf("| %s |", s.name)
		for _, p := range peers {
			file, clock, busy := p.file(s, 1000), time.Hour, time.Hour
			for range rounds {
				began, start := time.Now(), spent(unix.CLOCK_PROCESS_CPUTIME_ID)
				if _, err := p.load(file); err != nil {
					return err
				}
				clock = min(clock, time.Since(began))
				busy = min(busy, spent(unix.CLOCK_PROCESS_CPUTIME_ID)-start)
			}
			fmt.Printf(" %.0f (%.0f) |", milliseconds(clock), milliseconds(busy))
		}
		fmt.Println()
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
