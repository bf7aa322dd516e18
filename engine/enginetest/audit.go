package enginetest

import (
	"context"
	"errors"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// audit checks the whole journal after a test, whatever the test was about.
func (w *world) audit() {
	w.Helper()
	trees := map[message.Key][]*message.Fact{}
	records := w.records()
	w.auditLeases(records)
	for _, rec := range records {
		switch {
		case rec.Invalid != nil:
			w.Errorf("record %d is invalid: %v", rec.Seq, rec.Invalid)
		case rec.Fact != nil && rec.Fact.Call != nil:
			trees[rec.Key] = append(trees[rec.Key], rec.Fact)
		}
	}
	for key, facts := range trees {
		last, err := toolcall.Replay(facts)
		if err != nil {
			w.Errorf("the history of %s is none that the machine could have written: %v", key, err)
			continue
		}
		w.auditRuns(last, facts)
	}
	for _, r := range w.effects.runs {
		if trees[r.key] == nil {
			w.Errorf("%s ran and the journal does not know it", r.key)
		}
	}
}

// auditRuns checks what ran of a call against its facts.
func (w *world) auditRuns(last *message.Call, facts []*message.Fact) {
	w.Helper()
	runs := w.effects.of(last.Key)
	claims := map[string]bool{}
	for _, r := range runs {
		i := slices.IndexFunc(facts, func(f *message.Fact) bool { return permits(f, r) })
		if i < 0 {
			w.Errorf("attempt %d of %s ran with %s and no fact permits that", r.attempt, r.key, r.input)
			continue
		}
		w.auditDecision(facts[:i+1], r)
		if claims[r.claim] {
			w.Errorf("attempt %d of %s ran twice", r.attempt, r.key)
		}
		claims[r.claim] = true
		if r.idem != last.IdempotencyKey() {
			w.Errorf("attempt %d of %s ran under the key %s", r.attempt, r.key, r.idem)
		}
	}
	again := slices.ContainsFunc(facts, func(f *message.Fact) bool {
		return slices.ContainsFunc(f.Path, func(s message.Step) bool { return s.Cause == "offer" })
	})
	if len(runs) > 1 && !again {
		w.Errorf("%s ran %d times, and nobody asked for another attempt", last.Key, len(runs))
	}
}

// auditDecision checks that the input that ran is the one that was decided:
// by a rule that allows, or by a person who named the digest.
func (w *world) auditDecision(facts []*message.Fact, r run) {
	w.Helper()
	c := facts[len(facts)-1].Call
	if c.Question == nil || c.Question.Input != r.input || c.Question.Key != r.key || c.Question.Tool != r.tool {
		w.Errorf("%s ran with %s, the question is %+v", r.key, r.input, c.Question)
		return
	}
	digest, err := c.Question.Digest()
	if err != nil || digest != c.Digest {
		w.Errorf("%s: the digest %s is not that of its question, %s (%v)", r.key, c.Digest, digest, err)
	}
	need := max(c.Question.Requirement.Quorum, 1)
	approved := len(c.Tally().Approvals) >= need && c.Tally().Agreed
	if c.Decision.Behavior != message.BehaviorAllow && !approved {
		w.Errorf("%s ran although the policy said %s and nobody approved: votes %+v", r.key, c.Decision.Behavior, c.Votes)
	}
}

// records reads the whole journal.
func (w *world) records() []message.Record {
	w.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	sink := &collector{done: func() { cancel(errDone) }}
	if err := w.journal.Watch(ctx, 0, sink); !errors.Is(err, errDone) {
		w.Fatalf("watch the journal: %v", err)
	}
	return sink.records
}

var errDone = errors.New("caught up")

// collector is a sink that keeps everything up to the journal's end.
type collector struct {
	records []message.Record
	caught  bool
	done    func()
}

func (c *collector) Record(r message.Record) {
	if !c.caught {
		c.records = append(c.records, r)
	}
}

func (c *collector) CaughtUp() {
	c.caught = true
	c.done()
}
