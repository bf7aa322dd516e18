package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

const (
	longestVerification = 30 * time.Minute
	mostFindings        = 100 // in a reply
)

// verification is the running verification of a ledger, or the last one.
type verification struct {
	mu  sync.Mutex // guards now
	now *api.Verification
}

// Proofs implements the operations that prove the content of the ledger's journal.
type Proofs struct {
	l    *Ledger
	last verification
}

// NewProofs returns the proof operations of a ledger.
func NewProofs(l *Ledger) *Proofs { return &Proofs{l: l} }

// ProofStatus returns how far the journal is signed. If verify is true, it starts a
// verification unless one is running.
func (p *Proofs) ProofStatus(ctx context.Context, verify bool) (api.ProofStatusReply, error) {
	out := api.ProofStatusReply{Damage: []string{}, Losses: []string{}}
	x, err := p.l.j.guard.examineJournal(ctx)
	if err != nil {
		return out, err
	}
	out.First, out.Last = x.First, x.Last
	for _, f := range x.Flaws {
		out.Damage = append(out.Damage, f.What)
	}
	for _, l := range x.Losses {
		out.Losses = append(out.Losses, fmt.Sprintf("%s accepted a loss at %s: %s", l.By, l.At.UTC().Format("2006-01-02 15:04 UTC"), l.Reason))
	}
	newest, err := p.l.kept.readNewest(ctx)
	if err != nil {
		return out, err
	}
	if c := newest.checkpoint; c != nil {
		hash, err := c.Hash()
		if err != nil {
			return out, err
		}
		out.Signed, out.Checkpoint, out.SignedAt, out.Engine, out.KeyID = c.To, c.Number, c.At, c.Engine, c.KeyID
		out.Anchor = proof.Anchor{Number: c.Number, Hash: hash}.String()
	}
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	if verify && (p.last.now == nil || !p.last.now.Running) {
		p.last.now = &api.Verification{Running: true, BeganAt: time.Now().UTC(), Through: x.Last, Findings: []api.VerifiedFinding{}}
		go p.verify(x.First, x.Last)
	}
	if p.last.now != nil {
		v := *p.last.now
		out.Verification = &v
	}
	return out, nil
}

// verify compares the journal with its checkpoints, until the journal ends.
func (p *Proofs) verify(first, last uint64) {
	ctx, cancel := context.WithTimeout(p.l.j.guard.ended, longestVerification)
	defer cancel()
	r, err := p.compare(ctx, first, last)
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	v := p.last.now
	v.Running, v.EndedAt = false, time.Now().UTC()
	if err != nil {
		v.Error = message.AsError("verify", err).What
		return
	}
	v.OK, v.Read, v.Records, v.Checkpoints, v.Covered, v.Uncovered, v.Found = r.OK, r.Last, r.Records, r.Checkpoints, r.CoverTo, r.Uncovered, r.Found
	for _, f := range r.Findings[:min(len(r.Findings), mostFindings)] {
		v.Findings = append(v.Findings, api.VerifiedFinding{Kind: string(f.Kind), Seq: f.Seq, Through: f.Through, Call: f.Call, What: f.What})
	}
}

func (p *Proofs) compare(ctx context.Context, first, last uint64) (*proof.Report, error) {
	signed, err := p.l.Records(ctx, bus.RecordsRequest{V: 1, Of: bus.AuditCheckpoints, Limit: 1})
	if err != nil {
		return nil, err
	}
	signing := p.l.kept.signing()
	checkpoints := Bodies(Walk(ctx, p.l, bus.AuditCheckpoints, 0, signed.Last))
	o := proof.Options{Space: p.l.j.space, Keys: signing.VerificationKeys(), Retired: signing.RetirementTimes(), First: first, Last: last, Name: bus.NameOf, Workers: 1}
	if o.Losses, err = proof.Losses(checkpoints, o.Keys, o.Retired); err != nil {
		return nil, err
	}
	if o.Archives, err = proof.Archives(checkpoints, o.Keys, o.Retired); err != nil {
		return nil, err
	}
	if first := p.l.j.guard.archives.firstSequence(); first > 0 {
		o.First = min(o.First, first)
	}
	o.Progress = func(seq uint64) {
		p.last.mu.Lock()
		defer p.last.mu.Unlock()
		p.last.now.Read = seq
	}
	return proof.Verify(checkpoints, Walk(ctx, p.l, bus.AuditJournal, 0, last), o)
}

// MakeReceipt makes the receipt of a call, without the values that rules redact. It first
// signs records that are not signed yet.
func (p *Proofs) MakeReceipt(ctx context.Context, key toolcall.Key) ([]byte, error) {
	r, err := MakeReceipt(ctx, p.l, key)
	if err != nil {
		return nil, err
	}
	return r.Encode()
}

// CheckReceipt checks a receipt with the keys of the space's engines.
func (p *Proofs) CheckReceipt(b []byte) (api.CheckReceiptReply, error) {
	signing := p.l.kept.signing()
	c, err := proof.CheckReceipt(b, signing.VerificationKeys(), signing.RetirementTimes())
	if err != nil {
		e := message.AsError("check receipt", err)
		out := api.CheckReceiptReply{Reason: e.What}
		if cause := errors.Unwrap(e); cause != nil {
			out.Reason += ": " + cause.Error()
		}
		return out, nil
	}
	key, s := c.Key, c.Story
	return api.CheckReceiptReply{
		Valid: true, Call: &key, Tool: s.Tool, State: s.State, Cause: s.Cause, Votes: s.Votes, Attempts: len(s.Attempts), ResultState: s.ResultState,
		Records: c.Count, First: c.First, Last: c.Last, KeyIDs: c.KeyIDs, Redacted: c.Redacted, Whole: c.Whole, Ended: c.Ended,
	}, nil
}

// Auditor reads stored records, and can have them signed.
type Auditor interface {
	Auditing
	Checkpoint(ctx context.Context) (*proof.Checkpoint, error)
}

// MakeReceipt makes the receipt of a call after it has had all records signed.
func MakeReceipt(ctx context.Context, a Auditor, key toolcall.Key) (*proof.Receipt, error) {
	records, err := CallRecords(ctx, a, key)
	if err != nil {
		return nil, err
	}
	seqs := make([]uint64, len(records))
	for i := range records {
		bus.RedactRecord(&records[i]) // a Ledger returns records unredacted
		seqs[i] = records[i].Seq
	}
	if _, err := a.Checkpoint(ctx); err != nil {
		return nil, err
	}
	sealed, err := Covering(ctx, a, seqs)
	if err != nil {
		return nil, err
	}
	return proof.MakeReceipt(key, records, sealed, time.Now().UTC().Round(0))
}

// Verified stores in a file how far an auditor has verified a journal, so that the next
// verification can begin there. Only a holder of the engine keys can write the file.
type Verified struct{ file boundFile }

// NewVerified uses the file at path, which it does not read or write yet.
func NewVerified(l *Ledger, path string) *Verified {
	return &Verified{newBoundFile(l, path, "remembered verification")}
}

// verifiedBody is when the journal was verified, and with which keys.
type verifiedBody struct {
	At    time.Time  `json:"at"`
	Read  time.Time  `json:"read_at"`   // when every record was read
	First uint64     `json:"first_seq"` // of the journal
	Keys  proof.Hash `json:"keys"`
}

// digestKeys returns the hash of the keys that an auditor trusts, and of their retirements.
func digestKeys(o proof.Options) (proof.Hash, error) {
	b, err := strictjson.Marshal(struct {
		Keys    any `json:"keys"`
		Retired any `json:"retired"`
	}{o.Keys, o.Retired})
	return proof.BodyHash(b), err
}

// Load returns the stored verification for one with these options to continue, or nil if
// none is stored. An error says why the stored one cannot be used.
func (v *Verified) Load(ctx context.Context, o proof.Options) (*proof.Earlier, error) {
	b, at, err := v.file.load(ctx)
	if b == nil {
		return nil, err
	}
	var body verifiedBody
	if failed := strictjson.Unmarshal(b, &body); failed != nil {
		return nil, cmp.Or(err, failed)
	}
	if missing, ok := errors.AsType[*MissingCheckpointError](err); ok {
		missing.At = body.At
	}
	if err != nil {
		return nil, err
	}
	keys, err := digestKeys(o)
	c := *at.checkpoint
	switch {
	case err != nil:
		return nil, err
	case body.Keys != keys:
		return nil, errors.New("the remembered verification used other public keys")
	case body.First != max(1, o.First):
		return nil, errors.New("the remembered verification began at another record")
	case at.seq != c.To:
		return nil, fmt.Errorf("the remembered verification does not end with checkpoint %d", c.Number)
	case o.Anchor.Number > 0 && o.Anchor.Number < c.Number:
		return nil, errors.New("the anchor names an earlier checkpoint")
	}
	if err := c.Verify(o.Keys); err != nil {
		return nil, err
	}
	if err := o.Retired.Check(c, nil); err != nil {
		return nil, err
	}
	return &proof.Earlier{At: body.At, ReadAt: body.Read, First: body.First, Checkpoint: c, Place: at.place}, nil
}

// Save stores a verification without findings, up to its last checkpoint. After one with
// findings, it removes the file.
func (v *Verified) Save(ctx context.Context, r *proof.Report, o proof.Options, at time.Time) error {
	if !r.OK {
		if err := os.Remove(v.file.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return secretfile.Error("forget verification", v.file.path, err)
		}
		return nil
	}
	if r.Partial || r.CoverTo == 0 || o.PurgedThrough > 0 {
		return nil
	}
	body := verifiedBody{At: at, Read: at, First: r.First}
	if e := r.Earlier; e != nil {
		body.Read, body.First = e.ReadAt, e.First
	}
	var err error
	if body.Keys, err = digestKeys(o); err != nil {
		return err
	}
	b, err := strictjson.Marshal(body)
	if err != nil {
		return err
	}
	return v.file.save(ctx, r.CoverTo, b)
}
