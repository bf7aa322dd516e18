package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// Directory knows which groups people are in. Groups is called from many
// goroutines, with a principal that a transport has authenticated, when a
// approval request can be answered by groups; it must return soon after ctx ends. An
// error, or an answer after ctx ended, means no groups: the person may still
// answer as themselves.
type Directory interface {
	Groups(ctx context.Context, by toolcall.Principal) (Membership, error)
}

// Membership is a person's groups, and where they come from: it is kept with
// the vote. No group has an empty name.
type Membership struct {
	Groups []string
	Source string // such as "file" or "oidc"
}

// StaticDirectory has the groups of each person by name. It must not be
// changed while an engine uses it.
type StaticDirectory map[string][]string

// Groups implements Directory.
func (d StaticDirectory) Groups(_ context.Context, by toolcall.Principal) (Membership, error) {
	return Membership{Groups: d[by.Name], Source: "static"}, nil
}

// WithDirectory sets who knows the groups of people. Without one no person is in
// any group.
func WithDirectory(d Directory) Option {
	return func(c *config) error {
		if d == nil {
			return errors.New("directory is nil")
		}
		c.directory = d
		return nil
	}
}

// directoryTime is how long a directory may take.
const directoryTime = 2 * time.Second

// groupsOf asks the directory; a failure there gives no groups.
func (c *core) groupsOf(ctx context.Context, by toolcall.Principal) (groups []string, source string, err error) {
	if c.cfg.directory == nil {
		return nil, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, directoryTime)
	defer cancel()
	m, err := c.cfg.directory.Groups(ctx, by)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.log.Warn("the groups of a person are not known", "by", by.String(), "error", err)
		return nil, "", err
	}
	groups = slices.DeleteFunc(slices.Clone(m.Groups), func(g string) bool { return g == "" })
	slices.Sort(groups)
	return slices.Compact(groups), m.Source, nil
}
