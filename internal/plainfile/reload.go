package plainfile

import (
	"context"
	"sync"
	"time"
)

// Reloader follows files that change while a program runs. It runs one reload at a time,
// remembers the last error, and reports changes. The caller decides what a reload puts in
// force. The zero value reports nothing.
type Reloader struct {
	// Report is called with each error that differs from the previous one, and with nil when
	// a reload succeeds after an error. It must not reload.
	Report func(error)

	reload sync.Mutex // serializes reloads and their reports

	mu    sync.Mutex // guards what follows
	fault error
	since time.Time
}

// Reload calls a function that reads the files again, and returns its error. An error after
// ctx has ended is not the fault of the files and is not remembered.
func (r *Reloader) Reload(ctx context.Context, reload func(context.Context) error) error {
	r.reload.Lock()
	defer r.reload.Unlock()
	err := reload(ctx)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if r.record(err) && r.Report != nil {
		r.Report(err)
	}
	return err
}

// record reports whether the outcome of a reload differs from the previous one.
func (r *Reloader) record(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.fault
	if err != nil && before == nil {
		r.since = time.Now()
	}
	r.fault = err
	return (before == nil) != (err == nil) || err != nil && before.Error() != err.Error()
}

// Watch calls Reload at each interval until ctx ends.
func (r *Reloader) Watch(ctx context.Context, every time.Duration, reload func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = r.Reload(ctx, reload) // remembered for Fault
		}
	}
}

// Fault returns why the last reload failed, and since when reloads have failed, or nil if it
// succeeded.
func (r *Reloader) Fault() (since time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since, r.fault
}
