package engine

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Bounds of a list of finished calls, newest first.
const (
	newestTime  = time.Second      // how long a page searches for matching calls
	leastWindow = 1 << 10          // sequences read at a time
	mostWindow  = 1 << 12          // the same, after windows with too few calls
	clockMargin = 10 * time.Minute // by which the clocks of engines may differ
)

// listNewest lists finished calls, latest first: from memory as far as that reaches, then
// from the journal. The cursor is the sequence at which a call ended, which never changes,
// so calls that finish meanwhile do not shift the list. A page may be short, or even empty,
// and still have a next page.
func (q *reader) listNewest(ctx context.Context, by toolcall.Principal, r toolcall.ListRequest) (toolcall.ListReply, error) {
	if r.Sort != "" || r.Cursor != "" {
		return toolcall.ListReply{}, &message.Error{Code: message.CodeInvalid, What: "newest cannot be combined with sort", Hint: "leave out sort and cursor, and continue with after"}
	}
	if r.Mine {
		return toolcall.ListReply{Calls: []*toolcall.Call{}}, nil // calls that wait for a person are open
	}
	r.All = true
	list, err := q.newList(ctx, by, r)
	if err != nil {
		return toolcall.ListReply{}, err
	}
	page := &view.Page{Limit: r.Limit}
	before := cmp.Or(r.After, math.MaxUint64)
	add := func(seq uint64, c *toolcall.Call) (next uint64) {
		if list.Has(c) && !page.Add(c) {
			return seq + 1
		}
		return 0
	}
	_, _, last := q.view.EndedBefore(1)
	if err := q.store.WaitForSequence(ctx, last); err != nil { // a reader must see what it has caused
		return toolcall.ListReply{}, err
	}
	ended, floor, _ := q.view.EndedBefore(before)
	for _, e := range ended {
		if next := add(e.Seq, q.clocks.Mark(e.Call)); next != 0 {
			return page.Newest(next), nil
		}
	}
	began := time.Now()
	end, size := min(before, floor+1), uint64(leastWindow)
	for end > 1 {
		w := &window{end: end, after: end - min(end, size), most: r.Limit + 1, wants: list.Has}
		if err := w.read(ctx, q.journal); err != nil {
			return toolcall.ListReply{}, err
		}
		for i, c := range slices.Backward(w.calls) {
			if next := add(w.seqs[i], c); next != 0 {
				return page.Newest(next), nil
			}
		}
		end = w.after + 1
		if !r.Since.IsZero() && w.first.Before(r.Since.Add(-clockMargin)) {
			break // calls that ended earlier were proposed earlier
		}
		if end > 1 && time.Since(began) > newestTime {
			return page.Newest(end), nil
		}
		size = min(2*size, mostWindow)
	}
	return page.Newest(0), nil
}

// window collects the last matching calls that ended at a sequence above after and below
// end. It is a Sink.
type window struct {
	after, end uint64
	most       int
	wants      func(*toolcall.Call) bool
	first      time.Time // when the first record was stored

	calls []*toolcall.Call
	seqs  []uint64
	over  bool
	stop  func()
}

func (w *window) read(ctx context.Context, j Journal) error {
	watching, stop := context.WithCancelCause(ctx)
	w.stop = func() { w.over = true; stop(errCollected) }
	err := j.Watch(watching, w.after, w)
	stop(errCollected)
	if !errors.Is(err, errCollected) {
		return err
	}
	return nil
}

// Wants implements toolcall.ChoosySink.
func (w *window) Wants(seq uint64, _ string, stored time.Time) bool {
	if w.first.IsZero() {
		w.first = stored
	}
	if seq >= w.end && !w.over {
		w.stop()
	}
	return !w.over
}

// Record implements toolcall.Sink.
func (w *window) Record(r toolcall.JournalEntry) {
	if w.over {
		return
	}
	if rec := r.Record; rec != nil && rec.Call != nil && rec.Note == nil && !rec.Call.Open() {
		rec.Call.At(r.Seq)
		if w.wants(rec.Call) {
			w.calls, w.seqs = append(w.calls, rec.Call), append(w.seqs, r.Seq)
			if extra := len(w.calls) - w.most; extra > 0 {
				w.calls, w.seqs = slices.Delete(w.calls, 0, extra), slices.Delete(w.seqs, 0, extra)
			}
		}
	}
	if r.Seq+1 >= w.end {
		w.stop()
	}
}

// CaughtUp implements toolcall.Sink.
func (w *window) CaughtUp() {
	if !w.over {
		w.stop()
	}
}
