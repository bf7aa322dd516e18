package enginetest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/askance-dev/askance/message"
)

func digestCases() []testCase[*world] {
	return []testCase[*world]{
		{"an answer to another question", wrongDigest},
		{"an answer to an unknown or foreign call", unknownCall},
		{"of many answers on three engines one wins", oneAnswerWins},
		{"the digest covers what is shown", digestCovers},
	}
}

func wrongDigest(w *world) {
	e := w.engine()
	q, other := e.ask("c", pay, `{"amount":500}`), e.ask("d", pay, `{"amount":501}`)
	size := len(w.records())
	for _, digest := range []string{other.Digest, "sha256:00", q.Digest + "0", strings.ToUpper(q.Digest)} {
		for _, kind := range []message.AnswerKind{message.AnswerApprove, message.AnswerReject, message.AnswerForTool} {
			_, err := e.ann().Answer(w.Context(), message.Answer{Key: q.Key, Kind: kind, Digest: digest})
			if e := w.refusal(err, message.ErrDigest); e.Call == nil || e.Call.Digest != q.Digest || e.Call.Question == nil || e.Call.Question.Input != q.Input {
				w.Errorf("the error does not show the present question: %+v", e.Call)
			}
		}
		a := edit(q, `{"amount":1}`)
		a.Digest = digest
		_, err := e.ann().Answer(w.Context(), a)
		w.wantErr(err, message.ErrDigest)
	}
	w.wantSize(size)
	w.wantRuns(q.Key, 0)
}

func unknownCall(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	size := len(w.records())
	for _, change := range []func(*message.Answer){
		func(a *message.Answer) { a.Call = "unknown" },
		func(a *message.Answer) { a.Reply = "unknown" },
		func(a *message.Answer) { a.Session = "unknown" },
	} {
		a := approve(q)
		change(&a)
		_, err := e.ann().Answer(w.Context(), a)
		w.wantErr(err, message.ErrNotFound)
	}
	w.wantSize(size)
	a := approve(q)
	a.Space = "another" // the space is the engine's, whatever the body says
	_, err := e.ann().Answer(w.Context(), a)
	w.must(err)
	e.finished(q.Key)
}

// oneAnswerWins throws 64 answers at three engines at once.
func oneAnswerWins(w *world) {
	engines := []*replica{w.engine(), w.engine(), w.engine()}
	for round := range 3 {
		q := engines[0].ask(message.CallID(fmt.Sprint("c", round)), pay, `{"amount":500}`)
		var won atomic.Int64
		var winner atomic.Value
		var mu sync.Mutex
		seen := map[string]int{}
		var wg sync.WaitGroup
		for i := range 64 {
			a := []message.Answer{approve(q), reject(q), edit(q, `{"amount":1}`), {Key: q.Key, Kind: message.AnswerForTool, Digest: q.Digest}}[i%4]
			name := fmt.Sprint("person", i)
			wg.Go(func() {
				c, err := engines[i%3].as(message.RoleApprover, name).Answer(w.Context(), a)
				if err == nil {
					won.Add(1)
					winner.Store(name)
				} else if c = message.AsError("", err).Call; c == nil {
					w.Errorf("a loser got %v without the winner's outcome", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[c.Votes[0].By.Name]++
			})
		}
		wg.Wait()
		if won.Load() != 1 || len(seen) != 1 || seen[winner.Load().(string)] != 64 {
			w.Errorf("%d answers won, the outcomes seen are %v", won.Load(), seen)
		}
		for _, e := range engines {
			if c := e.finished(q.Key); c.Votes[0].By.Name != winner.Load() {
				w.Errorf("%s says that %s answered, it was %s", e.ID(), c.Votes[0].By.Name, winner.Load())
			}
		}
	}
}

// digestCovers recomputes the digest from what the person sees, and changes
// each part of it.
func digestCovers(w *world) {
	e := w.engine()
	q := e.ask("c", vip, `{"amount": 500}`)
	for name, change := range map[string]func(*message.Question){
		"nothing":  func(*message.Question) {},
		"key":      func(q *message.Question) { q.Call = "d" },
		"tool":     func(q *message.Question) { q.Tool = rm },
		"input":    func(q *message.Question) { q.Input = `{"amount":500}` },
		"text":     func(q *message.Question) { q.Text += " " },
		"rule":     func(q *message.Question) { q.Rule = "" },
		"source":   func(q *message.Question) { q.Source = "x" },
		"reason":   func(q *message.Question) { q.Reason = "x" },
		"users":    func(q *message.Question) { q.Requirement.Users = []string{"ann", "bob"} },
		"deadline": func(q *message.Question) { q.Requirement.Deadline = noon },
		"bundle":   func(q *message.Question) { q.Bundle = "x" },
	} {
		copied := *q.Question
		change(&copied)
		digest, err := copied.Digest()
		w.must(err)
		if (digest == q.Digest) != (name == "nothing") {
			w.Errorf("after a change of %s the digest is %s, was %s", name, digest, q.Digest)
		}
	}
}
