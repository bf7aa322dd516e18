package proof

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
)

// maxRecord bounds a decoded event record.
const maxRecord = 64 << 20

// chains follows the chains of all entities. It keeps about 100 bytes for each.
type chains struct {
	trees   map[[16]byte]tail
	wanted  map[Hash]int // missing leaves that a link names: index of the finding
	shifts  map[int64]Finding
	spoiled map[uint64]string // why the record at a sequence is in no chain
	voids   map[string]bool   // leaves of void records
	found   []Finding
	first   uint64 // of the journal: earlier records were purged
	rep     *Report
}

// tail is the last event record of an entity.
type tail struct {
	seq     uint64
	leaf    Hash
	follows uint64 // see follows
	cut     bool   // it follows a record before the verified ones
}

const (
	prevHeader   = "Nats-Expected-Last-Subject-Sequence"
	noneFollowed = math.MaxUint64
)

// follows returns the sequence that the compare-and-swap of a record names, which its hash
// covers, or noneFollowed.
func (r *Record) follows() uint64 {
	if v := r.Header[prevHeader]; len(v) == 1 {
		if seq, err := strconv.ParseUint(v[0], 10, 64); err == nil && seq < r.Seq {
			return seq
		}
	}
	return noneFollowed
}

// isVoid reports whether engines ignore a record: its compare-and-swap should have failed,
// or it follows a void one. A copy of the record before counts as inserted instead.
func (c *chains) isVoid(before tail, r *checked) bool {
	if r.link != nil && c.voids[r.link.Hash] {
		return true
	}
	return r.follows() < before.seq && r.leaf != before.leaf && (r.link == nil || r.link.Hash != before.leaf.String())
}

func newChains(first uint64, rep *Report) *chains {
	return &chains{trees: map[[16]byte]tail{}, wanted: map[Hash]int{}, shifts: map[int64]Finding{}, spoiled: map[uint64]string{}, voids: map[string]bool{}, first: first, rep: rep}
}

// checked is a record with everything that can be computed from it alone.
type checked struct {
	*Record
	content  Hash
	leaf     Hash
	unproved string // what is shown without a proof, if anything
	withheld bool
	entity   [16]byte // the hash of Entity
	hidden   bool     // its body is not proved, but the next event record names its leaf
	link     *toolcall.Link
	err      error // of the link
}

func checkAlone(r Record) checked {
	content := r.Content()
	c := checked{Record: &r, content: content, leaf: Leaf(r.Subject, content), unproved: r.findUnproved(), withheld: r.Invalid == "" && r.isWithheld(), link: r.Prev}
	if r.Entity == "" || r.Invalid != "" {
		return c
	}
	c.entity = treeID(r.Entity)
	c.hidden = !r.BodyHash.IsZero() && (c.unproved != "" || string(r.Body()) == RedactedWhole)
	if c.link == nil && !c.hidden {
		c.link, c.err = LinkOf(r.Body())
	}
	return c
}

// LinkOf decodes only the link of an event record's body, or returns nil.
func LinkOf(body []byte) (*toolcall.Link, error) {
	var f struct {
		Prev *toolcall.Link `json:"prev"`
	}
	err := strictjson.UnmarshalOpen(body, &f, strictjson.MaxBytes(maxRecord))
	return f.Prev, err
}

func (c *chains) add(r *checked, add func(Finding)) {
	if r.unproved != "" {
		add(Finding{Kind: Changed, Seq: r.Seq, Subject: r.Subject, What: r.unproved})
	}
	if r.withheld {
		add(Finding{Kind: Withheld, Seq: r.Seq, Subject: r.Subject, What: "none of it is shown, although its engine permits that: export it with an engine of that release"})
	}
	if r.Entity == "" {
		return
	}
	if r.Invalid != "" {
		if len(c.spoiled) < MaxFindings {
			c.spoiled[r.Seq] = "no engine wrote it, and the event record that follows it in its call names another one"
			if r.Altered {
				c.spoiled[r.Seq] = r.Invalid
			}
		}
		return
	}
	c.rep.EventRecords++
	before, seen := c.trees[r.entity]
	if !seen {
		c.rep.Trees++
	}
	if _, moved := c.wanted[r.leaf]; seen && !moved && c.isVoid(before, r) {
		c.noteVoid(r.Seq, r.leaf, r.Subject)
		return
	}
	if r.hidden {
		c.trees[r.entity] = tail{r.Seq, r.leaf, r.follows(), before.cut}
		return
	}
	if r.err != nil {
		add(Finding{Kind: Unreadable, Seq: r.Seq, Subject: r.Subject, What: "cannot decode the event record: " + r.err.Error()})
		return
	}
	link := r.link
	if link != nil {
		c.rep.Chained++
	}
	if i, ok := c.wanted[r.leaf]; ok { // a later event record was read first
		c.found[i].Kind, c.found[i].Seq = Reordered, r.Seq
		c.found[i].What = fmt.Sprintf("it comes after the event record of its call that follows it; its place was %d", c.found[i].Through)
		c.found[i].Through = 0
		delete(c.wanted, r.leaf)
		return
	}
	if before.cut && link != nil && link.Seq < c.first && link.Seq > before.follows {
		c.noteVoid(before.seq, before.leaf, r.Subject) // this one follows the record that is not void
		before, seen = tail{}, false
	}
	c.checkLink(r.Record, link, before, seen)
	c.trees[r.entity] = tail{r.Seq, r.leaf, r.follows(), !seen && link != nil && 0 < link.Seq && link.Seq < c.first}
}

// noteVoid reports a record without effect, which is not a finding.
func (c *chains) noteVoid(seq uint64, leaf Hash, subject string) {
	if len(c.voids) < MaxFindings {
		c.voids[leaf.String()] = true
	}
	if c.rep.Void++; len(c.rep.Voids) < MaxFindings {
		c.rep.Voids = append(c.rep.Voids, Finding{Kind: Void, Seq: seq, Subject: subject, What: "it has no effect: an earlier record of its call follows the same one, or it follows such a record"})
	}
}

// checkLink compares an event record's link with the event record before it.
func (c *chains) checkLink(r *Record, link *toolcall.Link, before tail, seen bool) {
	add := func(k Kind, seq uint64, format string, args ...any) {
		c.found = append(c.found, Finding{Kind: k, Seq: seq, Subject: r.Subject, What: fmt.Sprintf(format, args...)})
	}
	switch {
	case link == nil:
		add(Unlinked, r.Seq, "it has no link")
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
		add(Changed, before.seq, "the event record of its call at %d follows another record than this one", r.Seq)
	case seen && link.Seq < before.seq:
		add(Inserted, r.Seq, "it follows %d, as the event record of its call at %d already does", link.Seq, before.seq)
	case c.spoiled[link.Seq] != "":
		add(Changed, link.Seq, "%s", c.spoiled[link.Seq])
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
