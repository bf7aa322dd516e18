package reviewers_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var call = toolcall.Key{Session: "s", Reply: "r", Call: "x"}

func TestPerMinute(t *testing.T) {
	var l reviewers.Ledger
	l.Limit(toolcall.ReviewerLimits{PerMinute: 2})
	at := func(d time.Duration) time.Time { return start.Add(d) }
	for _, step := range []struct {
		who   string
		at    time.Duration
		taken bool
		ok    bool
	}{
		{"ann", 0, true, true},
		{"ann", time.Second, false, true}, // not accepted, so it does not count
		{"ann", 10 * time.Second, true, true},
		{"ann", 59 * time.Second, true, false},
		{"ANN", 59 * time.Second, true, false}, // the same person
		{"bob", 59 * time.Second, true, true},
		{"ann", 60 * time.Second, true, true}, // the first has left the window
		{"ann", 69 * time.Second, true, false},
		{"ann", 70 * time.Second, true, true},
	} {
		done, err := l.Admit(call, step.who, "", at(step.at))
		if (err == nil) != step.ok || err != nil && !errors.Is(err, message.ErrOverLimit) {
			t.Fatalf("%s after %v: %v", step.who, step.at, err)
		}
		if err == nil {
			done(step.taken)
		}
	}
	l.Refused()
	if r := l.Report(start); r.Refused != 1 || r.Limits.PerMinute != 2 {
		t.Errorf("%+v", r)
	}
}

// Answers that other engines accepted count once they are read from the journal.
func TestPerMinuteOfOthers(t *testing.T) {
	var l reviewers.Ledger
	l.Limit(toolcall.ReviewerLimits{PerMinute: 1})
	s := requiredFor("a", toolcall.Requirement{})
	l.Record(s.record())
	l.Record(s.says(time.Second, by("ann", toolcall.ResponseReject)).ends().record())
	var restored reviewers.Ledger
	restored.Limit(toolcall.ReviewerLimits{PerMinute: 1})
	if err := restored.Restore(l.State(), nil); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*reviewers.Ledger{&l, &restored} {
		if _, err := l.Admit(call, "Ann", "", start.Add(time.Minute)); !errors.Is(err, message.ErrOverLimit) {
			t.Errorf("within the minute: %v", err)
		}
	}
	if _, err := l.Admit(call, "ann", "", start.Add(61*time.Second)); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestMaxOpen(t *testing.T) {
	var l reviewers.Ledger
	l.Limit(toolcall.ReviewerLimits{MaxOpen: 1})
	if _, err := l.Admit(call, "ann", "bob", start); err != nil {
		t.Errorf("nothing is open yet: %v", err)
	}
	l.Record(requiredFor("a", toolcall.Requirement{Users: []string{"bob"}}).record())
	for _, bob := range []string{"bob", "Bob"} {
		if _, err := l.Admit(call, "ann", bob, start); !errors.Is(err, message.ErrOverLimit) {
			t.Errorf("%s gets more than one: %v", bob, err)
		}
	}
	if _, err := l.Admit(call, "bob", "", start); err != nil {
		t.Errorf("bob cannot answer the request that he has: %v", err)
	}
}

// However many answers come at once, no more than the limit are accepted.
func TestPerMinuteAtOnce(t *testing.T) {
	var l reviewers.Ledger
	l.Limit(toolcall.ReviewerLimits{PerMinute: 5})
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if done, err := l.Admit(call, "ann", "", start); err == nil {
				taken.Add(1)
				done(true)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 5 {
		t.Errorf("%d answers were accepted, want 5", taken.Load())
	}
}
