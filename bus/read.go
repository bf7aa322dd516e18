package bus

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// errNone: the stream has no such message.
var errNone = errors.New("no message found")

// getRequest asks for one stored message. The stream's leader alone answers
// it, so what comes back is no older than the approval request. (Direct gets, which
// nats.go uses by itself, may be answered by a follower that is behind.)
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

// get reads one message from the leader, asking again while there is none.
func (j *Journal) get(ctx context.Context, r getRequest) (stored, error) {
	ask, err := strictjson.Marshal(r)
	if err != nil {
		return stored{}, err
	}
	ctx, cancel := withDefault(ctx, giveUpAfter)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		m, err := j.getOnce(ctx, ask)
		if err == nil || !retryRead(err) || j.nc.IsClosed() || !sleep(ctx, jitter(pause)) {
			return m, err
		}
	}
}

// retryRead reports whether a read may succeed if asked again.
func retryRead(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return transientCode(int(api.ErrorCode))
	}
	return !errors.Is(err, errNone) && !errors.Is(err, errGarbled)
}

// errGarbled: an answer that is none.
var errGarbled = errors.New("the server's answer cannot be read")

func (j *Journal) getOnce(ctx context.Context, ask []byte) (stored, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	reply, err := j.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+j.stream, ask)
	if err != nil {
		return stored{}, err
	}
	var r getReply
	if err := strictjson.UnmarshalOpen(reply.Data, &r, strictjson.MaxBytes(maxStoredBytes)); err != nil {
		return stored{}, errtext.Because(errGarbled, err)
	}
	switch {
	case r.Error != nil && r.Error.ErrorCode == codeNoMessage:
		return stored{}, errNone
	case r.Error != nil:
		return stored{}, r.Error
	case r.Message == nil:
		return stored{}, errGarbled
	}
	m := stored{subject: r.Message.Subject, seq: r.Message.Seq, time: r.Message.Time, data: r.Message.Data}
	if len(r.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(r.Message.Header); err != nil {
			m.header = nil // a message without readable headers is not one of ours
		}
	}
	return m, nil
}

func (j *Journal) getSeq(ctx context.Context, seq uint64) (stored, error) {
	return j.get(ctx, getRequest{Seq: seq})
}

// next is the first message after a sequence that matches the filter.
func (j *Journal) next(ctx context.Context, filter string, after uint64) (stored, error) {
	return j.get(ctx, getRequest{Seq: after + 1, NextFor: filter})
}

// Head is the sequence of the journal's last record, 0 if it has none. Watch
// after it delivers what comes from now on.
func (j *Journal) Head(ctx context.Context) (uint64, error) {
	seq, err := j.end(ctx)
	if err != nil {
		return 0, apiError("read the journal's end", "stream "+j.stream, err)
	}
	return seq, nil
}

// end is the sequence of the stream's last message, 0 if it has none.
func (j *Journal) end(ctx context.Context) (uint64, error) {
	m, err := j.get(ctx, getRequest{LastFor: ">"})
	if !errors.Is(err, errNone) {
		return m.seq, err
	}
	st, err := j.js.Stream(ctx, j.stream) // empty, or the last message was deleted
	if err != nil {
		return 0, err
	}
	return st.CachedInfo().State.LastSeq, nil
}

// tailState is what follows a sequence in an entity.
type tailState struct {
	own     uint64 // the event record with the given id
	other   uint64 // the first event record that is not it
	foreign uint64 // the last message that no engine wrote
}

// tail looks at everything that follows prev in the entity, up to the first
// event record: of those, only the first can have been written after prev.
func (j *Journal) tail(ctx context.Context, entity Entity, prev uint64, id string) (tailState, error) {
	var t tailState
	for at := prev; ; {
		m, err := j.next(ctx, string(entity), at)
		if errors.Is(err, errNone) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		at = m.seq
		switch r := j.record(m); {
		case r.Invalid != nil && !unreadable(r):
			t.foreign = m.seq
		case r.Record != nil && r.Record.ID == id:
			t.own = m.seq
			return t, nil
		default:
			t.other = m.seq
			return t, nil
		}
	}
}

// Last implements engine.Journal. It asks the stream's leader. Messages behind
// the last event record that no engine wrote are passed over. If the last event record is one
// that this version cannot read the error is ErrUnavailable: another engine may
// be able to.
func (j *Journal) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	const op = "read last event record"
	entity, err := j.entityOf(key)
	if err != nil {
		return toolcall.JournalEntry{}, err
	}
	m, err := j.get(ctx, getRequest{LastFor: string(entity)})
	if err == nil {
		r := j.record(m)
		switch {
		case unreadable(r):
			return toolcall.JournalEntry{}, r.Invalid
		case r.Invalid == nil && r.Key == key:
			return r, nil
		}
		return j.lastValid(ctx, key)
	}
	if errors.Is(err, errNone) {
		if err := j.confirmCount(ctx); err != nil {
			return toolcall.JournalEntry{}, err
		}
		return toolcall.JournalEntry{}, unknownKey(op, key)
	}
	return toolcall.JournalEntry{}, apiError(op, errtext.Quote(key.String()), err)
}

// lastValid is Last the long way.
func (j *Journal) lastValid(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	all, err := j.History(ctx, key)
	if err != nil {
		return toolcall.JournalEntry{}, err
	}
	for _, r := range slices.Backward(all) {
		switch {
		case unreadable(r):
			return toolcall.JournalEntry{}, r.Invalid
		case r.Invalid == nil:
			return r, nil
		}
	}
	return toolcall.JournalEntry{}, unknownKey("read last event record", key)
}

func unknownKey(op string, key toolcall.Key) error {
	return &message.Error{Code: message.CodeNotFound, Op: op, What: "nothing is known of " + errtext.Quote(key.String()), Hint: "check space, session, reply and call"}
}

func (j *Journal) entityOf(key toolcall.Key) (Entity, error) {
	entity, err := EntityOf(key)
	if err == nil && key.Space != j.space {
		err = unknownKey("find entity", key)
	}
	return entity, err
}
