package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
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
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, jsapi.GiveUpAfter)
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

// eachAtOnce calls f for 0 to n-1 from several goroutines, and returns the first error.
func eachAtOnce(ctx context.Context, goroutines, n int, f func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(goroutines, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(ctx, i); err != nil {
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// readSeqs reads the messages at these sorted sequences from any replica, without those that
// the stream lacks. Neighbours share a request.
func (rd reader) readSeqs(ctx context.Context, seqs []uint64) (map[uint64]stored, error) {
	runs := runsOf(seqs)
	out := make(map[uint64]stored, len(seqs))
	var mu sync.Mutex // guards out
	put := func(m stored) {
		mu.Lock()
		defer mu.Unlock()
		out[m.seq] = m
	}
	err := eachAtOnce(ctx, snapshotReaders, len(runs), func(ctx context.Context, i int) error {
		run := runs[i]
		if len(run) > 1 {
			all, err := rd.readBatch(ctx, ">", run[0], int(run[len(run)-1]-run[0])+1)
			if err != nil {
				return jsapi.Error("read records", fmt.Sprintf("records from %d", run[0]), err)
			}
			for _, m := range all {
				if _, wanted := slices.BinarySearch(run, m.seq); wanted {
					put(m)
				}
			}
		}
		for _, seq := range run { // read what the batch lacks: the replica was behind, or its answer was too long
			mu.Lock()
			_, have := out[seq]
			mu.Unlock()
			if have {
				continue
			}
			switch m, err := rd.getAny(ctx, seq); {
			case errors.Is(err, errNone):
			case err != nil:
				return jsapi.Error("read records", fmt.Sprintf("record %d", seq), err)
			default:
				put(m)
			}
		}
		return nil
	})
	return out, err
}

// runsOf divides sequences into runs of neighbours.
func runsOf(seqs []uint64) (runs [][]uint64) {
	for begin, i := 0, 0; i < len(seqs); i++ {
		if end := i + 1; end == len(seqs) || seqs[end]-seqs[i] > runGap || seqs[end]-seqs[begin] >= maxRun {
			runs, begin = append(runs, seqs[begin:end]), end
		}
	}
	return runs
}

// getAny reads one message from any replica, or from the leader if that replica lacks it.
func (rd reader) getAny(ctx context.Context, seq uint64) (stored, error) {
	if err := ctx.Err(); err != nil {
		return stored{}, err
	}
	if m := rd.askAny(ctx, getRequest{Seq: seq}); m.seq == seq {
		return m, nil
	}
	return rd.getSeq(ctx, seq)
}

// askAny asks any replica, which may be behind, for one message. The result has sequence 0
// if there is none.
func (rd reader) askAny(ctx context.Context, r getRequest) stored {
	ctx, cancel := context.WithTimeout(ctx, jsapi.AttemptTimeout)
	defer cancel()
	ask, err := strictjson.Marshal(r)
	if err != nil {
		return stored{}
	}
	m, err := rd.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+rd.stream, ask)
	if err != nil || lastHeader(m.Header, "Nats-Sequence") == "" {
		return stored{}
	}
	found, err := storedOf(m)
	if err != nil {
		return stored{}
	}
	return found
}

// visitRecords visits the records of the stream after one sequence and up to another.
func (rd reader) visitRecords(ctx context.Context, op string, after, through uint64, visit func(stored) error) error {
	for after < through {
		found, seen, err := rd.readPage(ctx, ">", after, maxPage)
		if err != nil {
			return jsapi.Error(op, "stream "+rd.stream, err)
		}
		for _, m := range found {
			if m.seq > through {
				return nil
			}
			if err := visit(m); err != nil {
				return err
			}
		}
		after = seen
	}
	return nil
}
