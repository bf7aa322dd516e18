package executortest_test

import (
	"context"
	"slices"
	"testing"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
)

func TestLocal(t *testing.T)    { executortest.Run(t, executortest.Local) }
func TestRemote(t *testing.T)   { executortest.Run(t, executortest.Remote) }
func TestOverNATS(t *testing.T) { executortest.Run(t, overNATS(t)) }
func TestOverHTTP(t *testing.T) { executortest.Run(t, overHTTP(t)) }

// Without a network in between, no line of progress is lost.
func TestProgressIsComplete(t *testing.T) {
	for name, start := range map[string]executortest.New{"local": executortest.Local, "remote": executortest.Remote} {
		t.Run(name, func(t *testing.T) {
			want := []string{"one", "two", "three"}
			got := start(t, "probe", func(_ context.Context, tk executor.Task) (executor.Output, error) {
				for _, line := range want {
					tk.Progress(line)
				}
				return executor.Output{}, nil
			}).Call(t.Context(), "{}")
			if !slices.Equal(got.Progress, want) {
				t.Errorf("progress %q, want %q", got.Progress, want)
			}
		})
	}
}
