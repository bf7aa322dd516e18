package e2e_test

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/askance-dev/askance/e2e/internal/effect"
)

// dice are seeded random numbers. Each actor has its own dice, so that one seed
// gives each the same numbers in every order of their steps.
type dice struct {
	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

// newDice gives the dice of one actor in one test.
func newDice(test, actor string) *dice { return seededDice(seed, test, actor) }

// seededDice gives the dice of one actor under a seed of its own.
func seededDice(seed uint64, test, actor string) *dice {
	h := fnv.New64a()
	_, _ = h.Write([]byte(test + "\x00" + actor))
	return &dice{rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// pick is a number below n.
func (d *dice) pick(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// between is a duration from low to high.
func (d *dice) between(low, high time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return low + time.Duration(d.rng.Int64N(int64(high-low)+1))
}

// moment is a pause of up to 5 ms.
func (d *dice) moment() <-chan time.Time { return time.After(d.between(0, 5*ms)) }

// tool is one of the tools.
func (d *dice) tool() string { return allTools[d.pick(len(allTools))] }

// input is one whose tool takes a short while before and after its effect.
func (d *dice) input(ask bool) effect.Input {
	return effect.Input{N: d.pick(1e6), Ask: ask, Before: int64(d.pick(15)), After: int64(d.pick(15))}
}
