package toolcall

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	return inDomain(grantDomain, g)
}

// Sign sets KeyID and Sig.
func (g *Grant) Sign(key ed25519.PrivateKey) (err error) {
	g.KeyID = keyIDOf(key)
	g.Sig, err = Sign(key, g.signedText)
	return err
}

func keyIDOf(key ed25519.PrivateKey) string { return KeyID(key.Public().(ed25519.PublicKey)) }

// Sign returns the signature over a text as base64url. The text begins with its domain, so that
// no signature is valid for another kind of text.
func Sign(key ed25519.PrivateKey, text func() ([]byte, error)) (string, error) {
	b, err := text()
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, b)), nil
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
// Before running a call, use VerifyQueue.
func (g *Grant) Signed(keys KeySet) error {
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "verify grant of " + g.Key.String(), What: what, Hint: hint}
	}
	pub, ok := keys[g.KeyID]
	if !ok {
		return refuse("signed by the unknown engine key "+g.KeyID, "give the worker this engine's public key")
	}
	if b, err := g.signedText(); err != nil || !IsSignedBy(pub, b, g.Sig) {
		return refuse("the signature does not match", "the task was changed on its way, or forged")
	}
	return nil
}

// VerifyQueue checks that the grant permits a worker of the queue to run approval request
// req as the attempt at now: known key, signature, digest recomputed from req, identity, tool,
// route, attempt, bundle and validity. Any doubt is an error with CodeForbidden.
func (g *Grant) VerifyQueue(keys KeySet, req ApprovalRequest, queue Queue, attempt int, now time.Time) error {
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "verify grant of " + req.Key.String(), What: what, Hint: hint}
	}
	if g == nil {
		return refuse("there is no grant", "run only what an engine submitted")
	}
	if err := g.Signed(keys); err != nil {
		return err
	}
	if len(req.Hidden) > 0 && req.Salt == "" {
		return refuse("the approval request is redacted, and its arguments must not be run", "give the worker the whole approval request")
	}
	digest, err := req.Digest()
	if err != nil {
		return err
	}
	switch {
	case g.V != 1:
		return refuse("unknown grant version", "update the worker")
	case digest != g.Digest:
		return refuse("the arguments are not the ones that were approved", "the task was changed on its way, or forged")
	case g.Key != req.Key:
		return refuse("it was given for the call "+g.Key.String(), "")
	case g.Tool != queue.Tool || req.Tool != queue.Tool:
		return refuse("it was given for the tool "+g.Tool+", not "+queue.Tool, "")
	case g.Route != queue.Route:
		return refuse(fmt.Sprintf("it was given for the route %.300q, not %.300q", g.Route, queue.Route), "start a worker with the subject that the policy names")
	case g.Attempt != attempt:
		return refuse("it was given for another attempt", "")
	case g.Bundle != req.Bundle:
		return refuse("its policy bundle differs from the approval request's", "")
	case now.Before(g.NotBefore):
		return refuse("it is not valid before "+g.NotBefore.Format(time.RFC3339), "compare the clocks of worker and engine")
	case !now.Before(g.Expires):
		return refuse("it expired at "+g.Expires.Format(time.RFC3339), "the engine offers the call again with a new grant")
	}
	return nil
}

// EngineKey is one of the keys with which the engines of a space have signed grants, as
// they announce it. A new key is signed by the key before it, and the end of a key by its
// successor, so a worker that knows one key can follow the others, regardless of who sends them.
type EngineKey struct {
	ID     string    `json:"id"`
	Public string    `json:"public_key"`     // as FormatPublicKey writes it
	Since  time.Time `json:"since,omitzero"` // zero if from the beginning
	By     string    `json:"by,omitzero"`    // id of the key that vouches for it, if any
	Sig    string    `json:"sig,omitzero"`   // base64url Ed25519 of By

	Retired    time.Time `json:"retired,omitzero"` // zero while its grants are valid
	RetiredBy  string    `json:"retired_by,omitzero"`
	RetiredSig string    `json:"retired_sig,omitzero"` // base64url Ed25519 of RetiredBy
}

// KeyRing are a space's signing keys, oldest first.
type KeyRing []EngineKey

// These domains separate signatures over keys from all other signatures.
const (
	keyDomain     = "askance-key-v1\n"
	retiredDomain = "askance-key-retired-v1\n"
)

func (k EngineKey) introductionText() ([]byte, error) {
	return inDomain(keyDomain, EngineKey{ID: k.ID, Public: k.Public, Since: k.Since, By: k.By})
}

func (k EngineKey) retirement() ([]byte, error) {
	return inDomain(retiredDomain, EngineKey{ID: k.ID, Public: k.Public, Retired: k.Retired, RetiredBy: k.RetiredBy})
}

func inDomain(domain string, v any) ([]byte, error) {
	b, err := jcs.MarshalAfter(domain, v)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: "sign", What: "no canonical form", Err: err}
	}
	return b, nil
}

// Introduce signs k with the key before it, which thereby vouches for k.
func (k *EngineKey) Introduce(before ed25519.PrivateKey) (err error) {
	k.By = keyIDOf(before)
	k.Sig, err = Sign(before, k.introductionText)
	return err
}

// Retire signs the end of k with its successor.
func (k *EngineKey) Retire(at time.Time, successor ed25519.PrivateKey) (err error) {
	k.Retired, k.RetiredBy = at, keyIDOf(successor)
	k.RetiredSig, err = Sign(successor, k.retirement)
	return err
}

// Key returns the public key, or an error if it does not match the id.
func (k EngineKey) Key() (ed25519.PublicKey, error) {
	pub, err := ParsePublicKey(k.Public)
	if err == nil && KeyID(pub) != k.ID {
		err = &message.Error{Code: message.CodeInvalid, Op: "read public key", What: "the id does not match the key", Hint: "get the key from the engines again"}
	}
	return pub, err
}

// InForce returns the keys that are not retired. The ring itself must be trusted.
func (r KeyRing) InForce() (KeySet, error) {
	out := KeySet{}
	for _, k := range r {
		pub, err := k.Key()
		if err != nil {
			return nil, err
		}
		if k.Retired.IsZero() {
			out[k.ID] = pub
		}
	}
	return out, nil
}

// Follow applies a ring of unknown origin to the trusted keys and retired key ids that a
// reader already has. It returns the keys that are now trusted, and all ids that are known to
// be retired, which never come back. A key is added if a trusted key vouches for it, and
// removed if a trusted key declares its end. Statements of untrusted keys have no effect.
func (r KeyRing) Follow(trusted KeySet, retired map[string]bool) (KeySet, map[string]bool) {
	known, gone := maps.Clone(trusted), maps.Clone(retired)
	if gone == nil {
		gone = map[string]bool{}
	}
	for _, k := range r { // oldest first: the key that vouches comes before
		pub, err := k.Key()
		if err != nil || known[k.ID] != nil || gone[k.By] {
			continue
		}
		if msg, err := k.introductionText(); err == nil && IsSignedBy(known[k.By], msg, k.Sig) {
			known[k.ID] = pub
		}
	}
	for _, k := range r {
		msg, err := k.retirement()
		if err == nil && !k.Retired.IsZero() && k.RetiredBy != k.ID && !gone[k.RetiredBy] && IsSignedBy(known[k.RetiredBy], msg, k.RetiredSig) {
			gone[k.ID] = true
		}
	}
	for id := range gone {
		delete(known, id)
	}
	return known, gone
}

// IsSignedBy reports whether sig is the signature of the key over msg, in the only form that [Sign]
// returns: a line break or other unused bits are refused.
func IsSignedBy(key ed25519.PublicKey, msg []byte, sig string) bool {
	b, err := base64.RawURLEncoding.DecodeString(sig)
	return err == nil && base64.RawURLEncoding.EncodeToString(b) == sig && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, msg, b)
}

// ApproverSignature is an approver's own signature on the approval of one request, so that
// not even an engine can forge an approval. It covers the approval request's digest, and
// thereby the call, the arguments and who must agree; the approver's name; and until when
// a worker may start.
type ApproverSignature struct {
	KeyID string    `json:"key_id"` // see KeyID
	Until time.Time `json:"until"`  // no start at or after this time
	Sig   string    `json:"sig"`    // base64url Ed25519
}

// approvalDomain separates signatures of approvals from all other signatures.
const approvalDomain = "askance-approval-v1\n"

// approval is what an approver signs.
type approval struct {
	Kind     ResponseKind `json:"kind"` // approve
	Digest   string       `json:"digest"`
	Approver string       `json:"approver"`
	KeyID    string       `json:"key_id"`
	Until    time.Time    `json:"until"`
}

func (s ApproverSignature) signedText(digest, approver string) ([]byte, error) {
	return inDomain(approvalDomain, approval{Kind: ResponseApprove, Digest: digest, Approver: approver, KeyID: s.KeyID, Until: s.Until})
}

// SignApproval signs the approval of an approval request with the approver's own key. The
// approver must have seen everything that the digest covers.
func SignApproval(req ApprovalRequest, approver string, until time.Time, key ed25519.PrivateKey) (*ApproverSignature, error) {
	digest, err := req.Digest()
	if err != nil {
		return nil, err
	}
	s := &ApproverSignature{KeyID: keyIDOf(key), Until: until.UTC().Truncate(time.Second)}
	if s.Sig, err = Sign(key, func() ([]byte, error) { return s.signedText(digest, approver) }); err != nil {
		return nil, err
	}
	return s, nil
}

// Verify checks that approver signed the approval of the approval request with this
// digest, with one of their keys, and that the signature is valid at now. Any doubt is an
// error with CodeForbidden.
func (s *ApproverSignature) Verify(keys ApproverKeys, digest, approver string, now time.Time) error {
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "verify", What: what, Hint: hint}
	}
	if s == nil {
		return refuse(approver+" has not signed", "approve with --sign-key")
	}
	if !now.Before(s.Until) {
		return refuse("the signature of "+approver+" was valid until "+s.Until.Format(time.RFC3339), "propose the call again and have it approved")
	}
	key := keys[approver][s.KeyID]
	if key == nil {
		return refuse("the key "+s.KeyID+" does not belong to "+approver, "put the public key under approvers in the directory file")
	}
	if b, err := s.signedText(digest, approver); err != nil || !IsSignedBy(key, b, s.Sig) {
		return refuse("the signature of "+approver+" does not match this approval request", "sign the current approval request")
	}
	return nil
}

// ApproverList holds the approvers whose signatures a worker trusts without the engine.
type ApproverList struct {
	Keys ApproverKeys
	// Groups maps people to their groups. Nil: everyone in Keys counts for every group.
	Groups map[string][]string
}

// Verify checks that the people whom the approval request requires, and at least one
// person, signed its approval. g must have been verified for req. Any doubt is an error
// with CodeForbidden.
func (l ApproverList) Verify(g *Grant, req ApprovalRequest, now time.Time) error {
	var votes []Vote
	var last error
	for _, a := range g.Approvals {
		err := a.Signature.Verify(l.Keys, g.Digest, a.By.Name, now)
		if err != nil {
			last = err
			continue
		}
		v := Vote{Kind: ResponseApprove, By: a.By, At: a.At, Digest: g.Digest, Signature: a.Signature, Groups: l.groupsOf(req, a.By.Name)}
		for _, at := range req.Requirement.Plan() {
			if !a.At.Before(at) && !a.At.After(now) {
				v.Step++
			}
		}
		votes = append(votes, v)
	}
	if t := req.Requirement.Tally(votes, g.Digest, 0); len(t.Approvals) > 0 && t.Agreed {
		return nil
	}
	return &message.Error{Code: message.CodeForbidden, Op: "verify the approvals of " + g.Key.String(), What: "the required approvers have not all signed with keys that this worker knows", Hint: "approve with --sign-key, and give the worker the keys of approvers", Err: last}
}

func (l ApproverList) groupsOf(req ApprovalRequest, name string) []string {
	if l.Groups != nil {
		return l.Groups[name]
	}
	var all []string
	for _, s := range req.Requirement.Approvers {
		all = append(all, s.Groups...)
		for _, e := range s.Escalation {
			all = append(all, e.Groups...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ApproverKeys are the keys with which approvers sign, by approver name.
type ApproverKeys map[string]KeySet

// publicKeyPrefix precedes a public key in files that people write.
const publicKeyPrefix = "ed25519:"

// FormatPublicKey returns a public key in the form that is used in files.
func FormatPublicKey(key ed25519.PublicKey) string {
	return publicKeyPrefix + base64.RawURLEncoding.EncodeToString(key)
}

// ParsePublicKey parses the result of FormatPublicKey.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	rest, ok := strings.CutPrefix(text, publicKeyPrefix)
	key, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize || base64.RawURLEncoding.EncodeToString(key) != rest {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read public key", What: "it is not " + publicKeyPrefix + " followed by 32 bytes in base64url", Hint: "copy what askance keys approver prints"}
	}
	return key, nil
}
