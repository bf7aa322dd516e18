package chart_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/gateway/console/internal/chart"
)

var update = flag.Bool("update", false, "write the golden files")

var verdicts = []chart.Series{{Name: "allowed", Label: "allowed"}, {Name: "rejected", Label: "rejected & <denied>"}}

// golden compares markup with a file, and checks that it is well-formed and complies with the
// content security policy.
func golden(t *testing.T, name string, got template.HTML) {
	t.Helper()
	text := strings.ReplaceAll(string(got), "><", ">\n<") + "\n"
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s is not well-formed: %v\n%s", name, err, text)
		}
		if e, ok := tok.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("%s: <%s> has the attribute %s", name, e.Name.Local, a.Name.Local)
				}
			}
		}
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s changed (-update writes it):\n%s", name, text)
	}
}

func TestColumns(t *testing.T) {
	c := chart.Columns{
		Title: "Calls", Head: "hour", Series: verdicts, Height: 100,
		Columns: []chart.Column{
			{Label: "10:00", Values: []int{3, 0}, Href: "/history?tool=a&outcome=\"b\""},
			{Label: "11:00", Values: []int{0, 0}},
			{Label: "12:00", Long: "12:00 to 13:00", Values: []int{1, 1}},
		},
		Marks: []chart.Tick{{At: 80, Label: "median 4s"}},
	}
	golden(t, "columns.svg", c.SVG())
	golden(t, "columns-legend.html", c.Legend())
	golden(t, "columns-table.html", c.Table())
	c.Columns = c.Columns[1:2]
	if !c.Empty() {
		t.Error("a chart of zeros is not empty")
	}
	golden(t, "columns-empty.svg", c.SVG())
}

// The label of a tick at the right edge stays within the chart.
func TestLastLabel(t *testing.T) {
	c := chart.Columns{Series: verdicts, Columns: []chart.Column{{Values: []int{1, 0}}}, Ticks: []chart.Tick{{At: 50, Label: "12:00"}, {At: 99.9, Label: "Nov 24"}}}
	if svg := string(c.SVG()); !strings.Contains(svg, `last" x="99.9%"`) || strings.Count(svg, "last") != 1 {
		t.Errorf("the labels are\n%s", svg)
	}
}

// The labels of a distribution do not touch each other.
func TestWideLabels(t *testing.T) {
	c := chart.Columns{Series: verdicts, Wide: true}
	for _, label := range []string{"≤ 10ms", "≤ 20ms", "≤ 50ms", "≤ 100ms", "≤ 200ms", "≤ 500ms", "≤ 1s", "more"} {
		c.Columns = append(c.Columns, chart.Column{Label: label, Values: []int{1, 0}})
	}
	if svg := string(c.SVG()); strings.Count(svg, `class="x`) != 4 {
		t.Errorf("the labels are\n%s", svg)
	}
}

func TestSmall(t *testing.T) {
	golden(t, "share.svg", chart.Share(verdicts, []int{3, 1}, 8))
	golden(t, "heat.html", chart.Heat{Title: "Tool by verdict", Head: "Tool", Names: verdicts, Rows: []chart.HeatRow{
		{Label: "bash<script>", Href: "/history?tool=bash", Values: []int{120, 3}, Hrefs: []string{"/history?tool=bash&outcome=allow", ""}},
		{Label: "Write", Values: []int{0, 1}},
	}}.HTML())
}

// There are few grid lines, at round numbers, and the highest is not below the largest value.
func TestStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := float64(rapid.IntRange(0, 10_000_000).Draw(t, "most"))
		step := chart.Step(most)
		if step < 1 || step*4 < most {
			t.Fatalf("the step for %v is %v", most, step)
		}
		if step > 1 && step*4 >= most*2.6 && most > 4 {
			t.Fatalf("the step for %v is %v: too large", most, step)
		}
	})
	for most, want := range map[float64]float64{0: 1, 4: 1, 5: 2, 8: 2, 9: 5, 20: 5, 21: 10, 40: 10, 79: 20, 200: 50, 1001: 500} {
		if got := chart.Step(most); got != want {
			t.Errorf("the step for %v is %v, want %v", most, got, want)
		}
	}
}

func TestTimeTicks(t *testing.T) {
	at := time.Date(2026, 11, 22, 23, 50, 0, 0, time.UTC)
	for _, tc := range []struct {
		last time.Duration
		want string
	}{
		{20 * time.Minute, "23:50 23:55 Nov 23 00:05 00:10"},
		{24 * time.Hour, "Nov 23 06:00 12:00 18:00"},
		{7 * 24 * time.Hour, "Nov 23 Nov 25 Nov 27 Nov 29"},
		{0, ""},
	} {
		var got []string
		for _, tick := range chart.TimeTicks(at, at.Add(tc.last), 6) {
			if tick.At < 0 || tick.At > 100 {
				t.Errorf("a tick at %v percent", tick.At)
			}
			got = append(got, tick.Label)
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("the ticks of %s are %s, want %s", tc.last, s, tc.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 7: "7", 950: "950", 1200: "1.2k", 3_400_000: "3.4M", 2_000_000_000: "2G"} {
		if got := chart.Number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
