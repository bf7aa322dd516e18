package proof

import (
	"iter"
	"runtime"
	"sync"
)

// The limits of a batch.
const (
	batchValues = 128
	batchBytes  = 256 << 10
)

// batch is a run of values, with their results once done is closed.
type batch[T, R any] struct {
	in   []T
	out  []R
	err  error // error of the iterator, after the values of in
	done chan struct{}
}

// inBatches yields the values of seq in batches. An error ends the last one.
func inBatches[T, R any](seq iter.Seq2[T, error], size func(T) int) iter.Seq[*batch[T, R]] {
	return func(yield func(*batch[T, R]) bool) {
		b, bytes := &batch[T, R]{done: make(chan struct{})}, 0
		for v, err := range seq {
			if b.err = err; err != nil {
				break
			}
			b.in, bytes = append(b.in, v), bytes+size(v)
			if len(b.in) == batchValues || bytes >= batchBytes {
				if !yield(b) {
					return
				}
				b, bytes = &batch[T, R]{done: make(chan struct{})}, 0
			}
		}
		yield(b)
	}
}

// readAhead computes f of each value of seq in several goroutines and returns the results in
// order; nil means the end, or an error, which is final. seq runs in its own goroutine, two
// batches per worker ahead. stop ends it and waits until it has ended.
func readAhead[T, R any](seq iter.Seq2[T, error], workers int, size func(T) int, f func(T) R) (next func() (*R, error), stop func()) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	inOrder, atWork, quit := make(chan *batch[T, R], 2*workers), make(chan struct{}, workers), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(inOrder)
		for b := range inBatches[T, R](seq, size) {
			select {
			case inOrder <- b:
			case <-quit:
				return
			}
			atWork <- struct{}{}
			running.Go(func() {
				for _, v := range b.in {
					b.out = append(b.out, f(v))
				}
				close(b.done)
				<-atWork
			})
		}
	})
	b := &batch[T, R]{}
	next = func() (*R, error) {
		for len(b.out) == 0 {
			if b.err != nil {
				return nil, b.err
			}
			following, more := <-inOrder
			if !more {
				return nil, nil
			}
			<-following.done
			b = following
		}
		r := &b.out[0]
		b.out = b.out[1:]
		return r, nil
	}
	return next, sync.OnceFunc(func() { close(quit); running.Wait() })
}
