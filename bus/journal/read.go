package journal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

// Head returns the sequence of the journal's last record, or 0 if it has none.
func (j *Journal) Head(ctx context.Context) (uint64, error) {
	seq, err := j.store.readEnd(ctx)
	if err != nil {
		return 0, jsapi.Error("read the journal's end", "stream "+j.store.stream, err)
	}
	return seq, nil
}

// tailState describes what follows a sequence in an entity.
type tailState struct {
	own     uint64 // the event record with the given id
	other   uint64 // the first other event record
	foreign uint64 // the last message that is void or that no engine wrote
}

// readTail reads what follows prev in the entity, up to the first event record: only
// that one can be written after prev.
func (j *Journal) readTail(ctx context.Context, entity bus.Entity, prev uint64, id string) (tailState, error) {
	var t tailState
	so := succession{last: prev}
	for at := prev; ; {
		m, err := j.store.next(ctx, string(entity), at)
		if errors.Is(err, errNone) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		at = m.seq
		_, before, ok := basisOf(m)
		again, err := j.voids.beginsAgain(ctx, m)
		if err != nil {
			return t, err
		}
		switch r := j.codec.decode(ctx, m); {
		case isBaseUnread(r):
			return t, r.Invalid
		case r.Invalid != nil && !isUnreadable(r), ok && so.isVoid(m.seq, before, m.linkedTo), again:
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

// Last implements engine.Journal by asking the stream's leader. It skips messages
// that no engine wrote, and void records. ErrUnavailable means that an engine of another
// version wrote the last event record.
func (j *Journal) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	const op = "read last event record"
	entity, err := j.codec.entityOf(key)
	if err != nil {
		return toolcall.JournalEntry{}, err
	}
	m, err := j.store.get(ctx, getRequest{LastFor: string(entity)})
	if err == nil && j.guard.archives.isLeftOver(m.seq) {
		err = errNone
	}
	if err == nil {
		r, err := j.voids.decode(ctx, m)
		switch {
		case err != nil:
			return toolcall.JournalEntry{}, err
		case isUnreadable(r):
			return toolcall.JournalEntry{}, r.Invalid
		case r.Invalid == nil && r.Key == key:
			return r, nil
		}
		return j.lastValid(ctx, key)
	}
	if errors.Is(err, errNone) {
		err := j.guard.checkCount(ctx) // also learns of every archive whose records were deleted
		if err == nil {
			err = j.guard.archives.check(func() string { return op }, key)
		}
		if err != nil {
			return toolcall.JournalEntry{}, err
		}
		return toolcall.JournalEntry{}, unknownKey(op, key)
	}
	return toolcall.JournalEntry{}, jsapi.Error(op, errtext.Quote(key.String()), err)
}

// CountCalls implements engine.Journal by asking the server for the subjects of the
// reply. A reply is archived as a whole and its id refused, so no call is missed.
func (j *Journal) CountCalls(ctx context.Context, reply toolcall.Key) (calls int, through uint64, err error) {
	const op = "count calls"
	if _, err := j.codec.entityOf(reply.ReplyKey()); err != nil {
		return 0, 0, err
	}
	own, err := bus.RecordSubject(reply.ReplyKey(), toolcall.Queue{})
	if err != nil {
		return 0, 0, err
	}
	of := bus.Subject{Space: j.space, Kind: bus.KindRecord, Session: own.Session, Reply: own.Reply}
	subjects, through, err := j.store.subjectsOf(ctx, of)
	if err != nil {
		return 0, 0, jsapi.Error(op, errtext.Quote(reply.String()), err)
	}
	seen := map[bus.Token]struct{}{}
	for _, s := range subjects {
		seen[s.Call] = struct{}{}
	}
	return len(seen), through, nil
}

// subjectsOf asks the server for the subjects of calls that have records. It returns at
// least those with records up to through.
func (rd reader) subjectsOf(ctx context.Context, of bus.Subject) (found []bus.Subject, through uint64, err error) {
	st, err := rd.lookUpStream(ctx)
	if err != nil {
		return nil, 0, err
	}
	through = st.CachedInfo().State.LastSeq // read first, so that no subject up to it is missed
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(strings.TrimSuffix(of.String(), "f")+">"))
	if err != nil {
		return nil, 0, err
	}
	for subject := range info.State.Subjects {
		if s, err := bus.ParseSubject(subject); err == nil && s.Call != "" {
			found = append(found, s)
		}
	}
	return found, through, nil
}

// KeysOf returns the calls of a journal that have this id, without archived ones. It reads
// one record of each call.
func KeysOf(ctx context.Context, j *Journal, id message.CallID) ([]toolcall.Key, error) {
	subjects, _, err := j.store.subjectsOf(ctx, bus.Subject{Space: j.space, Kind: bus.KindRecord, Call: bus.Encode(string(id))})
	if err != nil {
		return nil, jsapi.Error("find calls", errtext.Quote(string(id)), err)
	}
	seen := map[bus.Entity]bool{}
	var out []toolcall.Key
	for _, s := range subjects {
		entity := s.Entity()
		if seen[entity] {
			continue
		}
		seen[entity] = true
		m, err := j.store.get(ctx, getRequest{LastFor: string(entity)})
		if err != nil {
			return nil, jsapi.Error("find calls", errtext.Quote(string(id)), err)
		}
		if j.guard.archives.isLeftOver(m.seq) {
			continue
		}
		r := j.codec.decode(ctx, m)
		if r.Invalid != nil {
			return nil, r.Invalid
		}
		out = append(out, r.Key)
	}
	return out, nil
}

// lastValid is Last for an entity whose newest message is not a valid event record. It reads
// the whole history.
func (j *Journal) lastValid(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	all, err := j.History(ctx, key)
	if err != nil {
		return toolcall.JournalEntry{}, err
	}
	for _, r := range slices.Backward(all) {
		switch {
		case isUnreadable(r):
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

func (c codec) entityOf(key toolcall.Key) (bus.Entity, error) {
	entity, err := bus.EntityOf(key)
	if err == nil && key.Space != c.space {
		err = unknownKey("find entity", key)
	}
	return entity, err
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
