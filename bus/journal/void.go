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

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// A replicated stream can store two records of an entity that follow the same record. Only
// the leader compares, before it proposes a record; followers do not. A leader whose disk is
// full loses the first record, which it may have acknowledged, and proposes the second.
//
// Invariant: a record whose compare-and-swap names a sequence before the last valid record
// of its entity is void, and so is one that follows a void record. A void record has no
// effect, and the next record is written after it. A record that begins a call in an archived
// reply is void, too.

// errVoid: this genuine record, or one that it follows, has no effect.
var errVoid = errors.New("an earlier record follows the same one, or the call was archived before")

const (
	// voidSpan is how many other records a reader that starts in the middle expects between
	// two that follow the same one. Append and Last compare at any distance.
	voidSpan = 1 << 12
	// maxAsked limits how many of those records one reader compares.
	maxAsked = 1 << 8
	// firmSize is how many records that are not void are remembered.
	firmSize = 1 << 14
	// ancestors limits how many of the records that a record builds on are compared.
	ancestors = 32
	// maxForked limits how many entities with void records are remembered.
	maxForked = 1 << 12
)

// basisOf returns the entity of a record and the sequence that its compare-and-swap names.
// The MAC covers both.
func basisOf(m stored) (entity bus.Entity, prev uint64, ok bool) {
	entity = bus.Entity(bus.EntityIn(m.subject))
	prev, ok = m.expectedSequence()
	return entity, prev, ok && entity != ""
}

// expectedSequence returns the sequence that a message's compare-and-swap names.
func (s stored) expectedSequence() (seq uint64, ok bool) {
	seq, err := strconv.ParseUint(jsapi.OnlyHeader(s.header, headerPrev), 10, 64)
	return seq, err == nil
}

// linkedTo returns the sequence of the record that this one links to as its predecessor, or
// 0 if it names none.
func (s stored) linkedTo() uint64 {
	link, err := proof.LinkOf(s.data)
	if err != nil || link == nil {
		return 0
	}
	return link.Seq
}

// succession applies the invariant to the genuine records of one entity, in order. last is
// the last valid record.
type succession struct {
	last uint64
	void []uint64
}

func (s *succession) isVoid(seq, prev uint64, link func() uint64) bool {
	if prev < s.last || len(s.void) > 0 && slices.Contains(s.void, link()) {
		s.void = append(s.void, seq)
		return true
	}
	s.last = seq
	return false
}

// check makes the entry of a void record invalid.
func (s *succession) check(m stored, r *toolcall.JournalEntry) {
	if _, prev, ok := basisOf(m); ok && (r.Invalid == nil || isUnreadable(*r)) && s.isVoid(m.seq, prev, m.linkedTo) {
		*r = voidEntry(m)
	}
}

func voidEntry(m stored) toolcall.JournalEntry {
	s, _ := bus.ParseSubject(m.subject) // basisOf has parsed it
	return toolcall.JournalEntry{Seq: m.seq, Time: m.time, Key: placeOf(s), Invalid: &message.Error{
		Code: message.CodeInvalid, Op: fmt.Sprintf("read record %d on %s", m.seq, m.subject), What: "the record is void: it has no effect",
		Hint: "no action is needed; a NATS server stored it while its disk was full, or its engine did not run for a while", Err: errVoid,
	}}
}

// voids decides which records of a journal are void.
type voids struct {
	store    reader
	codec    codec
	archives *archives
	learn    func(context.Context, stored) error // see guard.learnArchivesFor; nil: no archive can be missed
	firm     firm
	forked   forked
}

// isVoid reports whether a record is void. Unless the record is known, it reads the message
// that follows the record's predecessor, and checks the records on which it builds. All
// servers store records in the same order: one that has the record has all earlier ones.
func (v *voids) isVoid(ctx context.Context, m stored) (bool, error) {
	return v.isVoidUpTo(ctx, m, ancestors)
}

func (v *voids) isVoidUpTo(ctx context.Context, m stored, more int) (bool, error) {
	entity, prev, ok := basisOf(m)
	again, err := v.beginsAgain(ctx, m)
	switch {
	case err != nil || again:
		return again, err
	case !ok || v.firm.has(m.seq) || !v.codec.isGenuine(m):
		return false, nil
	case v.forked.has(entity):
		return v.compare(ctx, entity, m, m.seq)
	case prev+1 < m.seq && v.store.askAny(ctx, getRequest{Seq: prev + 1, NextFor: string(entity)}).seq != m.seq:
		next, err := v.store.next(ctx, string(entity), prev)
		switch {
		case errors.Is(err, errNone), err == nil && next.seq > m.seq:
			return false, errForgets(m)
		case err != nil:
			return false, jsapi.Error("read record", fmt.Sprintf("the record after %d", prev), err)
		case next.seq < m.seq:
			return v.compare(ctx, entity, m, next.seq)
		}
	}
	void, err := v.followsVoid(ctx, m.linkedTo(), more)
	if err == nil && !void && more > 0 {
		v.firm.put(m.seq)
	}
	return void, err
}

// beginsAgain reports whether a genuine record begins a call in an archived reply and is not in
// an archive. Unless the record is known, it first makes sure that no archive was missed.
func (v *voids) beginsAgain(ctx context.Context, m stored) (bool, error) {
	if prev, ok := m.expectedSequence(); !ok || prev > 0 {
		return false, nil
	}
	if v.learn != nil && !v.firm.has(m.seq) && bus.EntityIn(m.subject) != "" {
		if err := v.learn(ctx, m); err != nil {
			return false, err
		}
	}
	return v.archives.beginsAgain(m) && v.codec.isGenuine(m), nil
}

// followsVoid reports whether the record at a sequence, on which another one builds, is void.
func (v *voids) followsVoid(ctx context.Context, seq uint64, more int) (bool, error) {
	if seq == 0 || v.firm.has(seq) || more == 0 {
		return false, nil
	}
	m, err := v.store.getAny(ctx, seq)
	switch {
	case errors.Is(err, errNone): // archived, or accepted as lost
		return false, nil
	case err != nil:
		return false, jsapi.Error("read record", fmt.Sprintf("record %d", seq), err)
	}
	return v.isVoidUpTo(ctx, m, more-1)
}

// compare is isVoid for a record whose entity has void records, or has another message,
// perhaps a valid record, between the record and its predecessor.
func (v *voids) compare(ctx context.Context, entity bus.Entity, m stored, between uint64) (bool, error) {
	all, err := v.readHistory(ctx, entity)
	if err != nil {
		return false, err
	}
	at := func(seq uint64) int {
		return slices.IndexFunc(all, func(r toolcall.JournalEntry) bool { return r.Seq == seq })
	}
	i := at(m.seq)
	if i < 0 || at(between) < 0 {
		return false, errForgets(m)
	}
	if errors.Is(all[i].Invalid, errVoid) {
		return true, nil
	}
	v.firm.put(m.seq)
	return false, nil
}

// errForgets: the server that leads the stream lacks a record that another server has, as
// when its disk is full. Its answers about earlier records prove nothing.
func errForgets(m stored) error {
	return &message.Error{Code: message.CodeUnavailable, Op: fmt.Sprintf("read record %d", m.seq), What: "the server that leads the journal does not have it", Hint: "another server takes over within seconds; check the disks of the NATS servers"}
}

// decode is codec.decode for a record that is read alone, and finds out whether it is void.
// It fails if the server does not answer.
func (v *voids) decode(ctx context.Context, m stored) (toolcall.JournalEntry, error) {
	return v.decodeUpTo(ctx, m, ancestors)
}

func (v *voids) decodeUpTo(ctx context.Context, m stored, more int) (toolcall.JournalEntry, error) {
	r := v.codec.decode(ctx, m)
	switch {
	case isBaseUnread(r):
		return r, r.Invalid
	case r.Invalid != nil && !isUnreadable(r):
		return r, nil
	}
	void, err := v.isVoidUpTo(ctx, m, more)
	if void {
		r = voidEntry(m)
	}
	return r, err
}

// readHistory reads all messages of an entity. It includes everything acknowledged before the
// call.
func (v *voids) readHistory(ctx context.Context, entity bus.Entity) ([]toolcall.JournalEntry, error) {
	var out []toolcall.JournalEntry
	var so succession
	for after := uint64(0); after != math.MaxUint64; {
		found, through, err := v.store.readPage(ctx, string(entity), after, maxPage)
		if err != nil {
			return nil, jsapi.Error("read history", string(entity), err)
		}
		if after == 0 {
			if out, err = v.archivedBefore(ctx, entity, found, &so); err != nil {
				return nil, err
			}
		}
		for _, m := range found {
			if n := len(out); n > 0 && m.seq <= out[n-1].Seq { // archived and not deleted yet
				continue
			}
			r := v.codec.decode(ctx, m)
			if isBaseUnread(r) {
				return nil, r.Invalid
			}
			so.check(m, &r)
			if v.archives.beginsAgain(m) && v.codec.isGenuine(m) {
				r = voidEntry(m)
			}
			out = append(out, r)
		}
		after = through
	}
	if len(so.void) > 0 {
		v.forked.put(entity)
	}
	return out, nil
}

// archivedBefore decodes the archived records of an entity whose first messages are known.
func (v *voids) archivedBefore(ctx context.Context, entity bus.Entity, first []stored, so *succession) ([]toolcall.JournalEntry, error) {
	if len(first) > 0 {
		if _, err := v.beginsAgain(ctx, first[0]); err != nil { // hasMore must miss no archive
			return nil, err
		}
	}
	if !v.archives.hasMore(first) {
		return nil, nil
	}
	found, err := v.archives.recordsOf(ctx, string(entity))
	if err != nil {
		return nil, err
	}
	var out []toolcall.JournalEntry
	for _, m := range found {
		r := v.codec.decode(ctx, m)
		so.check(m, &r)
		out = append(out, r)
	}
	return out, nil
}

// order finds the void records among messages of all entities that are read in order.
type order struct {
	*voids
	from  uint64                // the first message comes after it
	floor uint64                // last has every message after it
	last  map[bus.Entity]uint64 // the last message of each entity
	ring  []place               // the entries of last, at most voidSpan
	next  int                   // the oldest in ring, once it is full
	asked int                   // how many records were compared with the server's
}

type place struct {
	entity bus.Entity
	seq    uint64
}

func (v *voids) newOrder(from uint64) *order {
	return &order{voids: v, from: from, floor: from, last: map[bus.Entity]uint64{}}
}

// isVoid reports whether the next message is a void record. After an error it can be called
// again with the same message.
func (o *order) isVoid(ctx context.Context, m stored) (void bool, err error) {
	entity, prev, ok := basisOf(m)
	if entity == "" {
		return false, nil
	}
	before, seen := o.last[entity]
	again, err := o.beginsAgain(ctx, m)
	if err != nil {
		return false, err
	}
	switch {
	case !ok:
	case again:
		void = true
	case seen && prev < before:
		if o.codec.isGenuine(m) {
			void, err = o.compare(ctx, entity, m, before)
		}
	case !seen && o.from > 0 && prev <= o.from && m.seq <= o.from+voidSpan && o.asked < maxAsked:
		o.asked++
		void, err = o.voids.isVoid(ctx, m)
	case o.forked.has(entity):
		void, err = o.voids.isVoid(ctx, m)
	case seen && o.firm.has(before), !seen && prev >= o.floor && (prev == 0 || o.firm.has(prev)):
		o.firm.put(m.seq)
	}
	if err == nil {
		o.noteRecord(place{entity, m.seq})
	}
	return void, err
}

func (o *order) noteRecord(p place) {
	o.last[p.entity] = p.seq
	if len(o.ring) < voidSpan {
		o.ring = append(o.ring, p)
		return
	}
	old := o.ring[o.next]
	if o.floor = old.seq; o.last[old.entity] == old.seq {
		delete(o.last, old.entity)
	}
	o.ring[o.next], o.next = p, (o.next+1)%voidSpan
}

// decode is codec.decode for the next message, and finds out whether it is void.
func (o *order) decode(ctx context.Context, m stored) (toolcall.JournalEntry, error) {
	if void, err := o.isVoid(ctx, m); void || err != nil {
		return voidEntry(m), err
	}
	r := o.codec.decode(ctx, m)
	if isBaseUnread(r) {
		return r, r.Invalid
	}
	return r, nil
}

// firm remembers records that are not void: those that this engine wrote, and those that
// were compared.
type firm [firmSize]atomic.Uint64

func (f *firm) put(seq uint64)      { f[seq%firmSize].Store(seq) }
func (f *firm) has(seq uint64) bool { return f[seq%firmSize].Load() == seq }

// forked remembers entities with void records.
type forked struct {
	any atomic.Bool
	mu  sync.Mutex // guards of
	of  map[bus.Entity]struct{}
}

func (f *forked) put(entity bus.Entity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[bus.Entity]struct{}{}
	}
	if len(f.of) < maxForked {
		f.of[entity] = struct{}{}
		f.any.Store(true)
	}
}

func (f *forked) has(entity bus.Entity) bool {
	if !f.any.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.of[entity]
	return ok
}
