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

// Receipt proves the history of one call without a server: it has the call's stored
// event records, each with its path to the root of a signed checkpoint.
type Receipt struct {
	Kind string `json:"type"` // "askance-receipt"
	V    int    `json:"v"`    // 1
	// Made is the time of its maker. It is not proved, and Check does not return it.
	Made time.Time `json:"made_at"`
	toolcall.Key
	// Story summarizes the event records. Check refuses a receipt with another story.
	Story       Story        `json:"story"`
	Records     []Proved     `json:"event_records"`
	Checkpoints []Checkpoint `json:"checkpoints"`
}

// Proved is a record with its path to the root of a checkpoint.
type Proved struct {
	Record
	Checkpoint uint64 `json:"checkpoint"` // its number
	Path       []Hash `json:"path"`       // RFC 6962 inclusion proof
}

// Story summarizes the event records of a call.
type Story struct {
	Records      int                     `json:"event_records"` // their number, with notes
	Tool         string                  `json:"tool_name"`
	State        message.ToolCallState   `json:"state"`
	Cause        string                  `json:"cause"` // of the last step
	Requests     []Asked                 `json:"requests"`
	Votes        []toolcall.Vote         `json:"votes"` // with how each author was authenticated
	Attempts     []toolcall.Attempt      `json:"attempts"`
	Grants       []toolcall.Grant        `json:"grants"`
	ResultState  message.ToolResultState `json:"result_state,omitzero"`
	ResultDigest string                  `json:"result_digest,omitzero"`
}

// Asked is an approval request with the digest that responses and grants name.
type Asked struct {
	Digest  string                   `json:"digest"`
	Request toolcall.ApprovalRequest `json:"request"`
}

const (
	receiptKind = "askance-receipt"
	kindHeader  = "Askance-Kind"
	// MaxReceiptBytes bounds a receipt file.
	MaxReceiptBytes = 64 << 20
	// maxPath exceeds the depth of a tree of MaxRecords leaves.
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
			return nil, &message.Error{Code: message.CodeConflict, Op: op, What: fmt.Sprintf("the record %d is not signed yet", f.Seq), Hint: "sign it with askance audit checkpoint"}
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
			return nil, &message.Error{Code: message.CodeConflict, Op: op, What: fmt.Sprintf("no part of the record %d may be shown, so a receipt would prove nothing", f.Seq), Hint: "make the receipt with an engine of the release that wrote it"}
		}
		f.Time = time.Time{} // not proved
		r.Records = append(r.Records, Proved{Record: f, Checkpoint: c.Number, Path: path})
	}
	read, err := r.decodeRecords()
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

// Encode encodes the receipt as a file.
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

// DecodeReceipt reads a receipt and checks its form. Check verifies it.
func DecodeReceipt(b []byte) (*Receipt, error) {
	var r Receipt
	if err := strictjson.Unmarshal(b, &r, strictjson.MaxBytes(MaxReceiptBytes)); err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read receipt", What: "the file is not a receipt", Hint: "use a file of askance audit receipt", Err: err}
	}
	return &r, r.checkForm()
}

// checkForm checks everything but hashes.
func (r *Receipt) checkForm() error {
	var bad string
	switch {
	case r.Kind != receiptKind || r.V != 1:
		bad = "it is not an askance-receipt of version 1"
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
			bad = "its event records are not in order"
		}
		if len(f.Path) > maxPath || f.Invalid != "" || f.Altered || !f.Time.IsZero() {
			bad = "an event record has members that do not belong in a receipt"
		}
	}
	for i, c := range r.Checkpoints {
		if i > 0 && c.Number <= r.Checkpoints[i-1].Number {
			bad = "its checkpoints are not in order"
		}
		if !used[c.Number] {
			bad = "it has a checkpoint that covers none of its event records"
		}
	}
	if bad != "" {
		return refuse("%s", bad)
	}
	return nil
}

func refuse(format string, args ...any) error {
	return &message.Error{Code: message.CodeForbidden, Op: "check receipt", What: fmt.Sprintf(format, args...), Hint: "do not trust the receipt: it was changed or forged"}
}

func (r *Receipt) decodeRecords() ([]*toolcall.EventRecord, error) {
	out := make([]*toolcall.EventRecord, len(r.Records))
	var read Expander
	for i := range r.Records {
		rec := &r.Records[i]
		if why := rec.findUnproved(); why != "" || rec.isWithheld() || !rec.BodyHash.IsZero() && string(rec.Body()) == RedactedWhole {
			return nil, refuse("the event record at %d shows nothing that is proved: %s", rec.Seq, cmp.Or(why, "nothing is shown"))
		}
		record, err := read.Expand(&rec.Record)
		if err != nil {
			return nil, refuse("cannot decode the event record at %d: %v", rec.Seq, err)
		}
		ids := rec.Header["Nats-Msg-Id"]
		switch {
		case record.Call == nil:
			return nil, refuse("the record at %d is not an event record of a call", rec.Seq)
		case record.Call.Key != r.Key:
			return nil, refuse("the event record at %d belongs to the call %s", rec.Seq, record.Call.Key)
		case len(ids) != 1 || ids[0] != record.ID:
			return nil, refuse("the event record at %d was stored under another id", rec.Seq)
		case len(rec.Header[kindHeader]) > 0 && rec.Header[kindHeader][0] != record.Kind():
			return nil, refuse("the event record at %d was stored as another step", rec.Seq)
		}
		out[i] = record
	}
	return out, nil
}

func storyOf(records []*toolcall.EventRecord) Story {
	s := Story{Records: len(records), Requests: []Asked{}, Votes: []toolcall.Vote{}, Attempts: []toolcall.Attempt{}, Grants: []toolcall.Grant{}}
	asked, granted := map[string]bool{}, map[string]bool{}
	for _, rec := range records {
		c := rec.Call
		if rec.Note == nil {
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
		s.addAttempt(c.Attempt)
	}
	return s
}

// addAttempt adds an attempt, or replaces it by its later state.
func (s *Story) addAttempt(a toolcall.Attempt) {
	a.Grant = nil // it is listed with the grants
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
	// Records are in order and without a gap.
	Records []*toolcall.EventRecord `json:"-"`
	Count   int                     `json:"event_records"`
	First   uint64                  `json:"first_seq"`
	Last    uint64                  `json:"last_seq"`
	// KeyIDs are the engine keys of the checkpoints.
	KeyIDs []string `json:"key_ids"`
	// Redacted counts event records that show less than was stored; what they show is also
	// proved.
	Redacted int `json:"redacted,omitzero"`
	// Whole is set if the receipt begins with the call's first record.
	Whole bool `json:"from_the_beginning"`
	// Ended is set if the call is finished, so only notes can follow.
	Ended bool `json:"ended"`
}

// Check verifies the signatures, hashes, places, links, digests, grants and the story
// of a receipt. Any doubt is an error. retired may be nil.
func (r *Receipt) Check(keys toolcall.KeySet, retired Retired) (*Checked, error) {
	if err := r.checkForm(); err != nil {
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
	if out.Records, err = r.decodeRecords(); err != nil {
		return nil, err
	}
	if err := r.checkLinks(out); err != nil {
		return nil, err
	}
	if err := r.checkBinding(out.Records, keys, retired); err != nil {
		return nil, err
	}
	if !isSame(storyOf(out.Records), r.Story) {
		return nil, refuse("the summary of the receipt does not match its event records")
	}
	out.Ended = r.Story.State == message.ToolCallFinished
	return out, nil
}

// CheckReceipt reads and checks a receipt, and that the state machine permits its steps.
func CheckReceipt(b []byte, keys toolcall.KeySet, retired Retired) (*Checked, error) {
	r, err := DecodeReceipt(b)
	if err != nil {
		return nil, err
	}
	checked, err := r.Check(keys, retired)
	if err != nil {
		return nil, err
	}
	if _, err := toolcall.Replay(checked.Records); err != nil {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "check receipt", What: "the records do not follow the state machine, so that no engine wrote them", Hint: "do not trust the receipt; request a new one from the operator", Err: err}
	}
	return checked, nil
}

// checkSignatures verifies the checkpoints and returns them by number.
func (r *Receipt) checkSignatures(keys toolcall.KeySet, retired Retired, out *Checked) (map[uint64]*Checkpoint, error) {
	by := map[uint64]*Checkpoint{}
	ids := map[string]bool{}
	var before *Checkpoint
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		if err := c.Verify(keys); err != nil {
			return nil, err
		}
		if err := retired.Check(*c, before); err != nil {
			return nil, err
		}
		before = c
		if c.Space != r.Space {
			return nil, refuse("checkpoint %d belongs to another space", c.Number)
		}
		by[c.Number] = c
		if !ids[c.KeyID] {
			ids[c.KeyID] = true
			out.KeyIDs = append(out.KeyIDs, c.KeyID)
		}
	}
	return by, nil
}

// checkInclusion checks that a checkpoint has the record at its place.
func (p *Proved) checkInclusion(signed map[uint64]*Checkpoint) error {
	c := signed[p.Checkpoint]
	switch {
	case c == nil:
		return refuse("the checkpoint of the event record at %d is missing", p.Seq)
	case !c.Covers(p.Seq):
		return refuse("%s does not cover the event record at %d", c, p.Seq)
	case !Included(p.Leaf(), p.Seq-c.From, c.Size(), p.Path, c.Root):
		return refuse("the event record at %d is not the signed one", p.Seq)
	}
	return nil
}

// checkLinks checks that each event record follows the one before it.
func (r *Receipt) checkLinks(out *Checked) error {
	for i, record := range out.Records {
		rec := &r.Records[i]
		if !rec.BodyHash.IsZero() {
			out.Redacted++
		}
		switch link := record.Prev; {
		case link == nil:
			return refuse("the event record at %d has no link", rec.Seq)
		case link.Seq == 0 && link.Hash == "" && i == 0:
			out.Whole = true
		case link.Seq == 0 && i > 0:
			return refuse("the event record at %d begins the call again", rec.Seq)
		case i > 0 && (link.Seq != r.Records[i-1].Seq || link.Hash != r.Records[i-1].Leaf().String()):
			return refuse("the event record at %d does not follow the one before it in the receipt", rec.Seq)
		case i == 0:
			return refuse("the receipt lacks the record that the event record at %d follows", rec.Seq)
		}
	}
	return nil
}

// checkBinding checks that requests, votes and grants belong together.
func (r *Receipt) checkBinding(records []*toolcall.EventRecord, keys toolcall.KeySet, retired Retired) error {
	asked := map[string]bool{}
	for i, rec := range records {
		c, seq := rec.Call, r.Records[i].Seq
		if req := c.Request; req != nil {
			digest, err := req.Digest()
			if err != nil || digest != c.Digest || req.Key != r.Key || req.Tool != c.Tool {
				return refuse("the approval request in the event record at %d does not have the digest of the call", seq)
			}
			asked[digest] = true
		}
		for _, v := range c.Votes {
			if !asked[v.Digest] {
				return refuse("a vote of %s in the event record at %d responds to a request that the receipt lacks", v.By, seq)
			}
		}
		g := c.Attempt.Grant
		if g == nil {
			continue
		}
		if c.Request == nil || c.Input != c.Request.Input {
			return refuse("the granted arguments in the event record at %d are not the requested ones", seq)
		}
		if err := g.Signed(keys); err != nil {
			return refuse("the grant in the event record at %d is not valid: %v", seq, err)
		}
		if retired.isRetired(g.KeyID, g.NotBefore) {
			return refuse("the grant in the event record at %d is signed with a key that was already retired", seq)
		}
		if g.V != 1 || g.Digest != c.Digest || g.Key != r.Key || g.Tool != c.Tool || g.Attempt != c.Attempt.Number || g.Bundle != c.Request.Bundle {
			return refuse("the grant in the event record at %d is for another call or request", seq)
		}
	}
	return nil
}

// isSame reports whether two stories have the same canonical form.
func isSame(a, b Story) bool {
	x, err := jcs.Marshal(a)
	if err != nil {
		return false
	}
	y, err := jcs.Marshal(b)
	return err == nil && bytes.Equal(x, y)
}
