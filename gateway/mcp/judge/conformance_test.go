package judge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/bustest"
)

// eras are the two protocols. Each has the revision whose requirements judge it, and the flags
// with which the everything server speaks it over HTTP.
var eras = []struct {
	revision string
	flags    []string
	least    int // how many checks must pass bare, so a suite that runs nothing fails
}{
	{"2026-07-28", nil, 160},
	{"2025-11-25", []string{"-stateless=false"}, 80},
}

// checks are the results of a run: how often each check of each scenario passed and failed.
type checks map[string]check

type check struct {
	passed, failed int
	why            []string // the suite's explanations of checks that did not pass
}

func (c checks) passed() (n int) {
	for _, x := range c {
		n += x.passed
	}
	return n
}

// judge runs the published suite against a server.
func judge(t *testing.T, url, revision string) checks {
	t.Helper()
	return suite(t, nil, "server", "--url", url, "--requirements", revision)
}

// suite runs the published suite.
func suite(t *testing.T, env []string, args ...string) checks {
	t.Helper()
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"--import", "./node20.mjs", "node_modules/@modelcontextprotocol/conformance/dist/index.js"}, append(args, "--output-dir", out)...)...)
	cmd.Dir = nodeFolder
	cmd.Env = append(cmd.Environ(), env...)
	// The exit code reflects only scored scenarios; the comparison reads all checks.
	printed, runErr := cmd.CombinedOutput()
	files, err := filepath.Glob(filepath.Join(out, "*", "checks.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the suite wrote no checks: %v %v\n%s\nIf a package is missing, run make node.", runErr, err, printed)
	}
	found := checks{}
	date := regexp.MustCompile(`-\d{4}-\d{2}-\d{2}T[0-9-]+Z$`)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all []struct{ ID, Status, ErrorMessage string }
		if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&all); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scenario := date.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
		for _, c := range all {
			x := found[scenario+" "+c.ID]
			switch c.Status {
			case "SUCCESS":
				x.passed++
			case "FAILURE":
				x.failed++
				x.why = append(x.why, c.ErrorMessage)
			default:
				x.why = append(x.why, c.Status+" "+c.ErrorMessage)
			}
			found[scenario+" "+c.ID] = x
		}
	}
	return found
}

// incomparable is a scenario that the suite never scores. The bare server cuts the stream of a
// call and offers no way to resume it, so the client gets no result. Behind the gateway, the
// client is told that the outcome is unknown.
const incomparable = "server-server-sse-polling "

// lost returns the checks that pass less often or fail more often than they do bare.
func lost(bare, behind checks) (lines []string) {
	for name, b := range bare {
		if strings.HasPrefix(name, incomparable) {
			continue
		}
		if g := behind[name]; g.passed < b.passed || g.failed > b.failed {
			lines = append(lines, fmt.Sprintf("%s: bare %d passed, %d failed; behind %d passed, %d failed: %q", name, b.passed, b.failed, g.passed, g.failed, g.why))
		}
	}
	for name, g := range behind {
		if _, known := bare[name]; !known && g.failed > 0 && !strings.HasPrefix(name, incomparable) {
			lines = append(lines, fmt.Sprintf("%s: not checked bare; behind %d failed: %q", name, g.failed, g.why))
		}
	}
	slices.Sort(lines)
	return lines
}

// everything starts the server that the suite expects and returns its URL.
func everything(t *testing.T, flags ...string) string {
	t.Helper()
	address := strings.Replace(bustest.FreeAddress(), "127.0.0.1", "localhost", 1) // the server does not report its own port
	p := command(t, nil, slices.Concat([]string{bin.everything, "-http", address}, flags)...).start()
	p.says(`listening at`)
	answers(t, "http://"+address)
	return "http://" + address
}

// answers waits until a server accepts connections.
func answers(t *testing.T, url string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		res, err := http.Get(url)
		if err == nil {
			_ = res.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer: %v", url, err)
		}
	}
}

// TestConformance: each check of the published suite that passes against the bare server also
// passes against that server behind the gateway.
func TestConformance(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "version: 1\nname: open\ndefaults: {mode: bypass}\nrules: []\n")
	for _, era := range eras {
		t.Run(era.revision, func(t *testing.T) {
			t.Parallel()
			bare := judge(t, everything(t, era.flags...), era.revision)
			if n := bare.passed(); n < era.least {
				t.Fatalf("%d checks pass against the bare server, want %d at least", n, era.least)
			}
			const tries = 3 // the suite gives a first frame 600 ms, which a busy machine may need for other work
			for try := 1; ; try++ {
				// Another process of the same server, because the suite changes its lists.
				file := h.upstreams(map[string]map[string]any{"": {"url": everything(t, era.flags...)}})
				behind := judge(t, h.open(file), era.revision)
				t.Logf("bare: %d checks pass; behind the gateway: %d", bare.passed(), behind.passed())
				lines := lost(bare, behind)
				if len(lines) == 0 {
					break
				}
				t.Logf("try %d: %s", try, strings.Join(lines, "\n"))
				if try == tries {
					t.Fail()
					break
				}
			}
		})
	}
}

// TestConformanceComparison: a check that fails behind the gateway, or is missing there, counts
// as lost.
func TestConformanceComparison(t *testing.T) {
	n := func(passed, failed int) check { return check{passed: passed, failed: failed} }
	bare := checks{"a": n(2, 0), "b": n(1, 0), "c": n(0, 1)}
	for _, c := range []struct {
		behind checks
		lost   int
	}{
		{bare, 0},
		{checks{"a": n(2, 0), "b": n(1, 0), "c": n(1, 0), "d": n(1, 0)}, 0},
		{checks{"a": n(1, 1), "b": n(1, 0), "c": n(0, 1)}, 1},
		{checks{"a": n(2, 0), "c": n(0, 1)}, 1},
		{checks{"a": n(2, 0), "b": n(1, 0), "c": n(0, 2), "d": n(0, 1)}, 2},
	} {
		if got := lost(bare, c.behind); len(got) != c.lost {
			t.Errorf("lost(%v) = %q, want %d", c.behind, got, c.lost)
		}
	}
}
