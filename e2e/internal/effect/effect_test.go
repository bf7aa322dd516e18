package effect_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/askance-dev/askance/e2e/internal/effect"
)

func TestMain(m *testing.M) {
	if os.Getenv("ASKANCE_IDEMPOTENCY_KEY") != "" { // this is the tool
		os.Exit(effect.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

const input = `{"n":1,"ask":false,"forbid":false,"before_ms":0,"after_ms":0}`

// tool describes a run of the tool with an input, and the number of bytes it is told to expect.
func tool(t *testing.T, dir, kind, key, input string, told int) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], dir, kind)
	c.Env = append(os.Environ(), "ASKANCE_IDEMPOTENCY_KEY="+key, "ASKANCE_ATTEMPT=1", fmt.Sprintf("ASKANCE_INPUT_BYTES=%d", told))
	c.Stdin = strings.NewReader(input)
	return c
}

// The tool records what it read even if it should never have run with that.
func TestFaultsAreRecorded(t *testing.T) {
	want := len(input)
	for name, tc := range map[string]struct {
		input string
		told  int
		ok    bool
	}{
		"whole":        {input, want, true},
		"empty":        {"", want, false},
		"cut":          {input[:20], want, false},
		"other":        {strings.Replace(input, `"n":1`, `"n":2`, 1), want, false},
		"told of less": {input, want - 1, false},
		"no JSON":      {strings.Repeat("x", want), want, false},
	} {
		for _, kind := range []string{effect.Once, effect.Idempotent} {
			dir := t.TempDir()
			out, err := tool(t, dir, kind, "key", tc.input, tc.told).CombinedOutput()
			if name != "other" && (err == nil) != tc.ok { // only a reader that knows the input can detect other bytes
				t.Errorf("%s: %v: %s", name, err, out)
			}
			for _, file := range []string{effect.RunsFile, effect.EffectsFile} {
				marks, err := effect.Read(filepath.Join(dir, file))
				if err != nil || len(marks) != 1 {
					t.Fatalf("%s: %s has %v, %v; want one line", name, file, marks, err)
				}
				if err := marks[0].Received(input); (err == nil) != tc.ok || marks[0].Bytes != len(tc.input) {
					t.Errorf("%s: %s says %+v: %v", name, file, marks[0], err)
				}
			}
		}
	}
}

// Tools that run at the same time never read half of each other's lines, even if a line crosses a
// page.
func TestAtOnce(t *testing.T) {
	dir := t.TempDir()
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				kind := []string{effect.Once, effect.Idempotent}[i%2]
				c := tool(t, dir, kind, fmt.Sprintf("%d-%d-%s", i, n, strings.Repeat("k", 20_000)), input, len(input))
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	wg.Wait()
	marks, err := effect.Read(filepath.Join(dir, effect.EffectsFile))
	if err != nil || len(marks) != writers*each {
		t.Errorf("%d effects, %v; want %d", len(marks), err, writers*each)
	}
}

func TestUsage(t *testing.T) {
	var errs bytes.Buffer
	if code := effect.Main([]string{"dir"}, strings.NewReader(""), io.Discard, &errs); code != 2 || !strings.Contains(errs.String(), "usage") {
		t.Errorf("exit %d, %s", code, errs.String())
	}
}
