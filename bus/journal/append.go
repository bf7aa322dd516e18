package journal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// electionPause limits the pause while a stream may have no leader: clients wait for
	// the election and for what is left of the pause.
	electionPause = 250 * time.Millisecond
	// readAgain is how long a read waits before it is sent again: until they elect a new
	// leader, servers leave the answer to one that is dead.
	readAgain = 500 * time.Millisecond
	// headerRoom is more than the headers of an event record need.
	headerRoom = 4 << 10
	// wholeFactor is an upper bound of a call's size divided by that of its record and
	// input: a call has the input twice, with quotes escaped, and what earlier records have.
	wholeFactor = 8
)

// Append implements engine.Journal. Until it gets an acknowledgement, it repeats the
// publish under the same id, until ctx ends, or for ten seconds if ctx has no deadline.
//
// A sequence and ErrConflict are certain. After ErrFull, ErrTooLarge and
// ErrUnavailable nothing was written. ErrUnknownOutcome, which can also follow a
// cancelled ctx, means that the event record may be stored.
func (j *Journal) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	if err := j.guard.checkWritable(); err != nil {
		return 0, err
	}
	if err := j.chain.linkRecord(ctx, rec, prev); err != nil {
		return 0, err
	}
	a, err := j.newAppend(ctx, rec, prev)
	if err != nil {
		return 0, err
	}
	defer a.msg.returnToPool()
	if isForNewCalls(rec, prev) {
		if err := j.room.check(ctx); err != nil {
			return 0, a.newError(message.CodeFull, "the store has too little room left: new calls are refused", "let open calls finish, then make room: "+growHint, err)
		}
	}
	if err := a.checkArchived(ctx); err != nil {
		return 0, err
	}
	seq, err := a.run(ctx)
	if err == nil {
		j.room.noteWritten(len(a.msg.Data) + len(a.msg.Subject) + headerRoom/8)
	}
	return seq, err
}

// checkArchived refuses to begin a call or reply that was archived.
func (a *appending) checkArchived(ctx context.Context) error {
	if a.prev > 0 {
		return nil
	}
	g := a.j.guard
	a.checked = time.Now()
	if err := g.learnArchives(ctx); err != nil {
		return a.newError(message.AsError("", err).Code, "nothing was written: it is not known whether the call was archived", "check that NATS runs with JetStream", err)
	}
	return g.archives.check(a.opName, a.key)
}

// isForNewCalls reports whether an event record begins a call or prepares one.
func isForNewCalls(rec *toolcall.EventRecord, prev uint64) bool {
	return rec.Call != nil && prev == 0 || rec.Session != nil || rec.Budget != nil
}

const (
	growHint    = "free disk space, or raise the stream's max_bytes or the server's store limit"
	restartHint = "free disk space; an embedded server then restarts, restart any other server yourself"
)

// appending is one event record on its way to the stream.
type appending struct {
	j      *Journal
	record *toolcall.EventRecord
	key    toolcall.Key
	prev   uint64 // the entity's last event record, as the caller believes
	entity bus.Entity
	base   *toolcall.RecordBase // that the record builds on; nil: it has the whole call
	next   *toolcall.RecordBase // on which the next one builds; nil: it is of no call
	msg    *recordMsg
	// checked is when the last look for an archive of the call began; zero: no engine runs.
	checked time.Time
	// unsure: a publish got no answer. staged: neither did the batch that had it.
	unsure, staged bool
}

func (j *Journal) newAppend(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (*appending, error) {
	a := &appending{j: j, record: rec, key: rec.Key(), prev: prev}
	subject, err := bus.RecordSubject(a.key, rec.WorkQueue())
	if err == nil && a.key.Space != j.space {
		err = &message.Error{Code: message.CodeInvalid, What: "it belongs to the space " + errtext.Quote(string(a.key.Space)) + ", but this is the journal of " + string(j.space)}
	}
	if err == nil && !bus.IsPlain(rec.ID) {
		err = &message.Error{Code: message.CodeInvalid, What: "its id " + errtext.Quote(rec.ID) + " is not 1 to 64 of A-Z a-z 0-9 _ -"}
	}
	if err != nil {
		return nil, a.newError(message.CodeInvalid, "the event record cannot be stored", "", err)
	}
	a.entity = subject.Entity()
	if rec.Call != nil && prev > 0 {
		a.base = toolcall.BaseFor(rec, j.baseBefore(ctx, a.entity, prev))
	}
	body, next, err := toolcall.EncodeAndRead(rec, a.base) // an unreadable record would block its entity
	if err != nil {
		e := message.AsError("", err)
		return nil, a.newError(e.Code, e.What, e.Hint, e.Err)
	}
	if most := j.store.nc.MaxPayload(); int64(len(body)+headerRoom) > most {
		return nil, a.newError(message.CodeTooLarge, fmt.Sprintf("the event record has %d bytes, the server accepts %d with headers", len(body), most), "use a smaller input or result, or raise the server's max_payload", nil)
	}
	if err := a.checkShownWhole(len(body)); err != nil {
		return nil, err
	}
	a.next = next
	a.msg = recordMsgs.Get().(*recordMsg)
	a.msg.fillRecord(rec, subject.String(), a.entity, body, a.base)
	a.msg.setPredecessor(j.codec.keys, prev)
	return a, nil
}

// checkShownWhole refuses a call that is too large to be sent whole to an approver or as a
// task. stored is the size of its record.
func (a *appending) checkShownWhole(stored int) error {
	most := a.j.store.nc.MaxPayload()
	c := a.record.Call
	if c == nil || int64(stored+len(c.Input)+len(c.Votes)<<10) < most/wholeFactor {
		return nil
	}
	whole, err := strictjson.Marshal(a.record)
	if err != nil {
		return a.newError(message.CodeInvalid, "the event record has no JSON form", "use valid UTF-8 and finite numbers", err)
	}
	if int64(len(whole)+headerRoom) > most {
		return a.newError(message.CodeTooLarge, fmt.Sprintf("the whole call has %d bytes, the server accepts %d with headers", len(whole), most), "use a smaller input or result, or raise the server's max_payload", nil)
	}
	return nil
}

// baseBefore returns the record at prev as a base, or nil if it cannot be read: the new
// record then has the whole call.
func (j *Journal) baseBefore(ctx context.Context, entity bus.Entity, prev uint64) *toolcall.RecordBase {
	base, err := j.codec.baseAt(ctx, entity, prev, prev, -1)
	if err != nil {
		return nil
	}
	return base
}

// run publishes until the outcome is known or ctx ends.
func (a *appending) run(ctx context.Context) (uint64, error) {
	seq, err := a.attemptOnce(ctx)
	if err == nil {
		return seq, nil
	}
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, jsapi.GiveUpAfter)
	defer cancel()
	for pause := jsapi.FirstPause; ; pause = min(2*pause, electionPause) {
		v := a.judgeError(ctx, err)
		switch {
		case v.final:
			if v.err == nil { // an attempt without an answer stored it
				a.j.storing.noteResult(nil)
			}
			return v.seq, v.err
		case v.wait && sleep.For(ctx, jsapi.RandomPause(pause)) != nil, ctx.Err() != nil:
			return 0, a.giveUp(ctx, err)
		}
		if err := a.checkArchived(ctx); err != nil { // the server may be another one now
			return 0, a.giveUp(ctx, err)
		}
		if seq, err = a.attemptOnce(ctx); err == nil {
			a.j.storing.noteResult(nil)
			return seq, nil
		}
	}
}

func (a *appending) attemptOnce(caller context.Context) (uint64, error) {
	if a.j.store.nc.IsClosed() || caller.Err() != nil {
		return 0, jsapi.ErrNotSent
	}
	ctx, cancel := context.WithTimeout(caller, jsapi.AttemptTimeout)
	defer cancel()
	before := a.j.guard.high.Load()
	ack, err := a.j.pub.Publish(ctx, Write{Entity: a.entity, Msg: &a.msg.Msg, Again: a.unsure})
	if !ack.Duplicate && caller.Err() == nil {
		a.j.storing.noteResult(err)
	}
	switch {
	case err != nil:
		return 0, err
	case ack.Stream != a.j.store.stream:
		return 0, errOtherStream
	case ack.Duplicate:
		seq, err := a.verifyDuplicate(ctx, ack.Seq)
		if err != nil {
			return 0, err
		}
		return seq, a.settleRecord(caller, seq)
	}
	raiseTo(&a.j.storing.last, ack.Seq)
	a.j.store.noteReached(ack.Seq)
	content := proof.Content(provedHeader(a.msg.Header), a.msg.Data)
	leaf := proof.Leaf(a.msg.Subject, content)
	if err := a.j.guard.noteStored(ack.Seq, before, leaf); err != nil {
		return 0, err
	}
	a.j.unsealed.put(ack.Seq, proof.Entry{Subject: a.msg.Subject, Content: content})
	if err := a.checkBegun(caller); err != nil {
		return 0, err
	}
	a.j.chain.put(ack.Seq, leaf, a.prev)
	a.j.voids.firm.put(ack.Seq)
	if a.next != nil {
		a.next.Seq, a.next.Hash = ack.Seq, leaf.String()
		a.j.codec.bases.put(a.next, len(a.msg.Data))
	}
	return ack.Seq, nil
}

// storing tracks whether the server stores what it accepts. A server whose disk fails keeps
// answering requests about the stream, and no answer reveals the failure.
type storing struct {
	failed atomic.Pointer[storeFailure] // nil: the last record was stored
	last   atomic.Uint64                // the highest sequence that it acknowledged
}

type storeFailure struct {
	at  time.Time
	err error
}

// failureCounts is how long a failure counts: only the next write can show whether the
// server stores again, so some writes must be let through.
const failureCounts = 10 * time.Second

// noteResult notes the result of an attempt that the caller did not cancel.
func (s *storing) noteResult(err error) {
	if err == nil {
		s.failed.Store(nil)
		return
	}
	api, refused := errors.AsType[*jetstream.APIError](err)
	switch {
	case refused && !jsapi.IsDiskError(int(api.ErrorCode), api.Description):
	case refused, errors.Is(err, context.DeadlineExceeded), errors.Is(err, errBatchLost):
		s.failed.Store(&storeFailure{time.Now(), err})
	}
}

// check returns why the server probably stores nothing now.
func (s *storing) check() error {
	f := s.failed.Load()
	if f == nil || time.Since(f.at) > failureCounts {
		return nil
	}
	return &message.Error{Code: message.CodeUnavailable, Op: "ready", What: "NATS answers but did not store the last record", Hint: "check the disks of the servers that hold the journal, and restart one whose disk was full", Err: f.err}
}

var (
	errOtherStream = errors.New("another stream stored the event record")
	errIDTaken     = errors.New("another message has the event record's id")
	errUnsynced    = toolcall.ErrUnsynced
)

// settleRecord makes sure that a record of a batch without an answer is on disk. The server
// shows a batch before it syncs it, and stores nothing more if the sync fails: a later
// stored record therefore proves the sync.
func (a *appending) settleRecord(ctx context.Context, seq uint64) error {
	switch {
	case !a.staged, a.j.storing.last.Load() > seq:
		return nil
	case a.j.guard.asks && a.j.guard.whyBroken() == nil:
		return nil
	case a.j.guard.asks:
		return errUnsynced
	}
	for a.j.storing.last.Load() < seq {
		if sleep.For(ctx, jsapi.FirstPause) != nil {
			return errUnsynced
		}
	}
	return nil
}

// verifyDuplicate finds where this event record, whose id the server has, is stored. The
// server checks the id before it compares sequences, so the record may be void.
func (a *appending) verifyDuplicate(ctx context.Context, seq uint64) (uint64, error) {
	t, err := a.j.readTail(ctx, a.entity, a.prev, a.record.ID)
	switch {
	case err == nil && t.own != 0:
		return t.own, nil
	case err == nil && t.other != 0:
		return 0, errVoid
	}
	var m stored
	if err == nil {
		m, err = a.j.store.getSeq(ctx, seq)
	}
	if err != nil { // not wrapped: this is not an error of the publish, whose outcome stays unknown
		return 0, errors.New("the record with this id could not be read: " + err.Error())
	}
	if r := a.j.codec.decode(ctx, m); m.seq > a.prev && (isBaseUnread(r) || r.Record != nil && r.Record.ID == a.record.ID && r.Key == a.key) {
		return 0, errForgets(m)
	}
	return 0, errIDTaken
}

func (a *appending) giveUp(ctx context.Context, err error) error {
	if a.unsure {
		return a.newError(message.CodeUnknownOutcome, "NATS did not acknowledge the event record, which may be stored", "read the entity's last event record and compare its id", err)
	}
	return a.newError(message.CodeUnavailable, "nothing was written: NATS did not accept the event record", "check that NATS runs with JetStream", errtext.Because(err, context.Cause(ctx)))
}

func (a *appending) opName() string { return "append to " + errtext.Quote(a.key.String()) }

func (a *appending) newError(code message.Code, what, hint string, err error) error {
	return &message.Error{Code: code, Op: a.opName(), What: what, Hint: hint, Err: err}
}

// verdict is what to do after a failed attempt.
type verdict struct {
	final bool
	seq   uint64
	err   error
	wait  bool // before the next attempt
}

func (a *appending) judgeError(ctx context.Context, err error) verdict {
	var api *jetstream.APIError
	final := func(code message.Code, what, hint string) verdict {
		if a.unsure { // an earlier attempt may have written
			code, what = message.CodeUnknownOutcome, "an earlier attempt may have been stored; this one was refused: "+what
		}
		return verdict{final: true, err: a.newError(code, what, hint, err)}
	}
	switch {
	case errors.Is(err, errVoid):
		return a.resolveConflict(ctx, err)
	case errors.As(err, &api) && api.ErrorCode != jsapi.CodeOutOfStep:
		code, text := int(api.ErrorCode), api.Description
		switch {
		case jsapi.IsConflict(code):
			return a.resolveConflict(ctx, err)
		case jsapi.IsFull(code, text):
			return final(message.CodeFull, "nothing was written: the store is full", growHint)
		case jsapi.IsTooLarge(code, text):
			return final(message.CodeTooLarge, "nothing was written: the stream refuses messages of this size", "raise the stream's max_msg_size")
		case jsapi.IsTransient(code):
			return verdict{wait: true}
		}
		return final(message.CodeUnavailable, "nothing was written: the stream refused the event record", "check the stream and the server's log")
	case errors.Is(err, nats.ErrMaxPayload):
		return final(message.CodeTooLarge, "the event record is larger than the server's max_payload", "use a smaller input or result, or raise max_payload")
	case errors.Is(err, errOtherStream):
		return verdict{final: true, err: a.newError(message.CodeForeignStream, "another stream receives this space's subjects", "remove those subjects from it", err)}
	case errors.Is(err, errIDTaken):
		return final(message.CodeInternal, "nothing was written", "give the event record a fresh id")
	case errors.Is(err, message.ErrDamaged), errors.Is(err, errArchivedMeanwhile):
		return verdict{final: true, err: err}
	case errors.Is(err, errUnsynced):
		return verdict{final: true, err: a.newError(message.CodeUnknownOutcome, "a power loss can still undo the write", "read the entity's last event record and compare its id", err)}
	case errors.Is(err, jsapi.ErrNotSent):
		return final(message.CodeUnavailable, "nothing was written: the connection is closed or the deadline passed", "try again")
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, errWaited):
		return verdict{wait: true} // no server received it
	}
	a.unsure, a.staged = true, a.staged || errors.Is(err, errBatchLost)
	return a.judgeSilence(ctx)
}

// judgeSilence judges a publish without an answer. A store that stopped writing
// never answers and never writes anything more, except for a batch, which it may
// complete when it restarts, and a record that it wrote but did not sync.
func (a *appending) judgeSilence(ctx context.Context) verdict {
	broken := a.j.guard.whyBroken()
	if broken == nil {
		return verdict{wait: true}
	}
	if a.staged || a.j.guard.isUnsynced() {
		return verdict{final: true, err: a.newError(message.CodeUnknownOutcome, "the store can no longer write", restartHint, broken)}
	}
	switch t, err := a.j.readTail(ctx, a.entity, a.prev, a.record.ID); {
	case err != nil:
		return verdict{wait: true}
	case t.own != 0:
		return verdict{final: true, seq: t.own}
	}
	return verdict{final: true, err: a.newError(message.CodeFull, "nothing was written: the store can no longer write", restartHint, broken)}
}

// resolveConflict reads, after a failed compare-and-swap, what follows the predecessor: this
// event record (its acknowledgement was lost), another one (a conflict), or only
// messages that no engine wrote. The next attempt writes after those, so they cannot
// block a call.
func (a *appending) resolveConflict(ctx context.Context, cause error) verdict {
	t, err := a.j.readTail(ctx, a.entity, a.prev, a.record.ID)
	switch {
	case err != nil:
		return verdict{wait: true}
	case t.own != 0:
		if err := a.settleRecord(ctx, t.own); err != nil {
			return a.judgeError(ctx, err)
		}
		return verdict{final: true, seq: t.own}
	case t.other == 0 && jsapi.IsInPipeline(cause):
		return verdict{wait: true} // a write is in flight that may never be stored: the server may have no quorum
	case t.other == 0 && t.foreign != 0:
		a.msg.setPredecessor(a.j.codec.keys, t.foreign)
		return verdict{}
	case t.other == 0 && a.unsure:
		return verdict{wait: true} // the leader may have forgotten what an earlier attempt stored
	}
	what := fmt.Sprintf("the entity is not at sequence %d", a.prev)
	if t.other != 0 {
		what += fmt.Sprintf(", %d was stored after it", t.other)
	}
	return verdict{final: true, err: a.newError(message.CodeConflict, what, "read the last event record and decide again", cause)}
}
