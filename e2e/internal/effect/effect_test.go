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

// Tools that run at once never see half of each other's lines, also where a line
// crosses a page.
func TestAtOnce(t *testing.T) {
	dir := t.TempDir()
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				kind := []string{effect.Once, effect.Idempotent}[i%2]
				c := exec.CommandContext(t.Context(), os.Args[0], dir, kind)
				c.Env = append(os.Environ(), fmt.Sprintf("ASKANCE_IDEMPOTENCY_KEY=%d-%d-%s", i, n, strings.Repeat("k", 20_000)), "ASKANCE_ATTEMPT=1")
				c.Stdin = strings.NewReader(`{"n":1,"ask":false,"forbid":false,"before_ms":0,"after_ms":0}`)
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
