package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/hookfile"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/remote"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	operations "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// gate is the gateway of a server.
type gate struct {
	env            *environment
	url, tokenFile string // of flags
	insecure       bool
}

const deadLettersPath = "/v1/webhooks/dead"

func newWebhooksCommand(env *environment) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "webhooks",
		Short: "Manage dead letters of webhooks, test and forget destinations",
		Long: `Lists, retries and drops dead letters: webhook messages that a destination did not
accept in any attempt. The destinations are those of askance serve --webhooks. These
commands use the gateway of that server and need the role operator; test needs no
server, and forget connects to the journal as engines do.`,
		Example: `  askance webhooks list
  askance webhooks retry ops-bot 17
  askance webhooks drop ops-bot 17 --url https://askance.example --token-file operator.token`,
	}, newWebhooksListCommand(env),
		newWebhooksActionCommand(env, "retry", "Deliver one dead letter again", `Makes one more attempt to deliver a dead letter. If it fails, the dead letter stays and
the command prints the reason. A message about an approval request that is no longer
open is dropped instead.`, http.MethodPost, "/retry"),
		newWebhooksActionCommand(env, "drop", "Drop one dead letter", "Drops a dead letter, which is then never delivered.", http.MethodDelete, ""),
		newWebhooksTestCommand(env), newWebhooksForgetCommand(env))
}

func gateFlags(c *cobra.Command, g *gate) *cobra.Command {
	f := c.Flags()
	g.env.cfg.bind(c, &g.env.cfg.Data)
	f.StringVar(&g.url, "url", "", "URL of the gateway (default that of the server of the data folder, or http://"+web.DefaultAddress+")")
	f.StringVar(&g.tokenFile, "token-file", "", "file with your token, if the gateway requires one (default the token in $ASKANCE_TOKEN)")
	f.BoolVar(&g.insecure, "url-insecure", false, plainTextHelp)
	return c
}

func newWebhooksListCommand(env *environment) *cobra.Command {
	g := gate{env: env}
	return gateFlags(&cobra.Command{
		Use: "list", Short: "List dead letters", Long: "Lists the dead letters, with the error of the last attempt.",
		Example: "  askance webhooks list", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var out api.DeadLettersReply
			if err := g.do(c.Context(), http.MethodGet, deadLettersPath, &out); err != nil {
				return err
			}
			var rows [][]string
			for _, l := range out.DeadLetters {
				rows = append(rows, []string{term.SafeLine(l.Destination), fmt.Sprint(l.Seq), l.At.Format(time.DateTime), fmt.Sprint(l.Attempts), term.SafeLine(l.Error)})
			}
			if len(rows) == 0 && !env.json {
				return env.print(nil, "No dead letters.\n")
			}
			return env.print(map[string]any{"dead_letters": out.DeadLetters}, tableText(env.out, []string{"DESTINATION", "NUMBER", "TIME", "ATTEMPTS", "LAST ERROR"}, rows))
		},
	}, &g)
}

func newWebhooksActionCommand(env *environment, use, short, long, method, path string) *cobra.Command {
	g := gate{env: env}
	return gateFlags(&cobra.Command{
		Use: use + " DESTINATION SEQ", Short: short, Long: long, Example: "  askance webhooks " + use + " ops-bot 17",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("expected a destination and a message number; askance webhooks list shows both")
			}
			if _, err := strconv.ParseUint(args[1], 10, 64); err != nil {
				return usagef("%q is not a message number; askance webhooks list shows the numbers", args[1])
			}
			return nil
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return g.deadLetterWords(c, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			var out api.FateReply
			if err := g.do(c.Context(), method, deadLettersPath+"/"+url.PathEscape(args[0])+"/"+args[1]+path, &out); err != nil {
				return err
			}
			return env.print(map[string]any{"fate": out.Fate}, map[webhook.Fate]string{
				webhook.FateDelivered: "Delivered.", webhook.FateStale: "Dropped: the message is out of date.", webhook.FateDropped: "Dropped.",
			}[out.Fate]+"\n")
		},
	}, &g)
}

// deadLetterWords returns the destinations with dead letters or, after one of them, the numbers of its
// dead letters.
func (g gate) deadLetterWords(c *cobra.Command, args []string) (words []string) {
	var out api.DeadLettersReply
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	if len(args) > 1 || g.env.prepare(c) != nil || g.do(ctx, http.MethodGet, deadLettersPath, &out) != nil {
		return nil
	}
	for _, l := range out.DeadLetters {
		switch {
		case len(args) == 0:
			words = append(words, l.Destination)
		case l.Destination == args[0]:
			words = append(words, strconv.FormatUint(l.Seq, 10))
		}
	}
	return plainWords(slices.Compact(words)) // they are in the order of destinations
}

// do sends a request to the gateway and decodes the reply.
func (g gate) do(ctx context.Context, method, path string, into any) error {
	from := "--url"
	if g.url == "" {
		from = "the server's address"
		dir := node.Dir(g.env.cfg.dir())
		if g.url, _ = dir.ConsoleURL(); g.url == "" && dir.Exists() == nil {
			return noConsole(dir, "start it without --http off, or pass --url")
		}
		if g.url == "" {
			g.url = "http://" + web.DefaultAddress
		}
	}
	if !strings.HasPrefix(g.url, overSocket) { // only processes of this machine reach a socket
		if err := checkURL(from, g.url, g.insecure, "url-insecure"); err != nil {
			return err
		}
	}
	token := func() (string, error) { return readToken(textfile.ReadHanded, g.tokenFile) }
	op := &operations.Operation{Name: "webhooks", Changes: method != http.MethodGet, HTTP: &operations.HTTP{Method: method, Path: path}}
	d := door{tokenFile: g.tokenFile, role: toolcall.RoleOperator}
	return d.adviseToken(remote.New(g.url, token).Do(ctx, op, into))
}

// checkDeadLetters looks for dead letters, which only the gateway lists.
func (d *diagnosis) checkDeadLetters(ctx context.Context, env *environment) {
	g := gate{env: env, url: env.cfg.Server, tokenFile: env.cfg.TokenFile, insecure: env.cfg.PlainText}
	url := "URL" // with --nats, the address of HTTP is not known
	if g.url != "" {
		url = spelling.ShellWord(bus.RedactURL(g.url))
	}
	command := programName() + " webhooks list --url " + url
	if !isRemote(env) {
		g.url, _ = node.Dir(env.cfg.dir()).ConsoleURL()
		command = commandLineFor(env, "webhooks list")
	}
	if g.insecure && g.url != "" {
		command += " --url-insecure"
	}
	if !strings.HasPrefix(g.url, "http") { // none, or a Unix socket
		d.add("webhooks", levelOK, "not checked: only the HTTP address of the server lists dead letters", "list them with "+command)
		return
	}
	var out api.DeadLettersReply
	err := g.do(ctx, http.MethodGet, deadLettersPath, &out)
	switch {
	case errors.Is(err, message.ErrNotFound): // the server has no webhooks
	case err != nil:
		d.add("webhooks", levelOK, "not checked: "+message.AsError("webhooks", err).What, "list dead letters with "+command+" --token-file FILE, where FILE has the token of an operator")
	case len(out.DeadLetters) > 0:
		d.add("webhooks", levelWarning, asked.Count(len(out.DeadLetters), "dead letter")+": messages that a destination did not accept in any attempt", "see why with "+command+", correct the destination, then retry or drop each")
	default:
		d.add("webhooks", levelOK, "no dead letters", "")
	}
}

func newWebhooksTestCommand(env *environment) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "test DESTINATION", Short: "Send one test message",
		Long: `Sends one signed test message of the type ping to a destination of a webhooks file, and
reports whether the destination accepted it. This machine sends it, without a server
and without retries.`,
		Example: "  askance webhooks test ops-bot --webhooks hooks.yaml",
		Args:    wantArgs(1, "one destination of the webhooks file"),
		ValidArgsFunction: completeFirst(func(*cobra.Command) []string {
			return plainWords(hookfile.Names(file))
		}),
		RunE: func(c *cobra.Command, args []string) error {
			if file == "" {
				return usagef("--webhooks is missing: pass the webhooks file of askance serve")
			}
			all, err := hookfile.Load(file)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(d webhook.Destination) bool { return d.Name == args[0] })
			if i < 0 {
				return &message.Error{Code: message.CodeNotFound, Op: "test a webhook", What: "the file has no destination " + term.SafeLine(args[0]), Hint: "use a destination of " + file}
			}
			id, err := webhook.Try(c.Context(), all[i], nil)
			if err != nil {
				return &message.Error{Code: message.CodeUnavailable, Op: "test a webhook", What: err.Error(), Hint: "correct the receiver or its address, then try again"}
			}
			return env.print(map[string]any{"destination": args[0], "id": id, "taken": true}, "Accepted: "+id+"\n")
		},
	}
	c.Flags().StringVar(&file, "webhooks", "", "webhooks file")
	return c
}

func newWebhooksForgetCommand(env *environment) *cobra.Command {
	yes := false
	c := &cobra.Command{
		Use: "forget DESTINATION", Short: "Remove a destination that no webhooks file names any more",
		Long: `Removes what NATS stores for a destination that was removed from the webhooks file. Its
undelivered messages are never sent. Otherwise NATS keeps them for 30 days, and askance
journal archive moves no reply that they are about.

The command refuses a destination that an engine serves, or served within the last two
minutes. It uses the server of --nats, or the data folder, whose server may run. Dead
letters stay until askance webhooks drop.`,
		Example: `  askance webhooks forget ops-bot
  askance webhooks forget ops-bot --yes --nats nats://nats.internal:4222 --creds engine.creds`,
		Args: wantArgs(1, "one destination; askance journal archive names those that hold replies back"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, name, space := c.Context(), args[0], env.cfg.spaceID()
			nc, _, closeAll, err := dialStore(ctx, env, false)
			if err != nil {
				return err
			}
			defer closeAll() //nolint:errcheck // only a restore writes files at its end
			d, err := journal.FindDestination(ctx, nc, space, name)
			if err == nil {
				err = d.CheckUnserved()
			}
			if err == nil {
				err = confirmUnless(ctx, env, yes, "remove the destination and its undelivered messages",
					undeliveredText(d, "were not delivered and will never be sent")+"\n", "Remove the destination "+d.Name+"?")
			}
			if err == nil {
				err = journal.ForgetDestination(ctx, nc, space, name)
			}
			if err != nil {
				return err
			}
			return env.print(map[string]any{"destination": name, "undelivered": d.Waiting}, fmt.Sprintf("Removed %s. %s\n", term.SafeLine(name), undeliveredText(d, "will never be sent to it")))
		},
	}
	env.cfg.bindJournal(c)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return c
}

// undeliveredText says what happens to the records that a destination has not received.
func undeliveredText(d journal.Destination, what string) string {
	if d.PlaceOnly {
		return "NATS stored no messages for it, only the place where it would continue."
	}
	if d.Waiting == 0 {
		return "It received everything."
	}
	return "Messages about " + asked.Count(int(d.Waiting), "event record") + " " + what + "."
}
