package toolcall

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// Approval is the consent of one person or rule, as repeated in a grant.
type Approval struct {
	By Principal `json:"by"`
	At time.Time `json:"at"`
	// Signature is the person's own signature, with which a worker need not trust the
	// engine: see ApproverList.
	Signature *ApproverSignature `json:"signature,omitzero"`
}

// Grant is the engine's signed permission to run one attempt of one call. A worker checks
// it with public keys only: nothing but an engine that holds the private key can make a
// worker run a call, and only with exactly these bytes.
type Grant struct {
	V     int    `json:"v"`      // 1
	KeyID string `json:"key_id"` // which engine key signed; see KeyID
	Key
	IdempotencyKey string     `json:"idempotency_key"`
	Tool           string     `json:"tool_name"`
	Route          string     `json:"route,omitzero"` // only a worker of this route may run it; "" means a worker without a route
	Digest         string     `json:"digest"`         // of the ApprovalRequest that was decided
	Attempt        int        `json:"attempt"`
	Bundle         string     `json:"bundle"`
	Approvals      []Approval `json:"approvals"`
	NotBefore      time.Time  `json:"not_before"`
	Expires        time.Time  `json:"expires"` // a start after this is refused
	Nonce          string     `json:"nonce"`
	Sig            string     `json:"sig,omitzero"` // base64url Ed25519 over the rest
}

// grantDomain separates signatures of grants from all other signatures.
const grantDomain = "askance-grant-v1\n"

// KeyID identifies a public key: the first 16 hex digits of its SHA-256.
func KeyID(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	return hex.EncodeToString(sum[:8])
}

func (g Grant) signedText() ([]byte, error) {
	g.Sig = ""
	b, err := jcs.Marshal(g)
	if err != nil {
		return nil, err
	}
	return append([]byte(grantDomain), b...), nil
}

// Sign sets KeyID and Sig.
func (g *Grant) Sign(key ed25519.PrivateKey) error {
	g.KeyID = KeyID(key.Public().(ed25519.PublicKey))
	b, err := g.signedText()
	if err != nil {
		return &message.Error{Code: message.CodeInternal, Op: "sign grant", What: "no canonical form", Err: err}
	}
	g.Sig = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, b))
	return nil
}

// KeySet holds the engine keys that a worker trusts, by KeyID.
type KeySet map[string]ed25519.PublicKey

// NewKeySet indexes public keys by their ids.
func NewKeySet(keys ...ed25519.PublicKey) KeySet {
	s := KeySet{}
	for _, k := range keys {
		s[KeyID(k)] = k
	}
	return s
}

// Signed checks only that an engine with one of the keys signed the grant in this form.
// Before running a call, use Verify.
func (g *Grant) Signed(keys KeySet) error {
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "verify grant of " + g.Key.String(), What: what, Hint: hint}
	}
	pub, ok := keys[g.KeyID]
	if !ok {
		return refuse("signed by the unknown engine key "+g.KeyID, "give the worker this engine's public key")
	}
	sig, err := base64.RawURLEncoding.DecodeString(g.Sig)
	if err != nil {
		return refuse("the signature is not base64url", "")
	}
	b, err := g.signedText()
	if err != nil || !ed25519.Verify(pub, b, sig) {
		return refuse("the signature does not match", "the task was changed on its way, or forged")
	}
	return nil
}

// Verify is VerifyQueue for a worker without a route.
func (g *Grant) Verify(keys KeySet, q ApprovalRequest, tool string, attempt int, now time.Time) error {
	return g.VerifyQueue(keys, q, Queue{Tool: tool}, attempt, now)
}

// VerifyQueue checks that the grant permits a worker of the queue to run approval request
// q as the attempt at now: known key, signature, digest recomputed from q, identity, tool,
// route, attempt, bundle and validity. Any doubt is an error with CodeForbidden.
func (g *Grant) VerifyQueue(keys KeySet, q ApprovalRequest, queue Queue, attempt int, now time.Time) error {
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "verify grant of " + q.Key.String(), What: what, Hint: hint}
	}
	if g == nil {
		return refuse("there is no grant", "run only what an engine submitted")
	}
	if err := g.Signed(keys); err != nil {
		return err
	}
	if len(q.Hidden) > 0 && q.Salt == "" {
		return refuse("the approval request is redacted, and its arguments must not be run", "give the worker the whole approval request")
	}
	digest, err := q.Digest()
	if err != nil {
		return err
	}
	switch {
	case g.V != 1:
		return refuse("unknown grant version", "update the worker")
	case digest != g.Digest:
		return refuse("the arguments are not the ones that were approved", "the task was changed on its way, or forged")
	case g.Key != q.Key:
		return refuse("it was given for the call "+g.Key.String(), "")
	case g.Tool != queue.Tool || q.Tool != queue.Tool:
		return refuse("it was given for the tool "+g.Tool+", not "+queue.Tool, "")
	case g.Route != queue.Route:
		return refuse(fmt.Sprintf("it was given for the route %.300q, not %.300q", g.Route, queue.Route), "start a worker with the subject that the policy names")
	case g.Attempt != attempt:
		return refuse("it was given for another attempt", "")
	case g.Bundle != q.Bundle:
		return refuse("its policy bundle differs from the approval request's", "")
	case now.Before(g.NotBefore):
		return refuse("it is not valid before "+g.NotBefore.Format(time.RFC3339), "compare the clocks of worker and engine")
	case !now.Before(g.Expires):
		return refuse("it expired at "+g.Expires.Format(time.RFC3339), "the engine offers the call again with a new grant")
	}
	return nil
}
