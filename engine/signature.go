package engine

import (
	"errors"

	"github.com/askance-dev/askance/message"
)

// WithApproverKeys tells the engine with which keys approvers sign. f is called
// for every signed answer, from many goroutines, and must not block. Without it
// no signature can be checked, and none is accepted.
func WithApproverKeys(f func() message.ApproverKeys) Option {
	return func(c *config) error {
		if f == nil {
			return errors.New("approver keys are nil")
		}
		c.approverKeys = f
		return nil
	}
}

// signed checks the approver's own signature. The engine keeps nobody from
// cheating by that, but tells an honest approver what no worker would believe.
func (v *voter) signed(c *message.Call, vote message.Vote) error {
	if vote.Signature == nil {
		return refused("this approval request takes your own signature", "approve it with --sign-key, or leave it to somebody who has a key")
	}
	var keys message.ApproverKeys
	if v.e.cfg.approverKeys != nil {
		keys = v.e.cfg.approverKeys()
	}
	if vote.Digest != c.Digest {
		return nil // the machine has the better error
	}
	return vote.Signature.Verify(keys, c.Digest, v.by.Name, vote.At)
}
