package toolcall

import "container/list"

// BaseCache caches the last record of each call, on which the next one builds, up to a
// number of bytes. It drops the oldest first. It must be used by one goroutine at a time.
type BaseCache struct {
	// MaxBytes limits the stored bytes of cached records, plus baseRoom for each.
	MaxBytes int

	entries map[uint64]*list.Element
	order   list.List // of *cachedBase, oldest first
	bytes   int
}

type cachedBase struct {
	base  *RecordBase
	bytes int
}

// baseRoom is roughly what a base needs in memory besides its stored bytes.
const baseRoom = 2 << 10

// At returns the record at seq, or nil.
func (c *BaseCache) At(seq uint64) *RecordBase {
	if e := c.entries[seq]; e != nil {
		return e.Value.(*cachedBase).base
	}
	return nil
}

// Find returns the base at seq of a record that follows the one at prev, or nil.
func (c *BaseCache) Find(seq, prev uint64) *RecordBase {
	if found := c.At(seq); found != nil {
		return found
	}
	if last := c.At(prev); last != nil && last.Whole != nil && last.Whole.Seq == seq {
		return last.Whole
	}
	return nil
}

// Put adds a record that has the given stored size. It replaces the record before it, which
// only this record still needed.
func (c *BaseCache) Put(b *RecordBase, bytes int) {
	if c.entries == nil {
		c.entries = map[uint64]*list.Element{}
	}
	bytes += baseRoom
	if p := b.Record.Prev; p != nil {
		bytes += c.drop(p.Seq) // the two share what has not changed
	}
	c.drop(b.Seq)
	c.entries[b.Seq], c.bytes = c.order.PushBack(&cachedBase{b, bytes}), c.bytes+bytes
	for c.bytes > c.MaxBytes && c.order.Len() > 1 {
		c.drop(c.order.Front().Value.(*cachedBase).base.Seq)
	}
}

// Drop removes a record and the one before it.
func (c *BaseCache) Drop(b *RecordBase) {
	c.drop(b.Seq)
	if p := b.Record.Prev; p != nil {
		c.drop(p.Seq)
	}
}

// drop removes a record and returns its bytes.
func (c *BaseCache) drop(seq uint64) int {
	e := c.entries[seq]
	if e == nil {
		return 0
	}
	delete(c.entries, seq)
	n := c.order.Remove(e).(*cachedBase).bytes
	c.bytes -= n
	return n
}
