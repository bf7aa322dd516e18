package toolcall_test

import (
	"errors"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var signedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func signedRequest() toolcall.ApprovalRequest {
	return toolcall.ApprovalRequest{
		V: 1, Key: toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: "c1"}, Tool: "pay", Input: `{"cents":5}`, Bundle: "sha256:x",
		Requirement: toolcall.Requirement{Users: []string{}, Signed: true},
	}
}

func approverKeys() toolcall.ApproverKeys {
	return toolcall.ApproverKeys{"ann": toolcall.NewKeySet(publicOf(seedKey(1)), publicOf(seedKey(2))), "bob": toolcall.NewKeySet(publicOf(seedKey(3)))}
}

func signAs(t *testing.T, req toolcall.ApprovalRequest, name string, seed byte) *toolcall.ApproverSignature {
	t.Helper()
	s, err := toolcall.SignApproval(req, name, signedAt.Add(time.Hour), seedKey(seed))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestApproverSignature(t *testing.T) {
	req := signedRequest()
	digest, err := req.Digest()
	if err != nil {
		t.Fatal(err)
	}
	other := req
	other.Call = "c2"
	for _, tc := range []struct {
		name string
		sig  func() *toolcall.ApproverSignature
		who  string
		now  time.Time
		good bool
	}{
		{"honest", func() *toolcall.ApproverSignature { return signAs(t, req, "ann", 1) }, "ann", signedAt, true},
		{"a second key", func() *toolcall.ApproverSignature { return signAs(t, req, "ann", 2) }, "ann", signedAt, true},
		{"the last moment", func() *toolcall.ApproverSignature { return signAs(t, req, "ann", 1) }, "ann", signedAt.Add(time.Hour - 1), true},
		{"none", func() *toolcall.ApproverSignature { return nil }, "ann", signedAt, false},
		{"too late", func() *toolcall.ApproverSignature { return signAs(t, req, "ann", 1) }, "ann", signedAt.Add(time.Hour), false},
		{"another call", func() *toolcall.ApproverSignature { return signAs(t, other, "ann", 1) }, "ann", signedAt, false},
		{"another's key", func() *toolcall.ApproverSignature { return signAs(t, req, "ann", 3) }, "ann", signedAt, false},
		{"another's name", func() *toolcall.ApproverSignature { return signAs(t, req, "bob", 1) }, "bob", signedAt, false},
		{"used by another person", func() *toolcall.ApproverSignature { return signAs(t, req, "ann", 1) }, "bob", signedAt, false},
		{"a key that is unknown", func() *toolcall.ApproverSignature { return signAs(t, req, "ann", 9) }, "ann", signedAt, false},
		{"an unknown name", func() *toolcall.ApproverSignature { return signAs(t, req, "carol", 1) }, "carol", signedAt, false},
		{"validity extended", func() *toolcall.ApproverSignature {
			s := signAs(t, req, "ann", 1)
			s.Until = s.Until.Add(time.Hour)
			return s
		}, "ann", signedAt, false},
		{"with another key id", func() *toolcall.ApproverSignature {
			s := signAs(t, req, "ann", 1)
			s.KeyID = idOf(2)
			return s
		}, "ann", signedAt, false},
		{"no base64", func() *toolcall.ApproverSignature {
			s := signAs(t, req, "ann", 1)
			s.Sig = "!"
			return s
		}, "ann", signedAt, false},
		{"empty", func() *toolcall.ApproverSignature { return &toolcall.ApproverSignature{} }, "ann", signedAt, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.sig().Verify(approverKeys(), digest, tc.who, tc.now); (err == nil) != tc.good || err != nil && !errors.Is(err, message.ErrForbidden) {
				t.Errorf("%v, want good %v", err, tc.good)
			}
		})
	}
}

// A worker's own list decides who counts: the right people must meet every part of the
// requirement, or nothing runs.
func TestApproverList(t *testing.T) {
	ann, bob := byName("ann"), byName("bob")
	for _, tc := range []struct {
		name   string
		change func(r *toolcall.Requirement)
		groups map[string][]string
		by     []toolcall.Principal
		good   bool
	}{
		{"one of any", nil, nil, []toolcall.Principal{ann}, true},
		{"no one", nil, nil, nil, false},
		{"without a rule that asks for it", func(r *toolcall.Requirement) { r.Signed = false }, nil, []toolcall.Principal{ann}, true},
		{"no one, without a rule that asks for it", func(r *toolcall.Requirement) { r.Signed = false }, nil, nil, false},
		{"one of two", func(r *toolcall.Requirement) { r.Quorum = 2 }, nil, []toolcall.Principal{ann}, false},
		{"one twice", func(r *toolcall.Requirement) { r.Quorum = 2 }, nil, []toolcall.Principal{ann, ann}, false},
		{"two", func(r *toolcall.Requirement) { r.Quorum = 2 }, nil, []toolcall.Principal{ann, bob}, true},
		{"another user", func(r *toolcall.Requirement) { r.Users = []string{"bob"} }, nil, []toolcall.Principal{ann}, false},
		{"the user", func(r *toolcall.Requirement) { r.Users = []string{"bob"} }, nil, []toolcall.Principal{bob}, true},
		{"the requester", func(r *toolcall.Requirement) { r.ExcludeRequester, r.Requester = true, "ann" }, nil, []toolcall.Principal{ann}, false},
		{"a group, with no groups here", finance, nil, []toolcall.Principal{ann}, true},
		{"in the group", finance, map[string][]string{"ann": {"finance"}}, []toolcall.Principal{ann}, true},
		{"not in the group", finance, map[string][]string{"bob": {"finance"}}, []toolcall.Principal{ann}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := signedRequest()
			if tc.change != nil {
				tc.change(&req.Requirement)
			}
			digest, err := req.Digest()
			if err != nil {
				t.Fatal(err)
			}
			g := &toolcall.Grant{Key: req.Key, Digest: digest, Approvals: []toolcall.Approval{{By: toolcall.Principal{Role: toolcall.RoleEngine, Name: "e1"}, At: signedAt}}}
			for _, by := range tc.by {
				seed := map[string]byte{"ann": 1, "bob": 3}[by.Name]
				g.Approvals = append(g.Approvals, toolcall.Approval{By: by, At: signedAt, Signature: signAs(t, req, by.Name, seed)})
			}
			list := toolcall.ApproverList{Keys: approverKeys(), Groups: tc.groups}
			if err := list.Verify(g, req, signedAt.Add(time.Minute)); (err == nil) != tc.good || err != nil && !errors.Is(err, message.ErrForbidden) {
				t.Errorf("%v, want good %v", err, tc.good)
			}
			// The signatures do not cover an approval request that differs in one byte.
			req.Input = `{"cents":6}`
			if g.Digest, err = req.Digest(); err != nil {
				t.Fatal(err)
			}
			if list.Verify(g, req, signedAt.Add(time.Minute)) == nil {
				t.Error("signatures of another approval request count")
			}
		})
	}
}

func finance(r *toolcall.Requirement) {
	r.Approvers = []toolcall.ApproverSet{{Rule: "r", Groups: []string{"finance"}}}
}

func byName(name string) toolcall.Principal {
	return toolcall.Principal{Role: toolcall.RoleApprover, Name: name}
}
