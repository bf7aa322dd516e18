package bus

import (
	"context"
	"time"
)

// Pace says how often Ledger.Run signs.
type Pace struct {
	// Every is how old an unsigned record may become. Default: a minute.
	Every time.Duration
	// Records is after how many records it signs all the same. Default: 1024.
	Records int
}

const (
	lookEvery = 5 * time.Second
	// sealPause lets the calls have the machine when much has to be signed, as
	// when the first ledger of an old journal is made: at most about 40,000
	// records a second.
	sealPause = 100 * time.Millisecond
)

func (p Pace) withDefaults() Pace {
	if p.Every <= 0 {
		p.Every = time.Minute
	}
	if p.Records <= 0 {
		p.Records = 1024
	}
	return p
}

// Run signs the journal as it grows, until ctx ends; it returns the cause. It
// stands beside the calls: none waits for it, and what goes wrong is logged and
// tried again. Several engines may run it: whoever comes first writes.
func (l *Ledger) Run(ctx context.Context, p Pace) error {
	p = p.withDefaults()
	look := min(lookEvery, p.Every)
	for {
		due, err := l.due(ctx, p)
		if err == nil && due {
			_, err = l.cover(ctx, sealPause)
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn("no checkpoint of the journal could be signed; it will be tried again", "err", err)
		}
		if !sleep(ctx, jitter(look)) {
			return context.Cause(ctx)
		}
	}
}

// due reports whether it is time to sign. The ledger is read only if it seems
// so by what is known here.
func (l *Ledger) due(ctx context.Context, p Pace) (bool, error) {
	state, err := l.j.state(ctx)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.due(l.last, state.LastSeq) {
		return false, nil
	}
	if err = l.refresh(ctx); err != nil {
		return false, err
	}
	return p.due(l.last, state.LastSeq), nil
}

func (p Pace) due(last newest, end uint64) bool {
	if end <= last.to() {
		return false
	}
	return last.checkpoint == nil || end-last.to() >= uint64(p.Records) || time.Since(last.checkpoint.At) >= p.Every
}
