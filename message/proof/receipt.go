package proof

import (
	"cmp"
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Receipt proves what became of one call, without a server: the call's event records as
// they were stored, each with its way to the root of a signed checkpoint.
type Receipt struct {
	Kind string `json:"type"` // "askance-receipt"
	V    int    `json:"v"`    // 1
	// Made is when the receipt was made, by the clock of its maker. Nothing
	// proves it, and Check does not show it.
	Made time.Time `json:"made_at"`
	message.Key
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
	Votes    []message.Vote        `json:"votes"` // each says how its author was authenticated
	Attempts []message.Attempt     `json:"attempts"`
	Grants   []message.Grant       `json:"grants"`
	// ResultState and ResultDigest are those of the end.
	ResultState  message.ToolResultState `json:"result_state,omitzero"`
	ResultDigest string                  `json:"result_digest,omitzero"`
}

// Asked is an approval request with the digest that answers and grants name.
type Asked struct {
	Digest  string                  `json:"digest"`
	Request message.ApprovalRequest `json:"request"`
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
func MakeReceipt(key message.Key, records []Record, sealed []Sealed, now time.Time) (*Receipt, error) {
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
	case len(r.Records) == 0 || len(r.Records) > message.MaxRecordsPerCall+1:
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
func (r *Receipt) read() ([]*message.EventRecord, error) {
	out := make([]*message.EventRecord, len(r.Records))
	for i := range r.Records {
		rec := &r.Records[i]
		if why := rec.findUnproved(); why != "" || rec.isWithheld() || !rec.BodyHash.IsZero() && string(rec.Body()) == RedactedWhole {
			return nil, refuse("of the event record at %d nothing that is shown is proved: %s", rec.Seq, cmp.Or(why, "nothing is shown"))
		}
		var f message.EventRecord
		if err := strictjson.Unmarshal(rec.Body(), &f, strictjson.MaxBytes(maxRecord)); err != nil {
			return nil, refuse("the event record at %d cannot be read: %v", rec.Seq, err)
		}
		ids := rec.Header["Nats-Msg-Id"]
		switch {
		case f.V != message.RecordVersion || f.Call == nil:
			return nil, refuse("the record at %d is no event record of a call with version %d", rec.Seq, message.RecordVersion)
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
func storyOf(records []*message.EventRecord) Story {
	s := Story{Records: len(records), Requests: []Asked{}, Votes: []message.Vote{}, Attempts: []message.Attempt{}, Grants: []message.Grant{}}
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
func (s *Story) attempt(a message.Attempt) {
	a.Grant = nil // it stands among the grants
	switch n := len(s.Attempts); {
	case a.Number == 0:
	case n > 0 && s.Attempts[n-1].Number == a.Number:
		s.Attempts[n-1] = a
	default:
		s.Attempts = append(s.Attempts, a)
	}
}
