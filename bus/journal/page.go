package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// maxPage is the most records that one call of Read returns.
const maxPage = 1000

// batchRequest asks any replica for many messages; readPage adds those that a follower
// lacks.
type batchRequest struct {
	Seq     uint64 `json:"seq"`
	NextFor string `json:"next_by_subj"`
	Batch   int    `json:"batch"`
}

// readPage reads up to limit messages that match a filter, after a sequence. through is
// the last sequence that it covers: MaxUint64 at the end of the leader's stream.
func (rd reader) readPage(ctx context.Context, filter string, after uint64, limit int) (found []stored, through uint64, err error) {
	head, err := rd.next(ctx, filter, after)
	if errors.Is(err, errNone) {
		return nil, math.MaxUint64, nil
	}
	if err != nil {
		return nil, 0, err
	}
	found = []stored{head}
	if limit > 1 {
		more, err := rd.readBatch(ctx, filter, head.seq+1, limit-1)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, more...)
	}
	last := found[len(found)-1].seq
	if len(found) >= limit {
		return found, last, nil
	}
	// The batch ends where the filter ends, where a follower is behind, or at the
	// server's limit of bytes.
	switch tail, err := rd.next(ctx, filter, last); {
	case errors.Is(err, errNone):
		return found, math.MaxUint64, nil
	case err != nil:
		return nil, 0, err
	default:
		return append(found, tail), tail.seq, nil
	}
}

// readBatch reads several messages with one direct get.
func (rd reader) readBatch(ctx context.Context, filter string, from uint64, n int) ([]stored, error) {
	ask, err := strictjson.Marshal(batchRequest{Seq: from, NextFor: filter, Batch: n})
	if err != nil {
		return nil, err
	}
	ctx, cancel := jsapi.WithDefault(ctx, jsapi.GiveUpAfter)
	defer cancel()
	for pause := jsapi.FirstPause; ; pause = min(2*pause, electionPause) {
		out, err := rd.readBatchOnce(ctx, ask, n)
		if err == nil || rd.nc.IsClosed() || sleep.For(ctx, jsapi.RandomPause(pause)) != nil {
			return out, err
		}
	}
}

func (rd reader) readBatchOnce(ctx context.Context, ask []byte, n int) ([]stored, error) {
	ctx, cancel := context.WithTimeout(ctx, jsapi.AttemptTimeout)
	defer cancel()
	inbox := rd.nc.NewInbox()
	// SubscribeSync would take a stored message with a status header for the
	// server's status.
	answers := make(chan *nats.Msg, n+1)
	sub, err := rd.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a dead connection
	if err := rd.nc.PublishRequest("$JS.API.DIRECT.GET."+rd.stream, inbox, ask); err != nil {
		return nil, err
	}
	var out []stored
	last := uint64(0)
	for {
		var m *nats.Msg
		select {
		case m = <-answers:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if lastHeader(m.Header, "Nats-Sequence") == "" { // the server's own status: a stored message may also have a Status header
			if status := jsapi.OnlyHeader(m.Header, "Status"); status != "204" && status != "404" {
				return nil, fmt.Errorf("direct get: status %s %s", status, jsapi.OnlyHeader(m.Header, "Description"))
			}
			return out, nil // end of batch, or nothing found
		}
		s, err := storedOf(m)
		if err != nil {
			return nil, err
		}
		if before, err := strconv.ParseUint(lastHeader(m.Header, "Nats-Last-Sequence"), 10, 64); err != nil || before != last {
			return nil, fmt.Errorf("direct get: a message before %d was lost", s.seq)
		}
		out, last = append(out, s), s.seq
	}
}

// storedOf decodes one answer to a direct get.
func storedOf(m *nats.Msg) (stored, error) {
	seq, err := strconv.ParseUint(lastHeader(m.Header, "Nats-Sequence"), 10, 64)
	if err != nil {
		return stored{}, errors.New("direct get: an answer has no sequence")
	}
	at, err := time.Parse(time.RFC3339Nano, lastHeader(m.Header, "Nats-Time-Stamp"))
	if err != nil {
		return stored{}, errors.New("direct get: an answer has no time")
	}
	return stored{subject: lastHeader(m.Header, "Nats-Subject"), seq: seq, time: at, header: m.Header, data: m.Data}, nil
}

// lastHeader returns the last value of a header: the server appends its own after those of
// the stored message, which any client can choose.
func lastHeader(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// History implements engine.Journal. It includes everything acknowledged before
// the call.
func (j *Journal) History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error) {
	entity, err := j.codec.entityOf(key)
	if err != nil {
		return nil, err
	}
	return j.voids.readHistory(ctx, entity)
}

// Read implements engine.Journal; limit is at most 1000. Fewer records than the
// limit mean the journal's end. It uses no consumer: it costs one small request if there
// is nothing new, three if there is nothing new for this session.
//
// Records and events have different filters, which are read at the same time. The end of
// the stream is read first, so that the two results match.
func (j *Journal) Read(ctx context.Context, session toolcall.Key, after uint64, limit int) ([]toolcall.JournalEntry, uint64, error) {
	const op = "read session"
	if _, err := j.codec.entityOf(session.SessionKey()); err != nil {
		return nil, after, err
	}
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	end, err := j.store.readEnd(ctx)
	if err != nil {
		return nil, after, jsapi.Error(op, errtext.Quote(session.String()), err)
	}
	if end <= after {
		return nil, after, nil
	}
	var out []toolcall.JournalEntry
	in := j.voids.newOrder(after)
	for after < end && len(out) < limit {
		found, through, err := j.readPages(ctx, bus.Encode(string(session.Session)), after, limit-len(out))
		if err != nil {
			return nil, after, jsapi.Error(op, errtext.Quote(session.String()), err)
		}
		after = min(through, end)
		for _, m := range found {
			if m.seq > after {
				break
			}
			if j.guard.archives.isLeftOver(m.seq) {
				continue
			}
			r, err := in.decode(ctx, m)
			if err != nil {
				return nil, after, err
			}
			if out = append(out, r); len(out) == limit {
				return out, m.seq, nil
			}
		}
	}
	return out, after, nil
}

// readPages reads and merges records and events. Both are complete up to the returned
// sequence.
func (j *Journal) readPages(ctx context.Context, session bus.Token, after uint64, limit int) ([]stored, uint64, error) {
	filters := [2]string{bus.SessionFilter(j.space, session), bus.Subject{Space: j.space, Kind: bus.KindEvent, Session: session}.String()}
	var found [2][]stored
	var through [2]uint64
	var errs [2]error
	var wg sync.WaitGroup
	for i, f := range filters {
		wg.Go(func() { found[i], through[i], errs[i] = j.store.readPage(ctx, f, after, limit) })
	}
	wg.Wait()
	if err := errtext.Because(errs[0], errs[1]); err != nil {
		return nil, 0, err
	}
	all := append(found[0], found[1]...)
	slices.SortFunc(all, bySeq)
	return all, min(through[0], through[1]), nil
}
