package journal

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reader reads one stream of the space: its journal, or its checkpoints.
type reader struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream string
	lag    *lag // nil: not known
}

// lag is how far the leader of a replicated stream is behind what other servers delivered. An
// answer of a leader that is behind could undo what this process knows already.
type lag struct {
	on            atomic.Bool // the stream is replicated
	seen, reached atomic.Uint64
}

// noteSeen notes that a server has the record at seq.
func (rd reader) noteSeen(seq uint64) {
	if rd.lag != nil && rd.lag.on.Load() {
		raiseTo(&rd.lag.seen, seq)
	}
}

// noteReached notes that the leader has the record at seq.
func (rd reader) noteReached(seq uint64) {
	if rd.lag != nil {
		raiseTo(&rd.lag.reached, seq)
	}
}

// isBehind reports whether the leader may lack a record that was seen, and up to where.
func (rd reader) isBehind() (seen uint64, behind bool) {
	if rd.lag == nil {
		return 0, false
	}
	seen = rd.lag.seen.Load()
	return seen, rd.lag.reached.Load() < seen
}

func raiseTo(mark *atomic.Uint64, seq uint64) {
	for last := mark.Load(); seq > last && !mark.CompareAndSwap(last, seq); last = mark.Load() {
	}
}

var errNone = errors.New("no message found")

// getRequest asks the stream's leader for one message. A direct get may be answered by a
// follower, which can be behind.
type getRequest struct {
	Seq     uint64 `json:"seq,omitzero"`
	LastFor string `json:"last_by_subj,omitzero"`
	NextFor string `json:"next_by_subj,omitzero"`
}

type getReply struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

// get reads one message from the leader, and repeats the request until it is answered. It first
// waits until the leader has what other servers delivered.
func (rd reader) get(ctx context.Context, r getRequest) (stored, error) {
	ask, err := strictjson.Marshal(r)
	if err != nil {
		return stored{}, err
	}
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, jsapi.GiveUpAfter)
	defer cancel()
	if _, behind := rd.isBehind(); behind {
		_, _ = rd.lookUpStream(ctx) // it waits for the leader; the read below meets the same errors
	}
	for pause := jsapi.FirstPause; ; pause = min(2*pause, electionPause) {
		m, err := rd.getOnce(ctx, ask)
		rd.noteReached(m.seq)
		if err == nil || !canRetryRead(err) || rd.nc.IsClosed() || sleep.For(ctx, jsapi.RandomPause(pause)) != nil {
			return m, err
		}
	}
}

func canRetryRead(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return jsapi.IsTransient(int(api.ErrorCode))
	}
	return !errors.Is(err, errNone) && !errors.Is(err, errGarbled)
}

var errGarbled = errors.New("the server's reply is unreadable")

func (rd reader) getOnce(ctx context.Context, ask []byte) (stored, error) {
	ctx, cancel := context.WithTimeout(ctx, jsapi.AttemptTimeout)
	defer cancel()
	reply, err := rd.requestUntilAnswered(ctx, "$JS.API.STREAM.MSG.GET."+rd.stream, ask)
	if err != nil {
		return stored{}, err
	}
	var r getReply
	if err := strictjson.UnmarshalOpen(reply.Data, &r, strictjson.MaxBytes(jsapi.MaxMessageBytes)); err != nil {
		return stored{}, errtext.Because(errGarbled, err)
	}
	switch {
	case r.Error != nil && r.Error.ErrorCode == jsapi.CodeNoMessage:
		return stored{}, errNone
	case r.Error != nil:
		return stored{}, r.Error
	case r.Message == nil:
		return stored{}, errGarbled
	}
	m := stored{subject: r.Message.Subject, seq: r.Message.Seq, time: r.Message.Time, data: r.Message.Data}
	if len(r.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(r.Message.Header); err != nil {
			m.header = nil // no engine wrote a message without readable headers
		}
	}
	return m, nil
}

// requestUntilAnswered sends a read-only request, again and again until one of them is
// answered.
func (rd reader) requestUntilAnswered(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	first, cancel := context.WithTimeout(ctx, readAgain)
	reply, err := rd.nc.RequestWithContext(first, subject, body)
	silent := first.Err() != nil && ctx.Err() == nil
	cancel()
	if err == nil || !silent {
		return reply, err
	}
	type answer struct {
		m   *nats.Msg
		err error
	}
	answers := make(chan answer, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	again := time.NewTicker(readAgain)
	defer again.Stop()
	for {
		go func() {
			m, err := rd.nc.RequestWithContext(ctx, subject, body)
			select {
			case answers <- answer{m, err}:
			case <-ctx.Done():
			}
		}()
		select {
		case a := <-answers:
			return a.m, a.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-again.C:
		}
	}
}

// streamInfo returns the stream's state, or nil if there is no such stream.
func (rd reader) streamInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	st, err := rd.lookUpStream(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil
	case isOffline(err):
		return nil, &message.Error{Code: message.CodeDamaged, Op: "check journal", What: "the server does not serve the stream " + rd.stream + " because it cannot read its files",
			Hint: "nothing runs on it: inspect it with askance journal check, repair its files with askance journal accept-loss, or restore a backup", Err: err}
	case err != nil:
		return nil, jsapi.Error("check journal", "stream "+rd.stream, err)
	}
	return st.CachedInfo(), nil
}

// lookUpStream asks for the stream's info until a server answers: during an election, none
// does. It waits a while for a leader that is behind, but only once: records that it lacks for
// longer can be lost, and the examination that finds this must not wait for them.
func (rd reader) lookUpStream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, jsapi.GiveUpAfter)
	defer cancel()
	seen, _ := rd.isBehind()
	for began := time.Now(); ; {
		one, end := context.WithTimeout(ctx, jsapi.AttemptTimeout)
		st, err := rd.js.Stream(one, rd.stream)
		end()
		if err == nil && rd.lag != nil {
			info := st.CachedInfo()
			rd.noteReached(info.State.LastSeq)
			if info.Config.Replicas > 1 {
				rd.lag.on.Store(true)
			}
			if reached := rd.lag.reached.Load(); reached < seen {
				if time.Since(began) < jsapi.AttemptTimeout && sleep.For(ctx, jsapi.FirstPause) == nil {
					continue
				}
				rd.lag.seen.CompareAndSwap(seen, reached)
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return st, err
		}
	}
}

// isOffline reports whether the server stopped a stream because it cannot read its
// files.
func isOffline(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == streamOffline
}

// streamOffline is the server's error code for such a stream.
const streamOffline = 10194

// leaderInfo returns the stream's info from its leader. Unlike streamInfo, it fails if
// the stream is missing.
func (rd reader) leaderInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	st, err := rd.lookUpStream(ctx)
	if err != nil {
		return nil, jsapi.Error("look at journal", "stream "+rd.stream, err)
	}
	return st.CachedInfo(), nil
}

func (rd reader) getSeq(ctx context.Context, seq uint64) (stored, error) {
	return rd.get(ctx, getRequest{Seq: seq})
}

// next returns the first message after a sequence that matches the filter.
func (rd reader) next(ctx context.Context, filter string, after uint64) (stored, error) {
	return rd.get(ctx, getRequest{Seq: after + 1, NextFor: filter})
}

// readEnd returns the sequence of the stream's last message, or 0 if it has none.
func (rd reader) readEnd(ctx context.Context) (uint64, error) {
	m, err := rd.get(ctx, getRequest{LastFor: ">"})
	if !errors.Is(err, errNone) {
		return m.seq, err
	}
	st, err := rd.js.Stream(ctx, rd.stream) // empty, or the last message was deleted
	if err != nil {
		return 0, err
	}
	return st.CachedInfo().State.LastSeq, nil
}
