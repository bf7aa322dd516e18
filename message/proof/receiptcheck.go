package proof

import (
	"bytes"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// Checked is what a receipt proves.
type Checked struct {
	Key   message.Key `json:"call"`
	Story Story       `json:"story"`
	// Event records are in order, and none is missing between the first and the last.
	Records []*message.EventRecord `json:"-"`
	Count   int                    `json:"event_records"`
	First   uint64                 `json:"first_seq"`
	Last    uint64                 `json:"last_seq"`
	// KeyIDs are the engine keys that signed the checkpoints.
	KeyIDs []string `json:"key_ids"`
	// Unchained event records, at the beginning, are of a release that linked none.
	Unchained int `json:"unchained,omitzero"`
	// Redacted event records show less than was stored; the engine that stored them said
	// what, and what is shown is proved like the rest.
	Redacted int `json:"redacted,omitzero"`
	// Whole: the receipt begins with the call's first record.
	Whole bool `json:"from_the_beginning"`
	// Ended: the call is finished, and nothing can follow but remarks.
	Ended bool `json:"ended"`
}

// Check refuses a receipt in which anything does not fit: signatures, hashes,
// places, links, digests, grants, or the story. Any doubt is an error.
// retired says which of the keys sign no more; nil: none.
func (r *Receipt) Check(keys message.KeySet, retired Retired) (*Checked, error) {
	if err := r.form(); err != nil {
		return nil, err
	}
	out := &Checked{Key: r.Key, Story: r.Story, Count: len(r.Records), First: r.Records[0].Seq, Last: r.Records[len(r.Records)-1].Seq}
	signed, err := r.checkSignatures(keys, retired, out)
	if err != nil {
		return nil, err
	}
	for i := range r.Records {
		if err := r.Records[i].checkInclusion(signed); err != nil {
			return nil, err
		}
	}
	if out.Records, err = r.read(); err != nil {
		return nil, err
	}
	if err := r.checkLinks(out); err != nil {
		return nil, err
	}
	if err := r.checkBinding(out.Records, keys, retired); err != nil {
		return nil, err
	}
	if !isSame(storyOf(out.Records), r.Story) {
		return nil, refuse("what the receipt tells is not what its event records say")
	}
	out.Ended = r.Story.State == message.ToolCallFinished
	return out, nil
}

// checkSignatures checks the checkpoints and gives them by number.
func (r *Receipt) checkSignatures(keys message.KeySet, retired Retired, out *Checked) (map[uint64]*Checkpoint, error) {
	by := map[uint64]*Checkpoint{}
	ids := map[string]bool{}
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		if err := c.Verify(keys); err != nil {
			return nil, err
		}
		if err := retired.Check(*c, nil); err != nil {
			return nil, err
		}
		if c.Space != r.Space {
			return nil, refuse("checkpoint %d is of another space", c.Number)
		}
		by[c.Number] = c
		if !ids[c.KeyID] {
			ids[c.KeyID] = true
			out.KeyIDs = append(out.KeyIDs, c.KeyID)
		}
	}
	return by, nil
}

// checkInclusion checks that the record stands where a checkpoint has it.
func (p *Proved) checkInclusion(signed map[uint64]*Checkpoint) error {
	c := signed[p.Checkpoint]
	switch {
	case c == nil:
		return refuse("the checkpoint of the event record at %d is not there", p.Seq)
	case !c.Covers(p.Seq):
		return refuse("%s does not cover the event record at %d", c, p.Seq)
	case !Included(p.Leaf(), p.Seq-c.From, c.Size(), p.Path, c.Root):
		return refuse("the event record at %d is not the one that was signed", p.Seq)
	}
	return nil
}

// checkLinks checks that each event record follows the one before it.
func (r *Receipt) checkLinks(out *Checked) error {
	chained := false
	for i, f := range out.Records {
		rec := &r.Records[i]
		if !rec.BodyHash.IsZero() {
			out.Redacted++
		}
		switch link := f.Prev; {
		case link == nil && chained:
			return refuse("the event record at %d does not say what it follows", rec.Seq)
		case link == nil:
			out.Unchained++
			continue
		case link.Seq == 0 && link.Hash == "" && i == 0:
			out.Whole = true
		case link.Seq == 0 && i > 0:
			return refuse("the event record at %d begins the call again", rec.Seq)
		case i > 0 && (link.Seq != r.Records[i-1].Seq || link.Hash != r.Records[i-1].Leaf().String()):
			return refuse("the event record at %d follows another one than the receipt has before it", rec.Seq)
		case i == 0:
			return refuse("the receipt leaves out what the event record at %d follows", rec.Seq)
		}
		chained = true
	}
	return nil
}

// checkBinding checks that what was asked, answered and granted is one and the same.
func (r *Receipt) checkBinding(records []*message.EventRecord, keys message.KeySet, retired Retired) error {
	asked := map[string]bool{}
	for i, f := range records {
		c, seq := f.Call, r.Records[i].Seq
		if q := c.Request; q != nil {
			digest, err := q.Digest()
			if err != nil || digest != c.Digest || q.Key != r.Key || q.Tool != c.Tool {
				return refuse("the approval request in the event record at %d has not the digest that was answered", seq)
			}
			asked[digest] = true
		}
		for _, v := range c.Votes {
			if !asked[v.Digest] {
				return refuse("a vote of %s in the event record at %d answers an approval request that was not asked", v.By, seq)
			}
		}
		g := c.Attempt.Grant
		if g == nil {
			continue
		}
		if c.Request == nil || c.Input != c.Request.Input {
			return refuse("what was granted in the event record at %d is not what was asked", seq)
		}
		if err := g.Signed(keys); err != nil {
			return refuse("the grant in the event record at %d is not good: %v", seq, err)
		}
		if retired.Over(g.KeyID, g.NotBefore) {
			return refuse("the grant in the event record at %d is signed by a key that was retired before", seq)
		}
		if g.V != 1 || g.Digest != c.Digest || g.Key != r.Key || g.Tool != c.Tool || g.Attempt != c.Attempt.Number || g.Bundle != c.Request.Bundle {
			return refuse("the grant in the event record at %d was given for something else", seq)
		}
	}
	return nil
}

// isSame reports whether two stories have one canonical form.
func isSame(a, b Story) bool {
	x, err := jcs.Marshal(a)
	if err != nil {
		return false
	}
	y, err := jcs.Marshal(b)
	return err == nil && bytes.Equal(x, y)
}
