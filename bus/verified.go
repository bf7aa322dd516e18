package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/proof"
)

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
	if err != nil || at == nil {
		return nil, err
	}
	var body verifiedBody
	if err := strictjson.Unmarshal(b, &body); err != nil {
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
