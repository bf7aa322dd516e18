package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/toolcall"
)

type giving struct {
	tools    []string
	subjects []string
	lifetime time.Duration
	replace  bool
	same     bool
}

func newCredsCommand(env *environment) *cobra.Command {
	var g giving
	return newGroup(&cobra.Command{
		Use:   "creds",
		Short: "Manage NATS logins of runtimes, workers and people",
		Long: `Creates and revokes NATS credentials files. Each one has a key and a signed token that
permits only the subjects of its role: a runtime proposes calls, an approver responds,
a worker runs its tools, an operator resolves calls, an auditor reads; each under its
own name.

The credentials folder is creds in the data folder, or --creds-dir. The embedded server
of askance serve reads it; for another NATS server, print the configuration with
askance creds config.

The keys in its subfolder secrets can create logins. Only this command needs them, so
you can keep that folder in a safe place and bring it back to create a login.`,
		Example: `  askance creds init
  askance creds add approver ann
  askance creds add worker wk-1 --tool refund
  askance creds revoke approver ann`,
	},
		newCredsInitCommand(env), newCredsAddCommand(env, &g), newCredsListCommand(env),
		newCredsRevokeCommand(env, &g), newCredsConfigCommand(env),
	)
}

func addCredsFlags(env *environment, c *cobra.Command) *cobra.Command {
	env.cfg.bind(c, &env.cfg.Data, &env.cfg.CredsDir)
	return c
}

func credsFolder(env *environment) (string, error) {
	return env.fileOr("creds-dir", env.cfg.CredsDir, node.Dir.Creds)
}

func newCredsInitCommand(env *environment) *cobra.Command {
	return addCredsFlags(env, &cobra.Command{
		Use:   "init",
		Short: "Create a credentials folder",
		Long: `Creates a NATS operator, an account for the spaces and a login for the engines. After
its next start, askance serve refuses NATS connections without a login. HTTP requires a
token at once, also on a running server (askance token create).`,
		Example: `  askance creds init
  askance creds init --creds-dir /etc/askance/creds`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := credsFolder(env)
			if err != nil {
				return err
			}
			if _, err := creds.Init(c.Context(), dir); err != nil {
				return err
			}
			return env.print(map[string]string{"creds_dir": dir, "engine_login": creds.EngineLogin(dir)}, fmt.Sprintf("Credentials created in %s. Restart askance serve, and create a login for each person and program: %s\nHTTP requires a token from now on: %s\n", dir, programName()+" creds add ROLE NAME"+flagsGiven(env, byCurrentContext, "data", "creds-dir"), programName()+" token create NAME --role approver"+flagsGiven(env, byCurrentContext, "data")))
		},
	})
}

func newCredsAddCommand(env *environment, g *giving) *cobra.Command {
	c := addCredsFlags(env, &cobra.Command{
		Use:   "add ROLE NAME",
		Short: "Create a login",
		Long: `Creates a credentials file for a runtime, worker, approver, operator or auditor of a
space. Only you can read the file: send it to its owner over a channel that you trust,
then delete it here. Its owner passes it with --creds, ASKANCE_CREDS or askance.yaml.
Only this login can act under NAME.

A worker's login is valid only for the tools of --tool, and with --subject only for
calls that rules route to that subject. A person with several roles needs a file for
each.`,
		Example: `  askance creds add runtime support-bot
  askance creds add approver ann --expires 2160h
  askance creds add worker wk-1 --tool refund --tool search
  askance creds add worker pay-1 --tool refund --subject exec.payments
  askance creds add worker wk-1 --tool refund --replace`,
		Args: roleAndName,
		RunE: func(c *cobra.Command, args []string) error { return runCredsAdd(c.Context(), env, *g, args) },
	})
	f := c.Flags()
	env.cfg.bindAs(c, &env.cfg.Space, "space in which the login is valid")
	f.StringArrayVar(&g.tools, "tool", nil, "tool that a worker runs; may be repeated")
	f.StringArrayVar(&g.subjects, "subject", nil, "subject to which rules route calls: the worker gets only those; may be repeated")
	durationVar(f, &g.lifetime, "expires", 0, "lifetime of the login, such as 30d (default unlimited)")
	f.BoolVar(&g.replace, "replace", false, "revoke the existing login of that name")
	f.BoolVar(&g.same, "same-owner", false, "the login of that name in another space has the same owner: the two can read each other's replies")
	c.ValidArgsFunction = completeRoles
	return c
}

func credUser(env *environment, g giving, args []string) creds.User {
	u := creds.User{Space: env.cfg.spaceID(), Role: toolcall.Role(args[0]), Name: args[1], Tools: g.tools, Routes: g.subjects, SameOwner: g.same}
	if g.lifetime != 0 {
		u.Expires = time.Now().Add(g.lifetime).UTC()
	}
	return u
}

func runCredsAdd(ctx context.Context, env *environment, g giving, args []string) error {
	if g.lifetime < 0 {
		return usagef("--expires is negative, use a time such as 30d")
	}
	creds, err := openCreds(env)
	if err != nil {
		return err
	}
	u := credUser(env, g, args)
	if u.Role == toolcall.RoleEngine {
		u.Space = ""
	}
	path, err := creds.Add(ctx, u, g.replace)
	if err != nil {
		return err
	}
	return env.print(map[string]string{"role": string(u.Role), "name": u.Name, "space": string(u.Space), "file": path}, path+"\n")
}

func openCreds(env *environment) (*creds.Folder, error) {
	dir, err := credsFolder(env)
	if err != nil {
		return nil, err
	}
	return creds.Open(dir)
}

func newCredsRevokeCommand(env *environment, g *giving) *cobra.Command {
	c := addCredsFlags(env, &cobra.Command{
		Use:   "revoke ROLE NAME",
		Short: "Revoke a login",
		Long: `Revokes every login of ROLE and NAME in a space. An embedded server closes its
connections within a second; another NATS server needs the new configuration of askance
creds config. Calls that were approved or proposed with the login are not affected: see
askance revoke and askance interrupt.`,
		Example:           "  askance creds revoke approver ann",
		Args:              roleAndName,
		ValidArgsFunction: completeRoles,
		RunE: func(c *cobra.Command, args []string) error {
			creds, err := openCreds(env)
			if err != nil {
				return err
			}
			u := credUser(env, *g, args)
			if err := creds.Revoke(c.Context(), u); err != nil {
				return err
			}
			return env.print(map[string]string{"role": string(u.Role), "name": u.Name, "space": string(u.Space), "state": "revoked"}, fmt.Sprintf("Revoked: %s.\n", term.SafeLine(u.String())))
		},
	})
	env.cfg.bindAs(c, &env.cfg.Space, "space of the login")
	return c
}

func newCredsConfigCommand(env *environment) *cobra.Command {
	return addCredsFlags(env, &cobra.Command{
		Use:   "config",
		Short: "Print the configuration for an existing NATS server",
		Long: `Prints the part of a nats-server configuration that admits only these logins. It has
no secrets. After askance creds revoke, print it again and reload the servers. A
cluster whose accounts are managed with nsc can import the same operator and account
instead.`,
		Example: `  askance creds config > /etc/nats/askance-accounts.conf
  nats-server --signal reload`,
		Args: noArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			dir, err := credsFolder(env)
			if err != nil {
				return err
			}
			trust, err := creds.LoadTrust(dir)
			if err != nil {
				return err
			}
			return env.print(map[string]string{"account": trust.Account(), "config": trust.ServerConfig()}, trust.ServerConfig())
		},
	})
}

var (
	roleAndName   = wantArgs(2, "a role and a name, for instance: approver ann")
	completeRoles = completeWords("runtime", "worker", "approver", "operator", "auditor")
)

func newCredsListCommand(env *environment) *cobra.Command {
	return addCredsFlags(env, &cobra.Command{
		Use:     "list",
		Short:   "List logins",
		Long:    "Lists every login, with its state: in force, expired or revoked.",
		Example: "  askance creds list",
		Args:    noArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			creds, err := openCreds(env)
			if err != nil {
				return err
			}
			users, err := creds.Users()
			if err != nil {
				return err
			}
			return env.print(map[string]any{"users": users}, loginsTable(env.out, users))
		},
	})
}

func loginsTable(out *term.Out, users []creds.User) string {
	var rows [][]string
	for _, u := range users {
		what := strings.Join(u.Tools, ", ")
		if len(u.Routes) > 0 {
			what += " on " + strings.Join(u.Routes, ", ")
		}
		rows = append(rows, []string{
			string(u.Role), out.Name(term.SafeLine(u.Name)), cmp.Or(string(u.Space), "every space"), validity(u.Revoked, u.Expires, u.InForce(time.Now())), term.SafeLine(what),
		})
	}
	return tableText(out, []string{"ROLE", "NAME", "SPACE", "STATE", "TOOLS"}, rows)
}

func validity(revoked, expires time.Time, inForce bool) string {
	switch {
	case !revoked.IsZero():
		return "revoked " + revoked.Format(time.DateTime)
	case !inForce:
		return "expired " + expires.Format(time.DateTime)
	case !expires.IsZero():
		return "until " + expires.Format(time.DateTime)
	}
	return "in force"
}
