package bus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// maxPage is the most records that one call of Read returns.
const maxPage = 1000

// batchRequest asks for many messages in one request. Any replica may answer
// it, so what comes back may lack the newest; page makes up for that.
type batchRequest struct {
	Seq     uint64 `json:"seq"`
	NextFor string `json:"next_by_subj"`
	Batch   int    `json:"batch"`
}

// page reads up to limit messages of a filter after a sequence. Everything up
// to through has been seen: MaxUint64 when there was nothing more at the leader.
func (j *Journal) page(ctx context.Context, filter string, after uint64, limit int) (found []stored, through uint64, err error) {
	head, err := j.next(ctx, filter, after)
	if errors.Is(err, errNone) {
		return nil, math.MaxUint64, nil
	}
	if err != nil {
		return nil, 0, err
	}
	found = []stored{head}
	if limit > 1 {
		more, err := j.batch(ctx, filter, head.seq+1, limit-1)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, more...)
	}
	last := found[len(found)-1].seq
	if len(found) >= limit {
		return found, last, nil
	}
	// The batch ended: at the end of the filter, or where a follower is behind,
	// or at the server's limit of bytes.
	switch tail, err := j.next(ctx, filter, last); {
	case errors.Is(err, errNone):
		return found, math.MaxUint64, nil
	case err != nil:
		return nil, 0, err
	default:
		return append(found, tail), tail.seq, nil
	}
}

// batch is one direct get of several messages.
func (j *Journal) batch(ctx context.Context, filter string, from uint64, n int) ([]stored, error) {
	ask, err := strictjson.Marshal(batchRequest{Seq: from, NextFor: filter, Batch: n})
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDefault(ctx, giveUpAfter)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		out, err := j.batchOnce(ctx, ask, n)
		if err == nil || j.nc.IsClosed() || !sleep(ctx, jitter(pause)) {
			return out, err
		}
	}
}

func (j *Journal) batchOnce(ctx context.Context, ask []byte, n int) ([]stored, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	inbox := j.nc.NewInbox()
	// Not SubscribeSync: it takes a stored message with a status header for the
	// server's status.
	answers := make(chan *nats.Msg, n+1)
	sub, err := j.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a dead connection
	if err := j.nc.PublishRequest("$JS.API.DIRECT.GET."+j.stream, inbox, ask); err != nil {
		return nil, err
	}
	var out []stored
	for {
		var m *nats.Msg
		select {
		case m = <-answers:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if last(m.Header, "Nats-Sequence") == "" { // the server's own word: a stored message may have a Status header, too
			if status := first(m.Header, "Status"); status != "204" && status != "404" {
				return nil, fmt.Errorf("direct get: status %s %s", status, first(m.Header, "Description"))
			}
			return out, nil // end of batch, or nothing found
		}
		s, err := storedOf(m)
		if err != nil {
			return nil, err
		}
		if before, err := strconv.ParseUint(last(m.Header, "Nats-Last-Sequence"), 10, 64); err != nil || before != lastSeq(out) {
			return nil, fmt.Errorf("direct get: a message before %d was lost", s.seq)
		}
		out = append(out, s)
	}
}

func lastSeq(s []stored) uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].seq
}

// storedOf takes apart the answer of a direct get.
func storedOf(m *nats.Msg) (stored, error) {
	seq, err := strconv.ParseUint(last(m.Header, "Nats-Sequence"), 10, 64)
	if err != nil {
		return stored{}, fmt.Errorf("direct get: an answer has no sequence")
	}
	at, err := time.Parse(time.RFC3339Nano, last(m.Header, "Nats-Time-Stamp"))
	if err != nil {
		return stored{}, fmt.Errorf("direct get: an answer has no time")
	}
	return stored{subject: last(m.Header, "Nats-Subject"), seq: seq, time: at, header: m.Header, data: m.Data}, nil
}

// last is the last value of a header: the server adds its own after those of
// the stored message, which anybody may have written.
func last(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// History implements engine.Journal. It misses nothing that was acknowledged
// before the call.
func (j *Journal) History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error) {
	entity, err := j.entityOf(key)
	if err != nil {
		return nil, err
	}
	var out []toolcall.JournalEntry
	for after := uint64(0); after != math.MaxUint64; {
		found, through, err := j.page(ctx, string(entity), after, maxPage)
		if err != nil {
			return nil, apiError("read history", errtext.Quote(key.String()), err)
		}
		for _, m := range found {
			out = append(out, j.record(m))
		}
		after = through
	}
	return out, nil
}

// Read implements engine.Journal; limit is at most 1000. Fewer records than
// the limit mean that the journal's end was reached. It costs one small
// request while the journal has nothing new at all, two more while it has
// nothing new for this session, and no consumer ever.
//
// The records of a session stand under two filters, which are read one beside
// the other. The end of the stream is asked for first: what is newer is left
// to the next call, so that nothing can slip in between the two readings.
func (j *Journal) Read(ctx context.Context, session toolcall.Key, after uint64, limit int) ([]toolcall.JournalEntry, uint64, error) {
	const op = "read session"
	if _, err := j.entityOf(session.SessionKey()); err != nil {
		return nil, after, err
	}
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	end, err := j.end(ctx)
	if err != nil {
		return nil, after, apiError(op, errtext.Quote(session.String()), err)
	}
	if end <= after {
		return nil, after, nil
	}
	var out []toolcall.JournalEntry
	for after < end && len(out) < limit {
		found, through, err := j.pages(ctx, Encode(string(session.Session)), after, limit-len(out))
		if err != nil {
			return nil, after, apiError(op, errtext.Quote(session.String()), err)
		}
		after = min(through, end)
		for _, m := range found {
			if m.seq > after {
				break
			}
			if out = append(out, j.record(m)); len(out) == limit {
				return out, m.seq, nil
			}
		}
	}
	return out, after, nil
}

// pages reads event records and events side by side and merges them. Both were seen up
// to through.
func (j *Journal) pages(ctx context.Context, session Token, after uint64, limit int) ([]stored, uint64, error) {
	filters := [2]string{sessionRecordsFilter(j.space, session), sessionEventsFilter(j.space, session)}
	var found [2][]stored
	var through [2]uint64
	var errs [2]error
	var wg sync.WaitGroup
	for i, f := range filters {
		wg.Go(func() { found[i], through[i], errs[i] = j.page(ctx, f, after, limit) })
	}
	wg.Wait()
	if err := errtext.Because(errs[0], errs[1]); err != nil {
		return nil, 0, err
	}
	all := append(found[0], found[1]...)
	slices.SortFunc(all, func(a, b stored) int { return int(int64(a.seq) - int64(b.seq)) })
	return all, min(through[0], through[1]), nil
}
