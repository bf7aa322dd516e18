package toolcall

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
)

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
func SignApproval(q ApprovalRequest, approver string, until time.Time, key ed25519.PrivateKey) (*ApproverSignature, error) {
	digest, err := q.Digest()
	if err != nil {
		return nil, err
	}
	s := &ApproverSignature{KeyID: KeyID(key.Public().(ed25519.PublicKey)), Until: until.UTC().Truncate(time.Second)}
	b, err := s.signedText(digest, approver)
	if err != nil {
		return nil, err
	}
	s.Sig = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, b))
	return s, nil
}

// Verify checks that approver signed the approval of the approval request with this
// digest, with one of their keys, and that the signature is valid at now. Any doubt is an
// error with CodeForbidden.
func (s *ApproverSignature) Verify(keys ApproverKeys, digest, approver string, now time.Time) error {
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "verify the signature of " + approver, What: what, Hint: hint}
	}
	if s == nil {
		return refuse("there is no signature", "approve with --sign-key")
	}
	key := keys[approver][s.KeyID]
	if key == nil {
		return refuse("the key "+s.KeyID+" does not belong to this approver", "put the public key under approvers in the directory file")
	}
	if b, err := s.signedText(digest, approver); err != nil || !signedBy(key, b, s.Sig) {
		return refuse("it does not match this approval request", "sign the current approval request")
	}
	if !now.Before(s.Until) {
		return refuse("it was valid until "+s.Until.Format(time.RFC3339), "propose the call again and have it approved")
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
// person, signed its approval. g must have been verified for q. Any doubt is an error
// with CodeForbidden.
func (l ApproverList) Verify(g *Grant, q ApprovalRequest, now time.Time) error {
	var votes []Vote
	var last error
	for _, a := range g.Approvals {
		err := a.Signature.Verify(l.Keys, g.Digest, a.By.Name, now)
		if err != nil {
			last = err
			continue
		}
		v := Vote{Kind: ResponseApprove, By: a.By, At: a.At, Digest: g.Digest, Signature: a.Signature, Groups: l.groupsOf(q, a.By.Name)}
		for _, at := range q.Requirement.Plan() {
			if !a.At.Before(at) && !a.At.After(now) {
				v.Step++
			}
		}
		votes = append(votes, v)
	}
	if t := q.Requirement.Tally(votes, g.Digest, 0); len(t.Approvals) > 0 && t.Agreed {
		return nil
	}
	return &message.Error{Code: message.CodeForbidden, Op: "verify the approvals of " + g.Key.String(), What: "the required approvers have not all signed with keys that this worker knows", Hint: "approve with --sign-key, and give the worker the keys of approvers", Err: last}
}

func (l ApproverList) groupsOf(q ApprovalRequest, name string) []string {
	if l.Groups != nil {
		return l.Groups[name]
	}
	var all []string
	for _, s := range q.Requirement.Approvers {
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
