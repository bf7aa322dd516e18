package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// Memory is a Journal in memory. It suits programs that need no durability, and the
// property tests run on it. Event records are kept as bytes, so nothing a reader does can
// change the past. Several engines may share one.
type Memory struct {
	mu      sync.Mutex // guards all below
	records []memoryRecord
	last    map[toolcall.Key]uint64 // sequence of each entity's last event record
	grown   chan struct{}           // closed and replaced with every record
}

type memoryRecord struct {
	time    time.Time
	key     toolcall.Key
	id      string // of an event record
	record  []byte
	event   []byte
	runtime string
	base    *toolcall.RecordBase // of a call's event record, for the next one
}

// NewMemory returns an empty journal.
func NewMemory() *Memory {
	return &Memory{last: map[toolcall.Key]uint64{}, grown: make(chan struct{})}
}

// Durability implements Journal.
func (m *Memory) Durability() string { return "memory" }

// EnsureQueue implements Journal; there is nothing to prepare.
func (m *Memory) EnsureQueue(context.Context, toolcall.Queue) error { return nil }

// Append implements Journal.
func (m *Memory) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	rec.Prev = m.linkTo(prev)
	base := toolcall.BaseFor(rec, m.baseAt(prev))
	body, next, err := toolcall.EncodeAndRead(rec, base) // an unreadable record would end the entity
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := checkNotGivenUp(ctx); err != nil {
		return 0, err
	}
	key := rec.Key()
	if have := m.last[key]; have != prev {
		return 0, &message.Error{Code: message.CodeConflict, Op: "append", What: fmt.Sprintf("%s is at %d, not at %d", key, have, prev), Hint: "read its last event record and decide again"}
	}
	seq := m.add(memoryRecord{time: time.Now(), key: key, id: rec.ID, record: body})
	if next != nil {
		r := &m.records[seq-1]
		next.Seq, next.Hash = seq, proof.Leaf(r.key.String(), proof.Content(nil, r.record)).String()
		r.base = next
	}
	m.last[key] = seq
	return seq, nil
}

// baseAt returns the event record of a call at seq, or nil if there is none.
func (m *Memory) baseAt(seq uint64) *toolcall.RecordBase {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq == 0 || seq > uint64(len(m.records)) {
		return nil
	}
	return m.records[seq-1].base
}

func (m *Memory) expand(seq uint64) (rec *toolcall.EventRecord, below *toolcall.RecordBase, err error) {
	s, err := toolcall.DecodeStored(m.records[seq-1].record)
	if err != nil {
		return nil, nil, err
	}
	if at := s.BaseSeq(); at > 0 && at < seq {
		below = m.records[at-1].base
	}
	rec, err = s.Expand(below)
	return rec, below, err
}

// linkTo makes the link to the event record at prev. In this journal a record's subject is its
// key, and there are no headers.
func (m *Memory) linkTo(prev uint64) *toolcall.Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	if prev == 0 || prev > uint64(len(m.records)) {
		return &toolcall.Link{}
	}
	r := m.records[prev-1]
	return proof.LinkTo(prev, proof.Leaf(r.key.String(), proof.Content(nil, r.record)))
}

// CountCalls implements Journal.
func (m *Memory) CountCalls(_ context.Context, reply toolcall.Key) (calls int, through uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.last {
		if key.Call != "" && key.ReplyKey() == reply.ReplyKey() {
			calls++
		}
	}
	return calls, uint64(len(m.records)), nil
}

// AppendEvent implements Journal.
func (m *Memory) AppendEvent(ctx context.Context, runtime string, reply toolcall.Key, events []message.RawJSON) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := checkNotGivenUp(ctx); err != nil {
		return 0, err
	}
	seq := uint64(len(m.records))
	for _, ev := range events {
		seq = m.add(memoryRecord{time: time.Now(), key: reply, event: append([]byte(nil), ev...), runtime: runtime})
	}
	return seq, nil
}

func checkNotGivenUp(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &message.Error{Code: message.CodeUnavailable, Op: "append", What: "the request was canceled, and nothing was written", Hint: "try again", Err: context.Cause(ctx)}
	}
	return nil
}

func (m *Memory) add(r memoryRecord) uint64 {
	m.records = append(m.records, r)
	close(m.grown)
	m.grown = make(chan struct{})
	return uint64(len(m.records))
}

// decodeRecord decodes the record with sequence seq. m.mu is held.
func (m *Memory) decodeRecord(seq uint64) toolcall.JournalEntry {
	r := m.records[seq-1]
	out := toolcall.JournalEntry{Seq: seq, Time: r.time, Key: r.key, Event: slices.Clone(r.event), Runtime: r.runtime}
	if r.record != nil {
		out.Record, _, out.Invalid = m.expand(seq)
	}
	return out
}

// idAndTime returns the id of the event record with sequence seq ("" for a streamed event),
// and when it was stored.
func (m *Memory) idAndTime(seq uint64) (id string, stored time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[seq-1]
	return r.id, r.time
}

// Last implements Journal.
func (m *Memory) Last(_ context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seq := m.last[key]
	if seq == 0 {
		return toolcall.JournalEntry{}, &message.Error{Code: message.CodeNotFound, Op: "last", What: "nothing is known of " + key.String(), Hint: "check space, session, reply and call"}
	}
	return m.decodeRecord(seq), nil
}

// History implements Journal.
func (m *Memory) History(_ context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []toolcall.JournalEntry
	for i, r := range m.records {
		if r.key == key && r.record != nil {
			out = append(out, m.decodeRecord(uint64(i+1)))
		}
	}
	return out, nil
}

// ReadRecords implements Snapshots.
func (m *Memory) ReadRecords(_ context.Context, seqs []uint64) ([]toolcall.JournalEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]toolcall.JournalEntry, len(seqs))
	for i, seq := range seqs {
		if seq == 0 || seq > uint64(len(m.records)) {
			return nil, &message.Error{Code: message.CodeNotFound, Op: "read records", What: fmt.Sprintf("there is no record %d", seq), Hint: "the journal ends before it"}
		}
		out[i] = m.decodeRecord(seq)
	}
	return out, nil
}

// Read implements Journal.
func (m *Memory) Read(_ context.Context, session toolcall.Key, after uint64, limit int) ([]toolcall.JournalEntry, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []toolcall.JournalEntry
	last := after
	for seq := after + 1; seq <= uint64(len(m.records)) && len(out) < limit; seq++ {
		last = seq
		if m.records[seq-1].key.SessionKey() == session {
			out = append(out, m.decodeRecord(seq))
		}
	}
	return out, last, nil
}

// Watch implements Journal.
func (m *Memory) Watch(ctx context.Context, after uint64, sink Sink) error {
	m.mu.Lock()
	end := uint64(len(m.records))
	m.mu.Unlock()
	for caughtUp := false; ; {
		if !caughtUp && after >= end {
			caughtUp = true
			sink.CaughtUp()
		}
		m.mu.Lock()
		have := after < uint64(len(m.records))
		grown := m.grown
		m.mu.Unlock()
		if have {
			after++
			id, stored := m.idAndTime(after)
			if choosy, ok := sink.(toolcall.ChoosySink); !ok || choosy.Wants(after, id, stored) {
				m.mu.Lock()
				next := m.decodeRecord(after)
				m.mu.Unlock()
				sink.Record(next)
			}
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var _ Journal = (*Memory)(nil)
