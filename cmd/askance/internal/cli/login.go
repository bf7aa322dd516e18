package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/message"
)

// applyLogin takes name and space from a credentials file, which are all that it is
// good for. A file that another tool made says neither.
func (env *environment) applyLogin(c *cobra.Command) error {
	as, space := c.Flags().Lookup("as"), c.Flags().Lookup("space")
	if env.at.creds == "" || c.Flags().Lookup("creds") == nil {
		return nil
	}
	u, err := bus.ReadLogin(env.at.creds)
	switch {
	case errors.Is(err, message.ErrInvalid):
		return nil
	case err != nil:
		return err
	}
	if as != nil && !as.Changed {
		env.at.as = u.Name
	}
	if space != nil && !space.Changed && u.Space != "" {
		env.at.space = string(u.Space)
	}
	switch {
	case as != nil && env.at.as != u.Name:
		return usagef("--as is %q, and %s is the login of %q: a login is good for its own name alone", env.at.as, env.at.creds, u.Name)
	case u.Space != "" && space != nil && env.at.space != string(u.Space):
		return usagef("--space is %q, and %s is good for the space %q alone", env.at.space, env.at.creds, u.Space)
	}
	return nil
}

// loginFor is the credentials file with which to act in a role: the one that
// was named, or one that lies in the data folder. Readers may use any of a
// person's.
func (env *environment) loginFor(by message.Principal) string {
	if env.at.creds != "" || env.at.nats != "" {
		return env.at.creds
	}
	roles := []message.Role{by.Role}
	if by.Role == message.RoleAuditor {
		roles = append(roles, message.RoleApprover, message.RoleOperator)
	}
	dir := node.Dir(env.at.dir()).Creds()
	files := make([]string, len(roles))
	for i, role := range roles {
		files[i] = bus.LoginFile(dir, bus.CredUser{Space: env.at.spaceID(), Role: role, Name: by.Name})
	}
	found := slices.IndexFunc(files, func(path string) bool { _, err := os.Stat(filepath.Clean(path)); return err == nil })
	if found < 0 {
		return ""
	}
	return files[found]
}
