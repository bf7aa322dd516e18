package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the path of the repository.
const root = "../.."

// The page and its plots show exactly the data in data.json.
func TestPageIsMadeOfTheData(t *testing.T) {
	d, err := readData(filepath.Join(root, dataFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range d.files() {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("%s differs from %s: run go run ./internal/benchreport -render", name, dataFile)
		}
	}
	for _, w := range []string{"local-1", "local", "full"} {
		for _, durability := range []string{"cached", "fsynced"} {
			if !strings.Contains(d.page(), "| "+durability+" | "+w+" |") {
				t.Errorf("the page has no row for %s, %s", durability, w)
			}
		}
	}
	if d.Commit == "" || d.CPU == "" || d.Date == "" || d.SyncMicros <= 0 || d.Concurrency < 1 || d.Open == nil {
		t.Errorf("the data lack what was measured or where: %+v", d)
	}
}

// A changed figure changes the page, and failures are on it.
func TestPageShowsTheData(t *testing.T) {
	d := &data{
		Concurrency: 7, LoadBefore: 3,
		Reports: []report{{Durability: "cached", Workloads: []workload{
			{Name: "full", Concurrency: 7, CallsPerSecond: 4321, PerCall: cost{CPU: 777, JournalBytes: 12_345}, Stages: []stage{{Name: "sign", CPU: 55}}},
			{Name: "local-1", Concurrency: 1, CallsPerSecond: 99.5, P50OverRaw: 3.25},
		}}},
		Open:      &open{Requests: 10, HeapBytes: 2048, ResidentBytes: 4096},
		Jobs:      []job{{System: "River", Version: "v1", Durability: "fsynced", PerSecond: 1234, CPU: 100, ServerCPU: 50}},
		Decisions: []decision{{Rules: 10, Askance: 2.5}},
		Missing:   []missing{{"Temporal", "no server"}},
	}
	page := d.page()
	for _, want := range []string{
		"| cached | full | 4,321 |", "777 µs", "12.3 kB", "| 3.2 |", "2,048 bytes of live heap", "| River v1 | fsynced |", "150 µs", "| 10 | 2.50 µs |", "| Temporal | no server |",
		"Other processes shared the machine",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if d.LoadBefore = 0.2; strings.Contains(d.page(), "Other processes shared") {
		t.Error("an idle machine is reported as shared")
	}
	rates := d.files()[ratesPlot]
	if strings.Contains(rates, "local-1") || !strings.Contains(rates, "askance, full, cached") || !strings.Contains(rates, "River v1, fsynced") {
		t.Errorf("the plot has the wrong rows:\n%s", rates)
	}
}

func TestPlotsAreXML(t *testing.T) {
	text := plotBars("a < b & c", []bar{{"x<y", "g", 0}, {"z", "h", 10}}, formatCount)
	for dec := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	for _, want := range []string{`width="0.0"`, `width="420.0"`, "a &lt; b &amp; c", colors[0], colors[1]} {
		if !strings.Contains(text, want) {
			t.Errorf("the plot lacks %s:\n%s", want, text)
		}
	}
	if empty := plotBars("none", nil, formatCount); !strings.HasSuffix(empty, "</svg>\n") {
		t.Errorf("a plot of nothing is %s", empty)
	}
}

func TestParseDecisions(t *testing.T) {
	text := "prefix, no rule matches (x)\n\n| rules | askance |\n|---|---|\n| 1 | 9 | 9 | 9 | 9 | 9 |\n\n" +
		"prefix, the last rule matches (x); µs per decision\n\n| rules | askance | Cedar | OPA | Cedar, ready | OPA, ready |\n|---|---|---|---|---|---|\n" +
		"| 1 | 2.55 | 4.28 | 17.34 | 0.78 | 11.97 | 1.7 |\n| 10 | 2.80 | 4.77 | 18.76 | 1.13 | 12.34 | 1.7 |\n\nequal, no rule matches\n\n| 1 | 8 | 8 | 8 | 8 | 8 |\n"
	got := parseDecisions(text)
	if len(got) != 2 || got[0] != (decision{1, 2.55, 4.28, 17.34, 0.78, 11.97}) || got[1].Rules != 10 {
		t.Errorf("decisions = %+v", got)
	}
	if got := parseDecisions("no table"); got != nil {
		t.Errorf("decisions of nothing = %+v", got)
	}
}

func TestFormats(t *testing.T) {
	for want, got := range map[string]string{
		"0": formatCount(0), "12.5": formatCount(12.5), "1,234,567": formatCount(1234567), "-": formatMicros(0), "2.55 µs": formatMicros(2.55), "9,999 µs": formatMicros(9999),
		"10.0 ms": formatMicros(10_000), "512 B": formatBytes(512), "11.6 kB": formatBytes(11_588), "24.0 GB": formatBytes(24e9), "25.0 MB": formatBytes(25e6),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
