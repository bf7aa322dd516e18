package e2e_test

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/askance-dev/askance/e2e/internal/effect"
)

// dice are seeded random numbers. Each actor has its own dice, so that with one seed each gets the
// same numbers in any order of their steps.
type dice struct {
	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

// newDice returns the dice of one actor in one test.
func newDice(test, actor string) *dice { return seededDice(seed, test, actor) }

// seededDice returns the dice of one actor for the given seed.
func seededDice(seed uint64, test, actor string) *dice {
	h := fnv.New64a()
	_, _ = h.Write([]byte(test + "\x00" + actor))
	return &dice{rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// pick returns a number below n.
func (d *dice) pick(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// between returns a duration from low to high.
func (d *dice) between(low, high time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return low + time.Duration(d.rng.Int64N(int64(high-low)+1))
}

// moment returns a pause of up to 5 ms.
func (d *dice) moment() <-chan time.Time { return time.After(d.between(0, 5*ms)) }

// tool returns one of the tools.
func (d *dice) tool() string { return allTools[d.pick(len(allTools))] }

// input returns an input with which the tool takes a short while before and after its effect.
func (d *dice) input(ask bool) effect.Input {
	return effect.Input{N: d.pick(1e6), Ask: ask, Before: int64(d.pick(15)), After: int64(d.pick(15))}
}
