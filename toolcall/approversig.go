package toolcall

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
)

// ApproverSignature is an approver's own consent to one approval request, so that not
// even an engine can make up an approval. It covers the approval request's digest, and so
// the call, the arguments and who must agree; the approver's name; and until when
// a worker may start.
type ApproverSignature struct {
	KeyID string    `json:"key_id"` // see KeyID
	Until time.Time `json:"until"`  // no start from then on
	Sig   string    `json:"sig"`    // base64url Ed25519
}

// approvalDomain keeps an approval's signature from being any other signature.
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

// SignApproval signs the approval of an approval request, the approver has seen
// what its digest is made of, with a key of their own.
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

// Verify checks that approver has signed the approval of the approval request with this
// digest, by one of their keys and for the time now. Any doubt is an error with
// CodeForbidden.
func (s *ApproverSignature) Verify(keys ApproverKeys, digest, approver string, now time.Time) error {
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "verify the signature of " + approver, What: what, Hint: hint}
	}
	if s == nil {
		return refuse("there is none", "approve with --sign-key")
	}
	key := keys[approver][s.KeyID]
	if key == nil {
		return refuse("the key "+s.KeyID+" is not one of theirs", "put the public key under approvers in the directory file")
	}
	if b, err := s.signedText(digest, approver); err != nil || !signedBy(key, b, s.Sig) {
		return refuse("it does not fit this approval request", "sign the approval request as it is now")
	}
	if !now.Before(s.Until) {
		return refuse("it was good until "+s.Until.Format(time.RFC3339), "propose the call again and have it approved")
	}
	return nil
}

// ApproverList is whom a worker believes without the engine.
type ApproverList struct {
	Keys ApproverKeys
	// Groups of people by name. Nil: everybody in Keys counts for every group.
	Groups map[string][]string
}

// Verify checks that the people whom the approval request requires, and at least one,
// have signed its approval. g must have been verified for q. Any doubt is an
// error with CodeForbidden.
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
	return &message.Error{Code: message.CodeForbidden, Op: "verify the approvals of " + g.Key.String(), What: "those who must agree have not signed that they do, as far as this worker knows them", Hint: "approve with --sign-key, and give the worker the keys of approvers", Err: last}
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

// ApproverKeys are the keys with which approvers sign, by their names.
type ApproverKeys map[string]KeySet

// publicKeyPrefix stands before a public key that people write into files.
const publicKeyPrefix = "ed25519:"

// FormatPublicKey gives a public key as people write it into files.
func FormatPublicKey(key ed25519.PublicKey) string {
	return publicKeyPrefix + base64.RawURLEncoding.EncodeToString(key)
}

// ParsePublicKey reads what FormatPublicKey gives.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	rest, ok := strings.CutPrefix(text, publicKeyPrefix)
	key, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize || base64.RawURLEncoding.EncodeToString(key) != rest {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read public key", What: "it is not " + publicKeyPrefix + " and 32 bytes in base64url", Hint: "copy what askance keys approver prints"}
	}
	return key, nil
}
