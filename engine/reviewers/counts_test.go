package reviewers

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// For any order of instants, the count equals the number of instants in the window.
func TestRecentInstants(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		var recent, all []time.Time
		for range rapid.IntRange(0, 40).Draw(t, "answers") {
			at := began.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "minute")) * time.Minute)
			all = append(all, at)
			recent = addRecent(recent, at)
			all = slices.DeleteFunc(all, func(o time.Time) bool { return at.Sub(o) >= kept })
			if want := slices.SortedFunc(slices.Values(all), time.Time.Compare); !slices.Equal(recent, want) {
				t.Fatalf("kept are %v, want %v", recent, want)
			}
			now := began.Add(time.Duration(rapid.IntRange(0, 240).Draw(t, "now")) * time.Minute)
			for _, window := range []time.Duration{time.Minute, time.Hour} {
				want := 0
				for _, o := range all {
					if now.Sub(o) < window {
						want++
					}
				}
				if n := countWithin(recent, now, window); n != want {
					t.Fatalf("%d instants of %v are within %s of %s, want %d", n, recent, window, now, want)
				}
			}
		}
	})
}

// The memory for a reviewer is bounded, however many answers they give.
func TestRecentInstantsAreBounded(t *testing.T) {
	var recent []time.Time
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 3 * maxRecent {
		at = at.Add(time.Millisecond)
		recent = addRecent(recent, at)
	}
	if n := countWithin(recent, at, kept); n != maxRecent || cap(recent) > 3*maxRecent {
		t.Errorf("%d instants are kept, with a capacity of %d, want %d", n, cap(recent), maxRecent)
	}
	if n := countWithin(recent, at, time.Second); n != 1000 {
		t.Errorf("%d within a second, want 1000", n)
	}
}
