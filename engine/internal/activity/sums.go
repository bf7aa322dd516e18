package activity

import (
	"slices"

	"github.com/askance-dev/askance/toolcall"
)

// upTo are the upper bounds of the time buckets in milliseconds; the last bucket has none.
var upTo = [...]uint32{
	10, 50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000,
	60_000, 120_000, 300_000, 900_000, 1_800_000, 3_600_000, 14_400_000, 43_200_000, 86_400_000,
}

// Spans of time that are measured.
const (
	toDecision = iota
	queued
	run
	spans
)

// spanOf is the span that the time of an event measures.
var spanOf = [kinds]int{approved: toDecision, rejected: toDecision, responded: toDecision, expired: toDecision, started: queued, succeeded: run, failed: run}

type counts [kinds]int

func (c *counts) toReply() (out toolcall.ActivityCounts) {
	for k, to := range [kinds]*int{
		&out.Proposed, &out.Allowed, &out.Standing, &out.Asked, &out.Denied, &out.Refused, &out.Approved, &out.Rejected, &out.Responded, &out.Expired,
		&out.Started, &out.Retried, &out.Blocked, &out.Succeeded, &out.Failed, &out.Revoked, &out.Interrupted,
	} {
		*to = c[k]
	}
	return out
}

func (c *counts) merge(o *counts) {
	for k, n := range o {
		c[k] += n
	}
}

// times is a distribution.
type times struct {
	n   int
	sum int64
	in  [len(upTo) + 1]int
}

func (t *times) add(ms uint32) {
	i, _ := slices.BinarySearch(upTo[:], ms)
	t.n++
	t.sum += int64(ms)
	t.in[i]++
}

func (t *times) merge(o *times) {
	t.n += o.n
	t.sum += o.sum
	for i, n := range o.in {
		t.in[i] += n
	}
}

func (t *times) toReply() toolcall.ActivityTimes {
	out := toolcall.ActivityTimes{Count: t.n, SumMS: t.sum, P50MS: t.quantile(50), P90MS: t.quantile(90), P99MS: t.quantile(99), Buckets: []toolcall.ActivityUpTo{}}
	if t.n == 0 {
		return out
	}
	for i, n := range t.in {
		b := toolcall.ActivityUpTo{Count: n}
		if i < len(upTo) {
			b.UpToMS = int64(upTo[i])
		}
		out.Buckets = append(out.Buckets, b)
	}
	return out
}

// quantile estimates a percentile by linear interpolation within its bucket. A single
// value is exact.
func (t *times) quantile(percent int) int64 {
	if t.n == 1 {
		return t.sum
	}
	rank := (t.n*percent + 99) / 100
	below, seen := int64(0), 0
	for i, n := range t.in {
		if i == len(upTo) {
			break
		}
		if seen+n >= rank && n > 0 {
			return below + (int64(upTo[i])-below)*int64(2*(rank-seen)-1)/int64(2*n)
		}
		below, seen = int64(upTo[i]), seen+n
	}
	if t.n == 0 {
		return 0
	}
	return below
}

// cell identifies a counter by tool, rule and agent. One number is a faster map key than
// three.
type cell uint64

func cellOf(tool, rule, agent uint16) cell {
	return cell(tool)<<32 | cell(rule)<<16 | cell(agent)
}

func (c cell) tool() uint16  { return uint16(c >> 32) }
func (c cell) rule() uint16  { return uint16(c >> 16) }
func (c cell) agent() uint16 { return uint16(c) }

// sums are counts by cell, and times by tool.
type sums struct {
	cells map[cell]*counts
	times map[uint16]*[spans]times
}

func newSums() sums { return sums{cells: map[cell]*counts{}, times: map[uint16]*[spans]times{}} }

func (s *sums) add(e event) {
	k := cellOf(e.tool, e.rule, e.agent)
	c := s.cells[k]
	if c == nil && len(s.cells) >= MaxCells {
		k = cellOf(e.tool, 0, 0) // the tool's cell for other rules and agents: at most one more per tool
		c = s.cells[k]
	}
	if c == nil {
		c = &counts{}
		s.cells[k] = c
	}
	c[e.kind]++
	if e.took == unknownTime {
		return
	}
	t := s.times[e.tool]
	if t == nil {
		t = &[spans]times{}
		s.times[e.tool] = t
	}
	t[spanOf[e.kind]].add(e.took)
}
