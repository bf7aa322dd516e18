package judge_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// bareT is a testing.TB for the helpers of this package in a process that is not a test.
type bareT struct {
	testing.TB

	ends   []func()
	failed bool
}

type fatal struct{}

func (t *bareT) run(f func()) {
	defer func() {
		if r := recover(); r != nil && r != (fatal{}) {
			panic(r)
		}
	}()
	f()
}

func (t *bareT) cleanup() {
	for _, end := range slices.Backward(t.ends) {
		end()
	}
}

func (t *bareT) Cleanup(f func()) { t.ends = append(t.ends, f) }
func (t *bareT) Helper()          {}
func (t *bareT) Failed() bool     { return t.failed }
func (t *bareT) Log(a ...any)     { fmt.Fprintln(os.Stderr, a...) }

func (t *bareT) Logf(format string, a ...any)   { fmt.Fprintf(os.Stderr, format+"\n", a...) }
func (t *bareT) Error(a ...any)                 { t.failed = true; t.Log(a...) }
func (t *bareT) Errorf(format string, a ...any) { t.failed = true; t.Logf(format, a...) }
func (t *bareT) Fatal(a ...any)                 { t.Error(a...); panic(fatal{}) }
func (t *bareT) Fatalf(format string, a ...any) { t.Errorf(format, a...); panic(fatal{}) }
