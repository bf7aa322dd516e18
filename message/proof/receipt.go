package proof

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Receipt proves what became of one call, without a server: the call's event records as
// they were stored, each with its way to the root of a signed checkpoint.
type Receipt struct {
	Kind string `json:"type"` // "askance-receipt"
	V    int    `json:"v"`    // 1
	// Made is when the receipt was made, by the clock of its maker. Nothing
	// proves it, and Check does not show it.
	Made time.Time `json:"made_at"`
	toolcall.Key
	// Story repeats what the event records say. It is derived from them, and a receipt
	// whose story is another one is refused.
	Story       Story        `json:"story"`
	Records     []Proved     `json:"event_records"`
	Checkpoints []Checkpoint `json:"checkpoints"`
}

// Proved is a record and its way to the root of a checkpoint.
type Proved struct {
	Record
	Checkpoint uint64 `json:"checkpoint"` // its number
	Path       []Hash `json:"path"`       // RFC 6962 inclusion proof
}

// Story is what the event records of a call say.
type Story struct {
	Records  int                   `json:"event_records"` // how many there are, remarks included
	Tool     string                `json:"tool_name"`
	State    message.ToolCallState `json:"state"`
	Cause    string                `json:"cause"` // of the last step
	Requests []Asked               `json:"requests"`
	Votes    []toolcall.Vote       `json:"votes"` // each says how its author was authenticated
	Attempts []toolcall.Attempt    `json:"attempts"`
	Grants   []toolcall.Grant      `json:"grants"`
	// ResultState and ResultDigest are those of the end.
	ResultState  message.ToolResultState `json:"result_state,omitzero"`
	ResultDigest string                  `json:"result_digest,omitzero"`
}

// Asked is an approval request with the digest that answers and grants name.
type Asked struct {
	Digest  string                   `json:"digest"`
	Request toolcall.ApprovalRequest `json:"request"`
}

const (
	receiptKind = "askance-receipt"
	kindHeader  = "Askance-Kind"
	// MaxReceiptBytes bounds a receipt file.
	MaxReceiptBytes = 64 << 20
	// maxPath is more than any tree of MaxRecords leaves needs.
	maxPath = 16
)

// MakeReceipt makes the receipt of a call from its event records, oldest first, and the
// stored checkpoints that cover them.
func MakeReceipt(key toolcall.Key, records []Record, sealed []Sealed, now time.Time) (*Receipt, error) {
	const op = "make receipt"
	r := &Receipt{Kind: receiptKind, V: 1, Made: now, Key: key, Records: []Proved{}, Checkpoints: []Checkpoint{}}
	leaves := map[uint64][]Hash{}
	for _, f := range records {
		s := findCovering(sealed, f.Seq)
		if s == nil {
			return nil, &message.Error{Code: message.CodeConflict, Op: op, What: fmt.Sprintf("the record %d is not signed yet", f.Seq), Hint: "askance audit checkpoint has it signed"}
		}
		c := s.Checkpoint
		if leaves[c.Number] == nil {
			entries, err := s.Entries()
			if err != nil {
				return nil, err
			}
			leaves[c.Number] = Leaves(entries)
			r.Checkpoints = append(r.Checkpoints, c)
		}
		path, err := Path(leaves[c.Number], f.Seq-c.From)
		if err != nil {
			return nil, err
		}
		if !f.BodyHash.IsZero() && string(f.Body()) == RedactedWhole {
			return nil, &message.Error{Code: message.CodeConflict, Op: op, What: fmt.Sprintf("of the record %d nothing may be shown, so that a receipt would tell nothing", f.Seq), Hint: "have an engine of the release that wrote it make the receipt"}
		}
		f.Time = time.Time{} // it is not proved
		r.Records = append(r.Records, Proved{Record: f, Checkpoint: c.Number, Path: path})
	}
	read, err := r.read()
	if err != nil {
		return nil, err
	}
	r.Story = storyOf(read)
	return r, nil
}

func findCovering(sealed []Sealed, seq uint64) *Sealed {
	for i := range sealed {
		if sealed[i].Checkpoint.Covers(seq) {
			return &sealed[i]
		}
	}
	return nil
}

// Encode is the receipt as a file.
func (r *Receipt) Encode() ([]byte, error) {
	b, err := strictjson.Marshal(r)
	if err == nil && len(b) > MaxReceiptBytes {
		err = fmt.Errorf("it has %d bytes, the limit is %d", len(b), MaxReceiptBytes)
	}
	if err != nil {
		return nil, &message.Error{Code: message.CodeTooLarge, Op: "write receipt", What: "the receipt cannot be written", Err: err}
	}
	return b, nil
}

// DecodeReceipt reads a receipt strictly. What comes back has the form of one;
// whether it proves anything Check says.
func DecodeReceipt(b []byte) (*Receipt, error) {
	var r Receipt
	if err := strictjson.Unmarshal(b, &r, strictjson.MaxBytes(MaxReceiptBytes)); err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read receipt", What: "the file is no receipt", Err: err}
	}
	return &r, r.form()
}

// form checks what can be checked without looking at hashes.
func (r *Receipt) form() error {
	var bad string
	switch {
	case r.Kind != receiptKind || r.V != 1:
		bad = "it is no askance-receipt of version 1"
	case r.Made.IsZero():
		bad = "it does not say when it was made"
	case r.Key.Validate() != nil:
		bad = "it names no call"
	case len(r.Records) == 0 || len(r.Records) > toolcall.MaxRecordsPerCall+1:
		bad = "it has no event records, or more than a call can have"
	case len(r.Checkpoints) == 0 || len(r.Checkpoints) > len(r.Records):
		bad = "it has no checkpoints, or more than it has event records"
	}
	used := map[uint64]bool{}
	for i := range r.Records {
		f := &r.Records[i]
		f.Entity, used[f.Checkpoint] = r.Key.String(), true
		if i > 0 && f.Seq <= r.Records[i-1].Seq {
			bad = "its event records do not stand in their order"
		}
		if len(f.Path) > maxPath || f.Invalid != "" || f.Altered || !f.Time.IsZero() {
			bad = "an event record carries what no receipt has"
		}
	}
	for i, c := range r.Checkpoints {
		if i > 0 && c.Number <= r.Checkpoints[i-1].Number {
			bad = "its checkpoints do not stand in their order"
		}
		if !used[c.Number] {
			bad = "it has a checkpoint that none of its event records stands under"
		}
	}
	if bad != "" {
		return refuse("%s", bad)
	}
	return nil
}

func refuse(format string, args ...any) error {
	return &message.Error{Code: message.CodeForbidden, Op: "check receipt", What: fmt.Sprintf(format, args...), Hint: "the receipt proves nothing: it was changed, or forged"}
}

// read decodes the event records as they stand in the receipt.
func (r *Receipt) read() ([]*toolcall.EventRecord, error) {
	out := make([]*toolcall.EventRecord, len(r.Records))
	for i := range r.Records {
		rec := &r.Records[i]
		if why := rec.findUnproved(); why != "" || rec.isWithheld() || !rec.BodyHash.IsZero() && string(rec.Body()) == RedactedWhole {
			return nil, refuse("of the event record at %d nothing that is shown is proved: %s", rec.Seq, cmp.Or(why, "nothing is shown"))
		}
		var f toolcall.EventRecord
		if err := strictjson.Unmarshal(rec.Body(), &f, strictjson.MaxBytes(maxRecord)); err != nil {
			return nil, refuse("the event record at %d cannot be read: %v", rec.Seq, err)
		}
		ids := rec.Header["Nats-Msg-Id"]
		switch {
		case f.V != toolcall.RecordVersion || f.Call == nil:
			return nil, refuse("the record at %d is no event record of a call with version %d", rec.Seq, toolcall.RecordVersion)
		case f.Call.Key != r.Key:
			return nil, refuse("the event record at %d is of the call %s", rec.Seq, f.Call.Key)
		case len(ids) != 1 || ids[0] != f.ID:
			return nil, refuse("the event record at %d was stored under another id", rec.Seq)
		case len(rec.Header[kindHeader]) > 0 && rec.Header[kindHeader][0] != f.Kind():
			return nil, refuse("the event record at %d was stored as another step", rec.Seq)
		}
		out[i] = &f
	}
	return out, nil
}

// storyOf tells what the event records say.
func storyOf(records []*toolcall.EventRecord) Story {
	s := Story{Records: len(records), Requests: []Asked{}, Votes: []toolcall.Vote{}, Attempts: []toolcall.Attempt{}, Grants: []toolcall.Grant{}}
	asked, granted := map[string]bool{}, map[string]bool{}
	for _, f := range records {
		c := f.Call
		if f.Note == nil {
			s.Tool, s.State, s.Cause, s.ResultDigest = c.Tool, c.State, c.Cause, c.ResultDigest
			if c.Result != nil {
				s.ResultState = c.Result.State
			}
		}
		if c.Request != nil && !asked[c.Digest] {
			asked[c.Digest] = true
			s.Requests = append(s.Requests, Asked{c.Digest, *c.Request})
		}
		if len(c.Votes) > 0 && len(c.Votes) >= len(s.Votes) {
			s.Votes = c.Votes
		}
		if g := c.Attempt.Grant; g != nil && !granted[g.Sig] {
			granted[g.Sig] = true
			s.Grants = append(s.Grants, *g)
		}
		s.attempt(c.Attempt)
	}
	return s
}

// attempt takes an attempt in as its last event record has it.
func (s *Story) attempt(a toolcall.Attempt) {
	a.Grant = nil // it stands among the grants
	switch n := len(s.Attempts); {
	case a.Number == 0:
	case n > 0 && s.Attempts[n-1].Number == a.Number:
		s.Attempts[n-1] = a
	default:
		s.Attempts = append(s.Attempts, a)
	}
}

// Checked is what a receipt proves.
type Checked struct {
	Key   toolcall.Key `json:"call"`
	Story Story        `json:"story"`
	// Event records are in order, and none is missing between the first and the last.
	Records []*toolcall.EventRecord `json:"-"`
	Count   int                     `json:"event_records"`
	First   uint64                  `json:"first_seq"`
	Last    uint64                  `json:"last_seq"`
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
func (r *Receipt) Check(keys toolcall.KeySet, retired Retired) (*Checked, error) {
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
func (r *Receipt) checkSignatures(keys toolcall.KeySet, retired Retired, out *Checked) (map[uint64]*Checkpoint, error) {
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
func (r *Receipt) checkBinding(records []*toolcall.EventRecord, keys toolcall.KeySet, retired Retired) error {
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
