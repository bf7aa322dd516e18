package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// groupsKey is where the groups of an authenticated person stand in a context.
type groupsKey struct{}

// claimed are groups that somebody's credentials say.
type claimed struct {
	name, auth string
	engine.Membership
}

// grouped is an engine for somebody whose credentials say their groups.
type grouped struct {
	engine.Client
	claimed
}

// Answer implements engine.Client.
func (g grouped) Answer(ctx context.Context, a message.Answer) (*message.Call, error) {
	return g.Client.Answer(context.WithValue(ctx, groupsKey{}, g.claimed), a)
}

// Revoke implements engine.Client.
func (g grouped) Revoke(ctx context.Context, r message.RevokeRequest) (*message.Call, error) {
	return g.Client.Revoke(context.WithValue(ctx, groupsKey{}, g.claimed), r)
}

// Directory is an engine.Directory that also knows the groups that the
// credentials of a gateway's peers say. Next knows those of everybody; nil:
// nobody does.
type Directory struct{ Next engine.Directory }

// Groups implements engine.Directory.
func (d Directory) Groups(ctx context.Context, by message.Principal) (engine.Membership, error) {
	var m engine.Membership
	if d.Next != nil {
		var err error
		if m, err = d.Next.Groups(ctx, by); err != nil {
			return m, err
		}
	}
	c, ok := ctx.Value(groupsKey{}).(claimed)
	if !ok || c.name != by.Name || c.auth != by.Auth || len(c.Groups) == 0 {
		return m, nil
	}
	if len(m.Groups) == 0 {
		return c.Membership, nil
	}
	return engine.Membership{
		Groups: append(slices.Clone(c.Groups), m.Groups...),
		Source: strings.Trim(c.Source+"+"+m.Source, "+"),
	}, nil
}
