package view

import (
	"cmp"
	"slices"
	"sort"

	"github.com/askance-dev/askance/toolcall"
)

// blockSize bounds how much an insertion moves.
const blockSize = 256

type entry struct {
	value int64  // what the order sorts by
	first uint64 // first of the call: orders equal values
	call  *toolcall.Call
}

func (e entry) compare(b entry) int {
	if n := cmp.Or(cmp.Compare(e.value, b.value), cmp.Compare(e.first, b.first)); n != 0 || e.call == nil || b.call == nil {
		return n
	}
	if e.call == b.call {
		return 0
	}
	return e.call.Key.Compare(b.call.Key)
}

// order keeps calls sorted, in blocks, so the cost of a page depends only on its size and
// a change moves little. The view's lock guards it.
type order struct {
	blocks [][]entry // no block is empty
	n      int
}

// find returns the position of the first entry that is not before e.
func (o *order) find(e entry) (block, i int, found bool) {
	last := len(o.blocks) - 1
	if last < 0 || o.blocks[last][len(o.blocks[last])-1].compare(e) < 0 {
		return last + 1, 0, false
	}
	block = sort.Search(last, func(b int) bool { return o.blocks[b][len(o.blocks[b])-1].compare(e) >= 0 })
	i, found = slices.BinarySearchFunc(o.blocks[block], e, entry.compare)
	return block, i, found
}

// put adds a call, or replaces its entry.
func (o *order) put(e entry) {
	b, i, found := o.find(e)
	if found {
		o.blocks[b][i] = e
		return
	}
	o.n++
	if b == len(o.blocks) { // at the end, as usual
		if b == 0 || len(o.blocks[b-1]) == blockSize {
			o.blocks = append(o.blocks, []entry{e})
			return
		}
		b, i = b-1, len(o.blocks[b-1])
	}
	if full := o.blocks[b]; len(full) == blockSize {
		const half = blockSize / 2
		o.blocks = slices.Insert(o.blocks, b+1, slices.Clone(full[half:]))
		clear(full[half:])
		o.blocks[b] = full[:half]
		if i > half {
			b, i = b+1, i-half
		}
	}
	o.blocks[b] = slices.Insert(o.blocks[b], i, e)
}

func (o *order) remove(e entry) {
	b, i, found := o.find(e)
	if !found {
		return
	}
	o.n--
	o.blocks[b] = slices.Delete(o.blocks[b], i, i+1)
	switch left := len(o.blocks[b]); {
	case left == 0:
		o.blocks = slices.Delete(o.blocks, b, b+1)
	case b+1 < len(o.blocks) && left+len(o.blocks[b+1]) <= blockSize/2:
		o.blocks[b] = append(o.blocks[b], o.blocks[b+1]...)
		o.blocks = slices.Delete(o.blocks, b+1, b+2)
	}
}

// countBefore returns how many entries come before e.
func (o *order) countBefore(e entry) int {
	block, n, _ := o.find(e)
	for _, b := range o.blocks[:block] {
		n += len(b)
	}
	return n
}

func (o *order) appendTo(calls []*toolcall.Call) []*toolcall.Call {
	for _, b := range o.blocks {
		for _, e := range b {
			calls = append(calls, e.call)
		}
	}
	return calls
}

// cursor is a position in an order, which must not change while the cursor is used.
type cursor struct {
	of       *order
	block, i int
	down     bool
}

// firstCursor returns the first position of an order in a direction.
func (o *order) firstCursor(down bool) cursor {
	c := cursor{of: o, down: down}
	if down {
		c.block = len(o.blocks)
		c.next()
	}
	return c
}

// cursorBehind returns the first position after an entry in a direction.
func (o *order) cursorBehind(e entry, down bool) cursor {
	c := cursor{of: o, down: down}
	c.block, c.i, _ = o.find(e)
	if down {
		c.next()
		return c
	}
	for at, ok := c.currentEntry(); ok && at.compare(e) <= 0; at, ok = c.currentEntry() {
		c.next()
	}
	return c
}

// currentEntry returns the entry at the cursor, or false at the end.
func (c *cursor) currentEntry() (entry, bool) {
	if c.block < 0 || c.block >= len(c.of.blocks) {
		return entry{}, false
	}
	return c.of.blocks[c.block][c.i], true
}

func (c *cursor) next() {
	switch {
	case !c.down && c.i+1 < len(c.of.blocks[c.block]):
		c.i++
	case !c.down:
		c.block, c.i = c.block+1, 0
	case c.i > 0:
		c.i--
	default:
		if c.block--; c.block >= 0 {
			c.i = len(c.of.blocks[c.block]) - 1
		}
	}
}
