package proof

import (
	"crypto/sha256"
	"fmt"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
)

// maxRecord bounds a decoded event record.
const maxRecord = 64 << 20

// chains follows the chains of all entities. It keeps about 100 bytes for each.
type chains struct {
	trees   map[[16]byte]tail
	wanted  map[Hash]int // leaves that a link names and that are missing so far: index of the finding
	shifts  map[int64]Finding
	spoiled map[uint64]bool // sequences of records that engines do not believe
	found   []Finding
	first   uint64 // of the journal: earlier records were purged
	rep     *Report
}

// tail is the last event record of an entity.
type tail struct {
	seq     uint64
	leaf    Hash
	chained bool
}

func newChains(first uint64, rep *Report) *chains {
	return &chains{trees: map[[16]byte]tail{}, wanted: map[Hash]int{}, shifts: map[int64]Finding{}, spoiled: map[uint64]bool{}, first: first, rep: rep}
}

// linkOf reads only the link of an event record.
func linkOf(body []byte) (*toolcall.Link, error) {
	var f struct {
		Prev *toolcall.Link `json:"prev"`
	}
	err := strictjson.UnmarshalOpen(body, &f, strictjson.MaxBytes(maxRecord))
	return f.Prev, err
}

// add adds the next record.
func (c *chains) add(r *Record, leaf Hash, add func(Finding)) {
	why := r.findUnproved()
	if why != "" {
		add(Finding{Kind: Changed, Seq: r.Seq, Subject: r.Subject, What: why})
	}
	if r.isWithheld() {
		add(Finding{Kind: Withheld, Seq: r.Seq, Subject: r.Subject, What: "nothing of it is shown, although its engine permits more: export it with an engine of that release"})
	}
	if r.Entity == "" {
		return
	}
	if r.Invalid != "" {
		if len(c.spoiled) < MaxFindings {
			c.spoiled[r.Seq] = true
		}
		return
	}
	c.rep.EventRecords++
	id := treeID(r.Entity)
	before, seen := c.trees[id]
	if !seen {
		c.rep.Trees++
	}
	if !r.BodyHash.IsZero() && (why != "" || string(r.Body()) == RedactedWhole) { // its body is not proved, but the next event record names its leaf
		c.trees[id] = tail{r.Seq, leaf, before.chained}
		return
	}
	link, err := linkOf(r.Body())
	if err != nil {
		add(Finding{Kind: Unreadable, Seq: r.Seq, Subject: r.Subject, What: "cannot decode the event record: " + err.Error()})
		return
	}
	c.countLink(r.Seq, link)
	if i, ok := c.wanted[leaf]; ok { // a later event record came first
		c.found[i].Kind, c.found[i].Seq = Reordered, r.Seq
		c.found[i].What = fmt.Sprintf("it comes after the event record of its call that follows it; its place was %d", c.found[i].Through)
		c.found[i].Through = 0
		delete(c.wanted, leaf)
		return
	}
	c.checkLink(r, link, before, seen)
	c.trees[id] = tail{r.Seq, leaf, link != nil || before.chained}
}

func (c *chains) countLink(seq uint64, link *toolcall.Link) {
	switch {
	case link == nil:
		c.rep.Unchained++
		return
	case c.rep.Chained == 0:
		c.rep.ChainFrom = seq
	}
	c.rep.Chained++
}

// checkLink compares an event record's link with the event record before it.
func (c *chains) checkLink(r *Record, link *toolcall.Link, before tail, seen bool) {
	add := func(k Kind, seq uint64, format string, args ...any) {
		c.found = append(c.found, Finding{Kind: k, Seq: seq, Subject: r.Subject, What: fmt.Sprintf(format, args...)})
	}
	switch {
	case link == nil && before.chained:
		add(Unlinked, r.Seq, "it has no link, although the event record of its call at %d has one", before.seq)
	case link == nil:
	case seen && link.Hash == before.leaf.String():
		if d := int64(before.seq) - int64(link.Seq); d != 0 {
			if _, have := c.shifts[d]; !have {
				c.shifts[d] = Finding{Seq: before.seq, Subject: r.Subject, What: fmt.Sprintf("by the event record that follows it, its place was %d", link.Seq)}
			}
		}
	case link.Seq == 0 && seen:
		add(Inserted, r.Seq, "it begins its call, which began earlier")
	case link.Seq == 0, !seen && link.Seq < c.first:
	case seen && link.Seq == before.seq:
		add(Changed, before.seq, "the event record of its call at %d follows another record than the present one", r.Seq)
	case seen && link.Seq < before.seq:
		add(Inserted, r.Seq, "it follows %d, as the event record of its call at %d already does", link.Seq, before.seq)
	case c.spoiled[link.Seq]:
		add(Changed, link.Seq, "the event record of its call at %d follows another record than the present one, which no engine wrote", r.Seq)
	default:
		add(Removed, link.Seq, "the event record of its call at %d follows it, and it is missing", r.Seq)
		if want, err := ParseHash(link.Hash); err == nil {
			c.found[len(c.found)-1].Through = link.Seq
			c.wanted[want] = len(c.found) - 1
		}
	}
}

// explainShifts reports shifted sequences that no checkpoint explains.
func (c *chains) explainShifts(add func(Finding)) {
	up, down := false, false
	for d := range c.shifts {
		up, down = up || d > 0, down || d < 0
	}
	kind := Reordered
	switch {
	case up && !down:
		kind = Inserted
	case down && !up:
		kind = Removed
	}
	var first Finding
	for _, f := range c.shifts {
		if first.Seq == 0 || f.Seq < first.Seq {
			first = f
		}
	}
	if first.Seq == 0 {
		return
	}
	first.Kind = kind
	switch kind {
	case Inserted:
		first.What += ": a record was inserted before it"
	case Removed:
		first.What += ": a record before it was removed"
	default:
	}
	add(first)
}

func treeID(tree string) [16]byte {
	sum := sha256.Sum256([]byte(tree))
	return [16]byte(sum[:16])
}
