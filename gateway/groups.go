package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
)

// groupsKey is where the groups of an authenticated person stand in a context.
type groupsKey struct{}

// claimed are groups that somebody's credentials say.
type claimed struct {
	name, auth string
	engine.Membership
}

// grouped is an engine for a person whose credentials say their groups.
type grouped struct {
	c api.Caller
	claimed
}

// Call implements api.Caller.
func (g grouped) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	return g.c.Call(context.WithValue(ctx, groupsKey{}, g.claimed), op, request)
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
