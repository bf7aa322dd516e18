package executor_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/toolcall"
)

func approverKey(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

func setOf(keys ...ed25519.PrivateKey) toolcall.KeySet {
	var all []ed25519.PublicKey
	for _, k := range keys {
		all = append(all, k.Public().(ed25519.PublicKey))
	}
	return toolcall.NewKeySet(all...)
}

// A worker with a list of approvers runs only calls that they have signed. An engine's word,
// even that of the real engine, is not enough.
func TestApproverSignatures(t *testing.T) {
	ann, gone, stranger := approverKey(1), approverKey(2), approverKey(9)
	list := toolcall.ApproverList{Keys: toolcall.ApproverKeys{"ann": setOf(ann)}}
	sign := func(t *testing.T, req toolcall.ApprovalRequest, name string, key ed25519.PrivateKey, good time.Duration) []toolcall.Approval {
		t.Helper()
		s, err := toolcall.SignApproval(req, name, time.Now().Add(good), key)
		if err != nil {
			t.Fatal(err)
		}
		return []toolcall.Approval{{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: name}, At: time.Now().UTC(), Signature: s}}
	}
	for _, tc := range []struct {
		name string
		sign func(t *testing.T, rec *toolcall.EventRecord) []toolcall.Approval
		runs int32
	}{
		{"honest", func(t *testing.T, rec *toolcall.EventRecord) []toolcall.Approval {
			return sign(t, *rec.Call.Request, "ann", ann, time.Hour)
		}, 1},
		{"the engine's word", func(*testing.T, *toolcall.EventRecord) []toolcall.Approval {
			return []toolcall.Approval{{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}, At: time.Now()}}
		}, 0},
		{"no approver", func(*testing.T, *toolcall.EventRecord) []toolcall.Approval { return []toolcall.Approval{} }, 0},
		{"a key of the engine's own", func(t *testing.T, rec *toolcall.EventRecord) []toolcall.Approval {
			return sign(t, *rec.Call.Request, "ann", stranger, time.Hour)
		}, 0},
		{"a revoked key", func(t *testing.T, rec *toolcall.EventRecord) []toolcall.Approval {
			return sign(t, *rec.Call.Request, "ann", gone, time.Hour)
		}, 0},
		{"replayed for other arguments", func(t *testing.T, rec *toolcall.EventRecord) []toolcall.Approval {
			req := *rec.Call.Request
			req.Input = `{"n":2}`
			return sign(t, req, "ann", ann, time.Hour)
		}, 0},
		{"replayed for another call", func(t *testing.T, rec *toolcall.EventRecord) []toolcall.Approval {
			req := *rec.Call.Request
			req.Call = "call-0"
			return sign(t, req, "ann", ann, time.Hour)
		}, 0},
		{"out of time", func(t *testing.T, rec *toolcall.EventRecord) []toolcall.Approval {
			return sign(t, *rec.Call.Request, "ann", ann, 0)
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				rec := r.engine.Record("call-1", `{"n":1}`)
				rec.Call.Attempt.Grant.Approvals = tc.sign(t, rec)
				r.engine.Sign(rec)
				r.engine.Offer(rec)
				synctest.Wait()
				r.wantRuns(tc.runs)
				if tc.runs == 1 {
					return
				}
				if _, err := r.engine.Wait(t.Context(), rec.Call.Key); err == nil || !strings.Contains(err.Error(), "have not all signed") {
					t.Errorf("the engine received %v", err)
				}
			}, executor.WithApprovers(func() (toolcall.ApproverList, error) { return list, nil }))
		})
	}
}

// A worker that cannot look up its approvers rejects the task, which ends no call.
func TestApproversUnknown(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		k := r.offer("call-1")
		synctest.Wait()
		r.wantRuns(0)
		r.wantTask(k, 1, 0)
	}, executor.WithApprovers(func() (toolcall.ApproverList, error) { return toolcall.ApproverList{}, errors.New("disk on fire") }))
}
