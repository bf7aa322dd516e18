package schedule

import (
	"log/slog"
	"testing"
	"time"
)

// An engine compares its clock with the journal's using its own event records. A record that
// took long to arrive proves nothing.
func TestCompareStore(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name        string
		stored, now time.Duration // after at
		ahead       time.Duration // of the journal's clock
	}{
		{"at once", 0, time.Millisecond, 0},
		{"slow", time.Minute, 2 * time.Minute, 0},
		{"within the tolerance", -2 * time.Second, time.Millisecond, 0},
		{"the journal is behind", -4 * time.Minute, time.Millisecond, -4 * time.Minute},
		{"the journal is ahead", 4*time.Minute + time.Second, time.Second, 4 * time.Minute},
	} {
		k := NewClocks(slog.New(slog.DiscardHandler))
		k.CompareJournal(at, at.Add(tc.stored), at.Add(tc.now))
		got := k.Readings()
		if len(got) == 0 && tc.ahead == 0 {
			continue
		}
		if len(got) != 1 || got[0].Who != "journal" || got[0].AheadMS != tc.ahead.Milliseconds() || got[0].WithinMS != tc.now.Milliseconds() {
			t.Errorf("%s: %+v, want %s ahead", tc.name, got, tc.ahead)
		}
		if k.CompareJournal(at, at.Add(time.Minute), at.Add(2*time.Minute)); len(k.Readings()) != len(got) {
			t.Errorf("%s: a slow reading counts as proof that the clock is right again", tc.name)
		}
		if k.CompareJournal(at, at, at); len(k.Readings()) != 0 {
			t.Errorf("%s: a clock that is right again is still listed", tc.name)
		}
	}
}
