package bus

import (
	"context"

	"github.com/askance-dev/askance/message"
)

// Leases implements engine.Client. A page can be shorter than asked for if it
// would not fit a message; Next goes on from there.
func (c *Client) Leases(ctx context.Context, r message.LeasesRequest) (message.LeasesReply, error) {
	rep, _, err := do[message.LeasesReply](ctx, c, OpLeases, r, 0)
	return rep, err
}

// ShowLease implements engine.Client.
func (c *Client) ShowLease(ctx context.Context, r message.ShowLeaseRequest) (message.ShowLeaseReply, error) {
	rep, _, err := do[message.ShowLeaseReply](ctx, c, OpShowLease, r, 0)
	return rep, err
}

// Explain implements engine.Client.
func (c *Client) Explain(ctx context.Context, r message.ExplainRequest) (message.ExplainReply, error) {
	rep, _, err := do[message.ExplainReply](ctx, c, OpExplain, r, 0)
	return rep, err
}

// RevokeLease implements engine.Client.
func (c *Client) RevokeLease(ctx context.Context, r message.RevokeLeaseRequest) (*message.Lease, error) {
	l, _, err := do[*message.Lease](ctx, c, OpRevokeLease, r, 0)
	return l, err
}
