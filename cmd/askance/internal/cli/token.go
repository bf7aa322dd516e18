package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/internal/spelling"
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
roles, and a name under which responses are recorded. Only hashes are stored, in
tokens.json in the data folder or in the file of --http-tokens. A running server reads
changes within a second, and closes the connections of a revoked token.

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
	case t.lifetime < 0:
		return usagef("--expires is negative, use a time such as 30d")
	}
	path, err := tokenFile(env)
	if err != nil {
		return err
	}
	token := auth.Token{Name: name, Space: env.cfg.spaceID(), Tools: t.tools, Subjects: t.subjects}
	for _, r := range t.roles {
		if !slices.Contains(tokenRoles, r) {
			return usagef("--role: %q is not a role: use %s%s", r, strings.Join(tokenRoles, ", "), didYouMean("", spelling.Nearest(r, tokenRoles)))
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
		return "No tokens.\n"
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
		Use:   "revoke ID|NAME",
		Short: "Revoke tokens",
		Long: `Revokes the token with an id, or every token of a name. A running server refuses it
within a second and closes its streams and login sessions. Earlier responses remain
valid.`,
		Example: "  askance token revoke ann",
		Args:    wantArgs(1, "one id or name; askance token list shows both"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := tokenFile(env)
			if err != nil {
				return err
			}
			revoked, err := auth.RevokeTokens(c.Context(), path, args[0])
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
