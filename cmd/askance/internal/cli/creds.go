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
	dir      string
	tools    []string
	subjects []string
	lifetime time.Duration
	replace  bool
}

func (a *app) creds() *cobra.Command {
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
	c.AddCommand(a.credsInit(&g), a.credsAdd(&g), a.credsList(&g), a.credsRevoke(&g), a.credsConfig(&g))
	return c
}

func (a *app) credsFlags(c *cobra.Command, g *giving) *cobra.Command {
	f := c.Flags()
	f.StringVar(&a.at.data, "data", "", "data folder (default "+defaultData("$HOME")+")")
	f.StringVar(&g.dir, "creds-dir", "", "credentials folder (default creds in the data folder)")
	return c
}

// folder is the credentials folder.
func (a *app) credsFolder(g *giving) (string, error) {
	switch {
	case g.dir != "":
		return g.dir, nil
	case a.at.dir() == "":
		return "", usagef("no data folder is known: name one with --data, or --creds-dir")
	}
	return node.Dir(a.at.dir()).Creds(), nil
}

func (a *app) credsInit(g *giving) *cobra.Command {
	return a.credsFlags(&cobra.Command{
		Use:   "init",
		Short: "Make a credentials folder",
		Long: `Makes a NATS operator, an account for the spaces and a login for the engines. From
the next start on, askance serve on the data folder refuses connections without a
login. HTTP demands a token at once, also in a running server (askance token create).`,
		Example: `  askance creds init
  askance creds init --creds-dir /etc/askance/creds`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := a.credsFolder(g)
			if err != nil {
				return err
			}
			if _, err := bus.InitCreds(c.Context(), dir); err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, map[string]string{"creds_dir": dir, "engine_login": bus.EngineLogin(dir)})
			}
			return a.printf("Credentials in %s. Restart askance serve, and make logins with askance creds add.\nHTTP demands a token from now on: askance token create NAME --role approver\n", dir)
		},
	}, g)
}

func (a *app) credsAdd(g *giving) *cobra.Command {
	c := a.credsFlags(&cobra.Command{
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
		RunE: func(c *cobra.Command, args []string) error { return a.runCredsAdd(c.Context(), *g, args) },
	}, g)
	f := c.Flags()
	f.StringVar(&a.at.space, "space", "default", "space in which the login is good")
	f.StringArrayVar(&g.tools, "tool", nil, "tool that a worker serves; may be repeated")
	f.StringArrayVar(&g.subjects, "subject", nil, "subject to which rules route the calls that a worker serves, and no others; may be repeated")
	f.DurationVar(&g.lifetime, "expires", 0, "how long the login is good, for instance 720h (default for ever)")
	f.BoolVar(&g.replace, "replace", false, "revoke the login that there is")
	c.ValidArgsFunction = completeRoles
	return c
}

// user takes a login from the arguments.
func (a *app) user(g giving, args []string) bus.CredUser {
	u := bus.CredUser{Space: a.at.spaceID(), Role: message.Role(args[0]), Name: args[1], Tools: g.tools, Routes: g.subjects}
	if g.lifetime != 0 {
		u.Expires = time.Now().Add(g.lifetime).UTC()
	}
	return u
}

func (a *app) runCredsAdd(ctx context.Context, g giving, args []string) error {
	if g.lifetime < 0 {
		return usagef("--expires is negative")
	}
	creds, err := a.openCreds(&g)
	if err != nil {
		return err
	}
	u := a.user(g, args)
	if u.Role == message.RoleEngine {
		u.Space = ""
	}
	path, err := creds.Add(ctx, u, g.replace)
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, map[string]string{"role": string(u.Role), "name": u.Name, "space": string(u.Space), "file": path})
	}
	return a.printf("%s\n", path)
}

func (a *app) openCreds(g *giving) (*bus.Creds, error) {
	dir, err := a.credsFolder(g)
	if err != nil {
		return nil, err
	}
	return bus.OpenCreds(dir)
}

func (a *app) credsRevoke(g *giving) *cobra.Command {
	c := a.credsFlags(&cobra.Command{
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
			creds, err := a.openCreds(g)
			if err != nil {
				return err
			}
			u := a.user(*g, args)
			if err := creds.Revoke(c.Context(), u); err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, map[string]string{"role": string(u.Role), "name": u.Name, "space": string(u.Space), "state": "revoked"})
			}
			return a.printf("Revoked: %s.\n", term.SafeLine(u.String()))
		},
	}, g)
	c.Flags().StringVar(&a.at.space, "space", "default", "space of the login")
	return c
}

func (a *app) credsConfig(g *giving) *cobra.Command {
	return a.credsFlags(&cobra.Command{
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
			dir, err := a.credsFolder(g)
			if err != nil {
				return err
			}
			trust, err := bus.LoadTrust(dir)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, map[string]string{"account": trust.Account(), "config": trust.ServerConfig()})
			}
			return a.printf("%s", trust.ServerConfig())
		},
	}, g)
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

func (a *app) credsList(g *giving) *cobra.Command {
	return a.credsFlags(&cobra.Command{
		Use:     "list",
		Short:   "List who was given a login",
		Long:    "Lists every login that was ever given, and whether it is in force.",
		Example: "  askance creds list",
		Args:    noArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			creds, err := a.openCreds(g)
			if err != nil {
				return err
			}
			users, err := creds.Users()
			if err != nil {
				return err
			}
			if a.json {
				return a.document(map[string]any{"users": users})
			}
			return a.printUsers(users, time.Now())
		},
	}, g)
}

func (a *app) printUsers(users []bus.CredUser, now time.Time) error {
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
	return a.printf("%s", b.String())
}
