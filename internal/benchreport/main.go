// Command benchreport measures askance and its peers in one run and writes
// BENCHMARKS.md with its plots.
//
// The measurements are stored in data.json. The page is made only from that file, and a test
// compares the two. Each part of a run is a separate process: askance bench, the jobs of the
// module peers, and the decisions of permission/benchpeers. A part that fails becomes a line
// of the page and does not end the run.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
)

// dataFile holds the measurements of a run.
const dataFile = "internal/benchreport/data.json"

func main() {
	duration := flag.Duration("duration", 5*time.Second, "time for each workload and system")
	concurrency := flag.Int("concurrency", 32, "callers at the same time")
	open := flag.Int("open", 10_000, "open requests whose memory is measured")
	render := flag.Bool("render", false, "measure nothing: write the page from "+dataFile)
	flag.Parse()
	if err := run(*render, settings{*duration, *concurrency, *open}); err != nil {
		fmt.Fprintln(os.Stderr, "benchreport:", err)
		os.Exit(1)
	}
}

// run expects the root of the repository as its working folder.
func run(render bool, s settings) error {
	if !render {
		d, err := measure(context.Background(), s)
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return fmt.Errorf("encode %s: %w", dataFile, err)
		}
		if err := os.WriteFile(dataFile, append(text, '\n'), 0o600); err != nil {
			return err
		}
	}
	d, err := readData(dataFile)
	if err != nil {
		return err
	}
	var failed error
	for name, text := range d.files() {
		failed = errors.Join(failed, os.WriteFile(filepath.FromSlash(name), []byte(text), 0o600))
	}
	return failed
}

func readData(file string) (*data, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("run make bench-report first: %w", err)
	}
	d := new(data)
	if err := strictjson.Unmarshal(bytes.TrimSpace(text), d); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}
