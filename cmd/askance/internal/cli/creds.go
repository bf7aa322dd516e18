package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
)

// giving is what askance creds is told.
type giving struct {
	tools    []string
	subjects []string
	lifetime time.Duration
	replace  bool
}

func newCredsCommand(env *environment) *cobra.Command {
	var g giving
	c := &cobra.Command{
		Use:   "creds",
		Short: "Give runtimes, workers and people logins with no more rights than they need",
		Long: `Makes and revokes NATS credentials files. Each holds a key and a signed token that
names the few subjects its owner may use: a runtime proposes in its own name, an
approver answers in theirs, a worker serves its tools, an operator settles, an
auditor reads.

The folder of the credentials is creds in the data folder, or --creds-dir. A server
that askance serve brings along takes them from there; for another NATS server print
the configuration with askance creds config.

Whoever can read the folder secrets in it can make logins. Nothing else needs it, so
it may be kept elsewhere until the next login.`,
		Example: `  askance creds init
  askance creds add approver ann
  askance creds add worker wk-1 --tool refund
  askance creds revoke approver ann`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newCredsInitCommand(env, &g), newCredsAddCommand(env, &g), newCredsListCommand(env, &g), newCredsRevokeCommand(env, &g), newCredsConfigCommand(env, &g))
	return c
}

func addCredsFlags(env *environment, c *cobra.Command) *cobra.Command {
	env.cfg.bind(c, &env.cfg.Data, &env.cfg.CredsDir)
	return c
}

// folder is the credentials folder.
func credsFolder(env *environment) (string, error) {
	switch {
	case env.cfg.CredsDir != "":
		return env.cfg.CredsDir, nil
	case env.cfg.dir() == "":
		return "", usagef("no data folder is known: name one with --data, or --creds-dir")
	}
	return node.Dir(env.cfg.dir()).Creds(), nil
}

func newCredsInitCommand(env *environment, g *giving) *cobra.Command {
	return addCredsFlags(env, &cobra.Command{
		Use:   "init",
		Short: "Make a credentials folder",
		Long: `Makes a NATS operator, an account for the spaces and a login for the engines. From
the next start on, askance serve on the data folder refuses connections without a
login. HTTP demands a token at once, also in a running server (askance token create).`,
		Example: `  askance creds init
  askance creds init --creds-dir /etc/askance/creds`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := credsFolder(env)
			if err != nil {
				return err
			}
			if _, err := bus.InitCreds(c.Context(), dir); err != nil {
				return err
			}
			if env.json {
				return writeJSON(env.out, map[string]string{"creds_dir": dir, "engine_login": bus.EngineLogin(dir)})
			}
			return env.printf("Credentials in %s. Restart askance serve, and make logins with askance creds add.\nHTTP demands a token from now on: askance token create NAME --role approver\n", dir)
		},
	})
}

func newCredsAddCommand(env *environment, g *giving) *cobra.Command {
	c := addCredsFlags(env, &cobra.Command{
		Use:   "add ROLE NAME",
		Short: "Give a login",
		Long: `Makes a credentials file for a runtime, worker, approver, operator or auditor of a
space. It is readable for you alone: hand it to its owner over a channel that you
trust, and delete it here. Its owner names it with --creds, ASKANCE_CREDS or in
askance.yaml, and is then known by NAME: nobody else can use that name.

A worker's login is good for the tools of --tool alone, and with --subject for those of
their calls alone that rules route to that subject. Someone who has several roles
gets a file for each.`,
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
	f.StringArrayVar(&g.tools, "tool", nil, "tool that a worker serves; may be repeated")
	f.StringArrayVar(&g.subjects, "subject", nil, "subject to which rules route the calls that a worker serves, and no others; may be repeated")
	f.DurationVar(&g.lifetime, "expires", 0, "how long the login is good, for instance 720h (default for ever)")
	f.BoolVar(&g.replace, "replace", false, "revoke the login that there is")
	c.ValidArgsFunction = completeRoles
	return c
}

// credUser takes a login from the arguments.
func credUser(env *environment, g giving, args []string) bus.CredUser {
	u := bus.CredUser{Space: env.cfg.spaceID(), Role: message.Role(args[0]), Name: args[1], Tools: g.tools, Routes: g.subjects}
	if g.lifetime != 0 {
		u.Expires = time.Now().Add(g.lifetime).UTC()
	}
	return u
}

func runCredsAdd(ctx context.Context, env *environment, g giving, args []string) error {
	if g.lifetime < 0 {
		return usagef("--expires is negative")
	}
	creds, err := openCreds(env)
	if err != nil {
		return err
	}
	u := credUser(env, g, args)
	if u.Role == message.RoleEngine {
		u.Space = ""
	}
	path, err := creds.Add(ctx, u, g.replace)
	if err != nil {
		return err
	}
	if env.json {
		return writeJSON(env.out, map[string]string{"role": string(u.Role), "name": u.Name, "space": string(u.Space), "file": path})
	}
	return env.printf("%s\n", path)
}

func openCreds(env *environment) (*bus.Creds, error) {
	dir, err := credsFolder(env)
	if err != nil {
		return nil, err
	}
	return bus.OpenCreds(dir)
}

func newCredsRevokeCommand(env *environment, g *giving) *cobra.Command {
	c := addCredsFlags(env, &cobra.Command{
		Use:   "revoke ROLE NAME",
		Short: "Take a login back",
		Long: `Revokes every login of ROLE and NAME in a space. An embedded server is told within a
second and ends the connections; another NATS server must be given the configuration
of askance creds config again. What was done with the login stays done: see
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
			if env.json {
				return writeJSON(env.out, map[string]string{"role": string(u.Role), "name": u.Name, "space": string(u.Space), "state": "revoked"})
			}
			return env.printf("Revoked: %s.\n", term.SafeLine(u.String()))
		},
	})
	env.cfg.bindAs(c, &env.cfg.Space, "space of the login")
	return c
}

func newCredsConfigCommand(env *environment, g *giving) *cobra.Command {
	return addCredsFlags(env, &cobra.Command{
		Use:   "config",
		Short: "Print the configuration for a NATS server elsewhere",
		Long: `Prints the part of a nats-server configuration that lets in those who have a login,
and nobody else. It holds no secrets. After askance creds revoke, print it again and
reload the servers. A cluster whose accounts are administered with nsc can import the
same operator and account instead.`,
		Example: `  askance creds config > /etc/nats/askance-accounts.conf
  nats-server --signal reload`,
		Args: noArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			dir, err := credsFolder(env)
			if err != nil {
				return err
			}
			trust, err := bus.LoadTrust(dir)
			if err != nil {
				return err
			}
			if env.json {
				return writeJSON(env.out, map[string]string{"account": trust.Account(), "config": trust.ServerConfig()})
			}
			return env.printf("%s", trust.ServerConfig())
		},
	})
}

func roleAndName(_ *cobra.Command, args []string) error {
	if len(args) != 2 || args[0] == "" || args[1] == "" {
		return usagef("want a role and a name, for instance: approver ann")
	}
	return nil
}

func completeRoles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"runtime", "worker", "approver", "operator", "auditor"}, cobra.ShellCompDirectiveNoFileComp
}

func newCredsListCommand(env *environment, g *giving) *cobra.Command {
	return addCredsFlags(env, &cobra.Command{
		Use:     "list",
		Short:   "List who was given a login",
		Long:    "Lists every login that was ever given, and whether it is in force.",
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
			if env.json {
				return env.printDocument(map[string]any{"users": users})
			}
			return printCredUsers(env, users, time.Now())
		},
	})
}

func printCredUsers(env *environment, users []bus.CredUser, now time.Time) error {
	var b strings.Builder
	for _, u := range users {
		state := "in force"
		switch {
		case !u.Revoked.IsZero():
			state = "revoked " + u.Revoked.Format(time.DateTime)
		case !u.InForce(now):
			state = "expired " + u.Expires.Format(time.DateTime)
		case !u.Expires.IsZero():
			state = "until " + u.Expires.Format(time.DateTime)
		}
		space := string(u.Space)
		if space == "" {
			space = "every space"
		}
		what := strings.Join(u.Tools, ", ")
		if len(u.Routes) > 0 {
			what += " on " + strings.Join(u.Routes, ", ")
		}
		fmt.Fprintf(&b, "%-9s %-20s %-12s %-28s %s\n", u.Role, term.SafeLine(u.Name), space, state, term.SafeLine(what))
	}
	return env.printf("%s", b.String())
}
