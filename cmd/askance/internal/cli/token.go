package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/toolcall"
)

type tokening struct {
	roles    []string
	tools    []string
	subjects []string
	lifetime time.Duration
}

func newTokenCommand(env *environment) *cobra.Command {
	var t tokening
	return newGroup(&cobra.Command{
		Use:   "token",
		Short: "Manage tokens for the HTTP interfaces",
		Long: `Creates and revokes bearer tokens for the gateway of askance serve. A token has a space,
roles, and a name that the journal records. Only hashes are stored, in tokens.json in
the data folder or in the file of --http-tokens. A running server reads changes within a
second, and closes the connections of a revoked token.

Without a token file, a provider (askance serve --oidc-issuer), a Unix socket
(--http-socket) and NATS logins (askance creds init), the gateway listens only on
loopback and treats every request as the one local user. The first token changes that.`,
		Example: `  askance token create ann --role approver
  askance token create support-bot --role runtime --expires 2160h
  askance token list
  askance token revoke ann`,
	}, newTokenCreateCommand(env, &t), newTokenListCommand(env), newTokenRevokeCommand(env))
}

func addTokenFlags(env *environment, c *cobra.Command) *cobra.Command {
	env.cfg.bind(c, &env.cfg.Data, &env.cfg.HTTPTokens)
	return c
}

func tokenFile(env *environment) (string, error) {
	return env.fileOr("http-tokens", env.cfg.HTTPTokens, node.Dir.Tokens)
}

var tokenRoles = []string{"runtime", "approver", "operator", "auditor", "worker"}

func newTokenCreateCommand(env *environment, t *tokening) *cobra.Command {
	c := addTokenFlags(env, &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token",
		Long: `Creates a token and prints it once: only its hash is stored. Send it to its owner over
a channel that you trust. Programs send it as Authorization: Bearer TOKEN; people paste
it into the login page.

A running server accepts the token within a second, even if it had no token file.`,
		Example: `  askance token create ann --role approver
  askance token create refunds --role worker --tool refund
  askance token create team-app --role runtime --role approver --space team
  askance token create ci --role auditor --expires 24h --json`,
		Args: wantArgs(1, "one name, for instance: ann"),
		RunE: func(c *cobra.Command, args []string) error { return runTokenCreate(env, c, *t, args[0]) },
	})
	f := c.Flags()
	env.cfg.bindAs(c, &env.cfg.Space, "space in which the token is valid")
	f.StringArrayVar(&t.roles, "role", nil, "role of its owner: runtime, approver, operator, auditor or worker; may be repeated")
	f.StringArrayVar(&t.tools, "tool", nil, "with --role worker: tool whose calls it may run; may be repeated")
	f.StringArrayVar(&t.subjects, "subject", nil, "with --tool: subject to which rules route calls; may be repeated")
	durationVar(f, &t.lifetime, "expires", 0, "lifetime of the token, such as 30d (default unlimited)")
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(tokenRoles, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func runTokenCreate(env *environment, c *cobra.Command, t tokening, name string) error {
	switch {
	case len(t.roles) == 0:
		return usagef("--role is missing: pass a role of %s, for instance --role approver", name)
	case slices.Contains(t.roles, string(toolcall.RoleWorker)) && len(t.tools) == 0:
		return usagef("--tool is missing: name a tool whose calls %s runs", name)
	case t.lifetime < 0:
		return usagef("--expires is negative, use a time such as 30d")
	}
	path, err := tokenFile(env)
	if err != nil {
		return err
	}
	token := auth.Token{Name: name, Space: env.cfg.spaceID(), Tools: t.tools, Subjects: t.subjects}
	for _, r := range t.roles {
		if err := checkWord("role", r, tokenRoles); err != nil {
			return err
		}
		token.Roles = append(token.Roles, toolcall.Role(r))
	}
	if t.lifetime > 0 {
		token.Expires = time.Now().Add(t.lifetime)
	}
	before, _ := auth.ListTokens(path) // CreateToken reports a file that cannot be read
	secret, stored, err := auth.CreateToken(c.Context(), path, token)
	if err != nil {
		return err
	}
	if !env.json {
		env.notef("%s\n", env.err.Dim("This token is shown once; only its hash is stored. Its owner logs in with it, or sets ASKANCE_TOKEN."))
		if len(before) == 0 {
			env.notef("From now on every HTTP request needs a token. Approvers: %s\n", term.Safe(commandLineFor(env, "token create NAME --role approver", "http-tokens")))
		}
	}
	return env.print(map[string]any{"token": secret, "id": stored.ID, "name": stored.Name, "space": stored.Space, "file": path}, secret+"\n")
}

func newTokenListCommand(env *environment) *cobra.Command {
	return addTokenFlags(env, &cobra.Command{
		Use:     "list",
		Short:   "List tokens",
		Long:    "Lists every token, with its state: in force, expired or revoked. The list has no secrets.",
		Example: "  askance token list",
		Args:    noArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			path, err := tokenFile(env)
			if err != nil {
				return err
			}
			all, err := auth.ListTokens(path)
			if err != nil {
				return err
			}
			return env.print(map[string]any{"tokens": all}, tokensTable(env.out, all))
		},
	})
}

func tokensTable(out *term.Out, all []auth.Token) string {
	if len(all) == 0 {
		return "No tokens. Create one with askance token create NAME --role approver.\n"
	}
	var rows [][]string
	for _, t := range all {
		roles := gateway.RoleList(t.Roles)
		if len(t.Tools) > 0 { // only workers have tools
			roles = strings.Replace(roles, "worker", "worker ("+term.SafeLine(strings.Join(t.Tools, ", "))+")", 1)
		}
		rows = append(rows, []string{t.ID, out.Name(term.SafeLine(t.Name)), string(t.Space), validity(t.Revoked, t.Expires, t.InForce(time.Now())), roles})
	}
	return tableText(out, []string{"ID", "NAME", "SPACE", "STATE", "ROLES"}, rows)
}

func newTokenRevokeCommand(env *environment) *cobra.Command {
	return addTokenFlags(env, &cobra.Command{
		Use:   "revoke ID|NAME...",
		Short: "Revoke tokens",
		Long: `Revokes the token with an id, or every token of a name. A running server refuses it
within a second and closes its streams and login sessions. Earlier responses remain
valid. If one of several ids or names is unknown, none is revoked.`,
		Example: "  askance token revoke ann",
		Args: func(c *cobra.Command, args []string) error {
			return wantArgs(max(len(args), 1), "ids or names; askance token list shows both")(c, args)
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return tokenWords(env, c, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			path, err := tokenFile(env)
			if err != nil {
				return err
			}
			revoked, err := auth.RevokeTokens(c.Context(), path, args...)
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, r := range revoked {
				fmt.Fprintf(&text, "Revoked: %s of %s.\n", r.ID, term.SafeLine(r.Name))
			}
			return env.print(map[string]any{"tokens": revoked}, text.String())
		},
	})
}

// tokenWords returns the names of tokens that can be revoked, without those that are given.
func tokenWords(env *environment, c *cobra.Command, given []string) (names []string) {
	if env.prepare(c) != nil {
		return nil
	}
	path, _ := tokenFile(env)
	all, _ := auth.ListTokens(path) // a file that cannot be read names none
	for _, t := range all {
		if t.Revoked.IsZero() && !slices.Contains(given, t.Name) && !slices.Contains(names, t.Name) {
			names = append(names, t.Name)
		}
	}
	return plainWords(names)
}

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
  askance creds add worker wk-1 --tool refund --replace
  askance creds add engine askance-engine --replace # a new login of the engines; restart them`,
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
		Example: "  askance creds revoke approver ann",
		Args:    roleAndName,
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return completeRoles(c, args, typed)
			}
			return loginWords(env, c, args[0]), cobra.ShellCompDirectiveNoFileComp
		},
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

// loginWords returns the names of logins of a role that can be revoked in the space.
func loginWords(env *environment, c *cobra.Command, role string) (names []string) {
	if env.prepare(c) != nil {
		return nil
	}
	folder, err := openCreds(env)
	if err != nil {
		return nil
	}
	users, _ := folder.Users() // a folder that cannot be read names none
	for _, u := range users {
		if string(u.Role) == role && u.Space == env.cfg.spaceID() && u.Revoked.IsZero() {
			names = append(names, u.Name)
		}
	}
	return plainWords(names)
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
	completeRoles = completeWords(tokenRoles...)
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
