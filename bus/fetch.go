package bus

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// fetcher requests tasks for all free slots of a worker, one request at a time. Slots
// that become free meanwhile are counted in the next request: until the last task of a
// request has arrived, the next task finds a free slot.
type fetcher struct {
	w *Worker

	mu      sync.Mutex     // guards all below
	waiting []chan fetched // free slots, the oldest first
	running bool
	alone   chan struct{} // closed when no slot waits; nil: not running
}

// fetched is what a slot gets.
type fetched struct {
	reply NextReply
	err   error
}

// next waits for a task until ctx ends. It may return a task even if ctx has ended.
func (f *fetcher) next(ctx context.Context) (NextReply, error) {
	slot := make(chan fetched, 1)
	f.mu.Lock()
	f.waiting = append(f.waiting, slot)
	if !f.running {
		f.running = true
		go f.run()
	}
	f.mu.Unlock()
	select {
	case got := <-slot:
		return got.reply, got.err
	case <-ctx.Done():
	}
	if f.removeSlot(slot) {
		return NextReply{}, context.Cause(ctx)
	}
	got := <-slot
	return got.reply, got.err
}

// removeSlot removes a waiting slot. It returns false if the slot already got something.
func (f *fetcher) removeSlot(slot chan fetched) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.waiting, slot)
	if i < 0 {
		return false
	}
	f.waiting = slices.Delete(f.waiting, i, i+1)
	if len(f.waiting) == 0 && f.alone != nil {
		close(f.alone)
		f.alone = nil
	}
	return true
}

// run requests tasks while slots wait.
func (f *fetcher) run() {
	for {
		f.mu.Lock()
		slots, alone := len(f.waiting), make(chan struct{})
		f.running, f.alone = slots > 0, nil
		if f.running {
			f.alone = alone
		}
		f.mu.Unlock()
		if slots == 0 {
			return
		}
		if err := f.requestTasks(min(slots, maxBatch), alone); err != nil {
			f.failSlots(err)
		}
	}
}

// giveToSlot gives got to the oldest waiting slot. It returns false if no slot waits.
func (f *fetcher) giveToSlot(got fetched) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		return false
	}
	f.waiting[0] <- got
	f.waiting = slices.Delete(f.waiting, 0, 1)
	return true
}

// failSlots gives the error to all waiting slots. Each decides when to ask again.
func (f *fetcher) failSlots(err error) {
	for f.giveToSlot(fetched{err: err}) {
	}
}

// requestTasks makes one request for tasks. When it unsubscribes from its inbox, the engine
// is told "no responders" and releases the tasks that it has just sent.
func (f *fetcher) requestTasks(tasks int, alone <-chan struct{}) error {
	w := f.w
	data, err := encodeRequest(opNext.Name, NextRequest{V: ProtocolVersion, WaitMS: holdFor.Milliseconds(), Batch: tasks})
	if err != nil {
		return err
	}
	before, subject := w.nc.LastError(), w.subjectOf(KindNext)
	p, err := jsapi.StartPulling(w.nc, subject, data, tasks)
	if err != nil {
		return err
	}
	defer p.End(w.releaseTask)
	silence := time.NewTimer(hearGone) // a refusal by NATS arrives earlier
	heard := time.Now()
	defer silence.Stop()
	for tasks > 0 {
		select {
		case m := <-p.Replies:
			got, err := decodeNextReply(m)
			switch {
			case errors.Is(err, errNoTask):
				return nil
			case err != nil:
				return err
			case got.State == TaskHere:
				tasks--
				if !f.giveToSlot(fetched{reply: got}) {
					w.releaseTask(m)
				}
			}
			silence.Reset(jsapi.MaxSilence)
			heard = time.Now()
		case <-silence.C:
			if err := newViolation(w.nc, before, subject, p.Inbox); err != nil {
				return forbiddenError(opNext.Name, toolcall.RoleWorker, err)
			}
			if rest := jsapi.MaxSilence - time.Since(heard); rest > 0 {
				silence.Reset(rest)
				continue
			}
			return errors.New("the engine is silent")
		case <-p.Lost:
			return nats.ErrDisconnected
		case <-alone:
			return nil
		}
	}
	return nil
}
