package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
)

// A crash of the machine can empty a newly begun block. Later records and all older blocks must be
// there after the next start.
func TestCrashAtTheBeginningOfABlock(t *testing.T) {
	s := dataFolder{t.TempDir()}
	o := s.mustOpen(t)
	second := filepath.Join(filepath.Dir(s.block()), "2.blk")
	add := func(o *opened, name string) {
		r := bustest.CallRecord(name, bustest.CallKey(name), message.ToolCallPending, "propose")
		r.Call.Input = `{"text":"` + strings.Repeat("a line of text;", 10_000) + `"}`
		bustest.MustAppend(t, o.journal, r, 0)
	}
	n := 0
	for ; ; n++ {
		if _, err := os.Stat(second); err == nil {
			break
		}
		add(o, fmt.Sprint("c", n))
	}
	o.stop(t)
	change(t, second, func([]byte) []byte { return nil })
	removeIndex(t, s.journal())
	remove(t, s.anchor()) // the crash also lost the anchor
	o = s.mustOpen(t)
	add(o, "later")
	o.stop(t)
	removeIndex(t, s.journal())
	o = s.mustOpen(t)
	for _, name := range []string{"c0", fmt.Sprint("c", n-2), "later"} {
		if m, err := o.journal.Last(t.Context(), bustest.CallKey(name)); err != nil || m.Invalid != nil {
			t.Errorf("%s: %v %v", name, err, m.Invalid)
		}
	}
	o.stop(t)
}
