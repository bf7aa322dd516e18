package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
)

// settings are the same for everything that runs.
type settings struct {
	duration    time.Duration
	concurrency int
	open        int
}

// maxReason bounds the text of why a part could not run.
const maxReason = 200

func measure(ctx context.Context, s settings) (*data, error) {
	d := &data{
		Date: time.Now().UTC().Format(time.DateOnly), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
		CPU: lineOf("/proc/cpuinfo", "model name"), MemoryBytes: 1024 * number(strings.TrimSuffix(lineOf("/proc/meminfo", "MemTotal"), " kB")),
		LoadBefore: readLoad(), Concurrency: s.concurrency, Seconds: s.duration.Seconds(), Jobs: []job{}, Decisions: []decision{}, Missing: []missing{},
	}
	commit, err := output(ctx, ".", "git", "describe", "--always", "--dirty", "--exclude=*")
	if err != nil {
		return nil, err
	}
	d.Commit = strings.TrimSpace(string(commit))
	if d.SyncMicros, err = measureSync(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "askance-benchreport-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	askance := filepath.Join(dir, "askance")
	if _, err := output(ctx, ".", "go", "build", "-o", askance, "./cmd/askance"); err != nil {
		return nil, err
	}
	if err := d.measureCalls(ctx, s, askance); err != nil {
		return nil, err
	}
	d.try("jobs on other systems", func() error { return d.measureJobs(ctx, s) })
	d.try("decisions of Cedar and OPA", func() error { return d.measureDecisions(ctx) })
	d.LoadAfter = readLoad()
	return d, nil
}

// measureCalls runs askance bench for each durability, and with open requests.
func (d *data) measureCalls(ctx context.Context, s settings, askance string) error {
	for _, durability := range []string{"cached", "fsynced", "quorum"} {
		var r report
		err := runBench(ctx, &r, askance, "--durability", durability, "--duration", s.duration.String(), "--concurrency", strconv.Itoa(s.concurrency), "--profile")
		if err != nil {
			return err
		}
		d.Reports = append(d.Reports, r)
	}
	var r report
	if err := runBench(ctx, &r, askance, "--workload", "full", "--calls", strconv.Itoa(s.concurrency), "--duration", "1s", "--open", strconv.Itoa(s.open)); err != nil {
		return err
	}
	d.Open = r.Open
	return nil
}

func runBench(ctx context.Context, r *report, askance string, args ...string) error {
	text, err := output(ctx, ".", askance, append([]string{"bench", "--json"}, args...)...)
	if err != nil {
		return err
	}
	return strictjson.UnmarshalOpen(text, r)
}

// measureJobs runs the module peers. It moves failed jobs to d.Missing.
func (d *data) measureJobs(ctx context.Context, s settings) error {
	text, err := output(ctx, "internal/benchreport/peers", "go", "run", ".", "-duration", s.duration.String(), "-concurrency", strconv.Itoa(s.concurrency))
	if err != nil {
		return err
	}
	var jobs []job
	if err := strictjson.UnmarshalOpen(text, &jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		if j.Failed != "" {
			d.Missing = append(d.Missing, missing{j.System + ", " + j.What, shorten(j.Failed)})
			continue
		}
		d.Jobs = append(d.Jobs, j)
	}
	return nil
}

// measureDecisions runs permission/benchpeers and reads one of its tables.
func (d *data) measureDecisions(ctx context.Context) error {
	text, err := output(ctx, "permission/benchpeers", "go", "run", ".")
	if err != nil {
		return err
	}
	if d.Decisions = parseDecisions(string(text)); len(d.Decisions) == 0 {
		return errors.New("permission/benchpeers printed no table for the shape prefix")
	}
	return nil
}

// parseDecisions reads the table of the shape prefix in which the last rule matches.
func parseDecisions(text string) []decision {
	var out []decision
	_, table, _ := strings.Cut(text, "prefix, the last rule matches")
	for line := range strings.Lines(table) {
		f := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if rules, err := strconv.Atoi(strings.TrimSpace(f[0])); err == nil && len(f) > 5 {
			out = append(out, decision{rules, number(f[1]), number(f[2]), number(f[3]), number(f[4]), number(f[5])})
		} else if len(out) > 0 {
			break
		}
	}
	return out
}

// try records why a part could not run.
func (d *data) try(what string, do func() error) {
	if err := do(); err != nil {
		d.Missing = append(d.Missing, missing{what, shorten(err.Error())})
	}
}

// output runs a program, which reports its progress on standard error.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	fmt.Fprintf(os.Stderr, "%s  %s %s\n", time.Now().Format(time.TimeOnly), filepath.Base(name), strings.Join(args, " "))
	var failure bytes.Buffer
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = dir, &failure
	text, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(failure.String()))
	}
	return text, nil
}

// measureSync returns the median time, in microseconds, to write and sync 4 kB in the folder
// of the run's journals.
func measureSync() (float64, error) {
	const times = 200
	f, err := os.CreateTemp("", "askance-sync-")
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	var all []time.Duration
	for range times {
		began := time.Now()
		_, err := f.Write(make([]byte, 4096))
		if err = errors.Join(err, f.Sync()); err != nil {
			return 0, err
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return float64(all[times/2].Nanoseconds()) / 1e3, nil
}

// readLoad returns the load average of the last minute, or 0 if the system has none.
func readLoad() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return number(first)
}

// lineOf returns the value of a "name: value" line, or "".
func lineOf(file, name string) string {
	text, _ := os.ReadFile(file)
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// number parses a number, or returns 0.
func number(s string) float64 {
	f, _ := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return f
}

func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}
