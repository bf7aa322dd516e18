package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
)

// proposals is a Sink that collects the next calls that were proposed.
type proposals struct {
	most int
	keys []message.Key
	seqs []uint64 // of their first event records
	end  func()   // called once there are most of them, or no more
	over bool
}

// Record implements message.Sink.
func (p *proposals) Record(r message.JournalEntry) {
	if p.over || r.Record == nil || r.Record.Call == nil || r.Record.Call.Records != 1 {
		return
	}
	p.keys, p.seqs = append(p.keys, r.Key), append(p.seqs, r.Seq)
	if len(p.keys) == p.most {
		p.stop()
	}
}

// CaughtUp implements message.Sink.
func (p *proposals) CaughtUp() { p.stop() }

func (p *proposals) stop() {
	if !p.over {
		p.over = true
		p.end()
	}
}

// errCollected ends a watch that has seen enough.
var errCollected = errors.New("enough was seen")

// listPast lists from the journal what the view has forgotten: the calls after
// the cursor in the order of their first event records, each as its last event record has it. A
// page costs as many reads as it names calls that are not at hand.
func (e *Engine) listPast(ctx context.Context, by message.Principal, r message.ListRequest) (message.ListReply, error) {
	page := &view.Page{Limit: r.Limit}
	for after := r.After; ; {
		seen := &proposals{most: r.Limit + 1}
		watching, stop := context.WithCancelCause(ctx)
		seen.end = func() { stop(errCollected) }
		err := e.journal.Watch(watching, after, seen)
		stop(errCollected)
		if !errors.Is(err, errCollected) {
			return message.ListReply{}, opError("list", err)
		}
		for i, key := range seen.keys {
			after = seen.seqs[i]
			c, err := e.store.CallOrNil(ctx, key)
			if err != nil {
				return message.ListReply{}, opError("list", err)
			}
			if c == nil || !view.IsListed(c, by, r) {
				continue
			}
			if !page.Add(c) {
				return page.Reply(), nil
			}
		}
		if len(seen.keys) < seen.most {
			return page.Reply(), nil
		}
	}
}
