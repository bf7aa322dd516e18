package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
)

// An engine compares its clock with the journal's by facts of its own: what was
// on its way for long says nothing.
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
		e := &Engine{clocks: newClocks(slog.New(slog.DiscardHandler))}
		e.compareStore(at, at.Add(tc.stored), at.Add(tc.now))
		got := e.clocks.readings()
		if len(got) == 0 && tc.ahead == 0 {
			continue
		}
		if len(got) != 1 || got[0].Who != "journal" || got[0].AheadMS != tc.ahead.Milliseconds() || got[0].WithinMS != tc.now.Milliseconds() {
			t.Errorf("%s: %+v, want %s ahead", tc.name, got, tc.ahead)
		}
		if e.compareStore(at, at.Add(time.Minute), at.Add(2*time.Minute)); len(e.clocks.readings()) != len(got) {
			t.Errorf("%s: a slow reading says that a clock is right again", tc.name)
		}
		if e.compareStore(at, at, at); len(e.clocks.readings()) != 0 {
			t.Errorf("%s: a clock that is right again is still listed", tc.name)
		}
	}
}

// An engine compares the journal's clock with its own by the facts that the
// watch does not read.
func TestOwnFactsShowTheJournalsClock(t *testing.T) {
	e := &Engine{view: newView(10), clocks: newClocks(slog.New(slog.DiscardHandler))}
	now := time.Now()
	f := &message.Fact{ID: "f1", At: now, Session: &message.SessionState{Key: message.Key{Space: "x", Session: "s"}}}
	e.own.put(f)
	if (watcher{e}).Wants(1, f.ID, now.Add(time.Hour)) {
		t.Error("the watch wants a fact that the engine has in memory")
	}
	if r := e.clocks.readings(); len(r) != 1 || r[0].Who != "journal" || r[0].AheadMS < time.Minute.Milliseconds() {
		t.Errorf("the clocks that differ are %+v, want the journal's", r)
	}
}
