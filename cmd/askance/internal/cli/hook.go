package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/hook"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
)

type hooking struct {
	url, tokenFile string
	timeout        time.Duration
	onAllow        string
	dryRun         bool
	insecure       bool
}

func newHookCommand(env *environment) *cobra.Command {
	subs := []*cobra.Command{}
	for _, d := range dialect.Dialects() {
		subs = append(subs, newHookRelayCommand(env, d))
	}
	subs = append(subs, newHookInstallCommand(env), newHookCheckCommand(env), newHookUninstallCommand(env), newHookMCPCommand(env))
	group := newGroup(&cobra.Command{
		Use:   "hook",
		Short: "Decide about the tool calls of coding agents",
		Long: `Connects the hooks of Claude Code, Codex and Gemini CLI with askance serve: the policy
decides about each tool call of the agent, and people approve what the policy asks about.`,
		Example: `  askance token create agent --role runtime >agent.token
  askance hook install claude-code --token-file agent.token
  askance hook check claude-code`,
	}, subs...)
	group.RunE = func(*cobra.Command, []string) error { // help and success would let the tool run
		return usagef("name the agent: askance hook claude-code, codex or gemini")
	}
	return group
}

var agentNames = map[dialect.Dialect]string{dialect.ClaudeCode: "Claude Code", dialect.Codex: "Codex", dialect.Gemini: "Gemini CLI"}

// blockOnFailure marks commands that end with exit code 2 on every failure: on any
// other code the agent runs the tool.
const blockOnFailure = "block-on-failure"

func newHookRelayCommand(env *environment, d dialect.Dialect) *cobra.Command {
	var h hooking
	c := &cobra.Command{
		Use:   string(d),
		Short: "Answer one hook event of " + agentNames[d],
		Long: `Reads one hook event of ` + agentNames[d] + ` from standard input, has the server decide about the
call, and prints only the answer, in the agent's format. The agent starts this command.

The command waits until the call is decided. 5s before the agent's timeout it denies the call
with a link to the request, which stays open: when the agent repeats the call, it gets the
decision. Every failure ends with exit code 2 and a reason, which blocks the call.

It reads no settings file, because the agent could write one. The token must be that of
a runtime.`,
		Example:     "  askance hook " + string(d) + " --url https://askance.example --token-file agent.token <event.json",
		Annotations: map[string]string{blockOnFailure: "true"},
		Args:        noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runHook(env, c, d, h)
		},
	}
	addHookFlags(c, &h, d.Timeout())
	c.Flags().BoolVar(&h.dryRun, "dry-run", false, "record nothing: allow what the policy allows, and deny the rest")
	return c
}

const plainTextHelp = "allow the token and calls to cross the network in plain text"

// addHookFlags adds the flags that say where the server is and how calls are answered.
func addHookFlags(c *cobra.Command, h *hooking, timeout time.Duration) {
	f := c.Flags()
	f.StringVar(&h.url, "url", "", "URL of the server (default $ASKANCE_URL, or http://"+web.DefaultAddress+")")
	f.StringVar(&h.tokenFile, "token-file", "", "file with the runtime's token (default the token in $ASKANCE_TOKEN)")
	f.BoolVar(&h.insecure, "url-insecure", false, plainTextHelp)
	durationVar(f, &h.timeout, "timeout", timeout, "how long the agent lets the hook run, as in its settings")
	f.StringVar(&h.onAllow, "on-allow", "allow", "for allowed calls: allow (the agent does not ask again), or pass (its own rules and prompts decide)")
	_ = c.RegisterFlagCompletionFunc("on-allow", cobra.FixedCompletions([]string{"allow", "pass"}, cobra.ShellCompDirectiveNoFileComp))
}

// client makes the client of an agent's hook.
func (h hooking) client(d dialect.Dialect) (hook.Client, error) {
	c := hook.Client{
		Dialect: d, URL: cmp.Or(h.url, os.Getenv("ASKANCE_URL"), "http://"+web.DefaultAddress),
		Timeout: h.timeout, Pass: h.onAllow == "pass", DryRun: h.dryRun,
	}
	if h.onAllow != "allow" && h.onAllow != "pass" {
		return c, usagef("--on-allow is %q, use allow or pass", h.onAllow)
	}
	from := "--url"
	if h.url == "" {
		from = "ASKANCE_URL"
	}
	err := checkURL(from, c.URL, h.insecure, "url-insecure")
	if err != nil {
		return c, err
	}
	c.Token, err = readToken(textfile.ReadHanded, h.tokenFile)
	return c, err
}

// runHook answers one event. Nothing is printed before the answer is complete.
func runHook(env *environment, c *cobra.Command, d dialect.Dialect, h hooking) (err error) {
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("askance hook failed and blocks this call: %v; report it as a defect", p)
		}
	}()
	client, err := h.client(d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(c.Context(), max(h.timeout-dialect.Margin, time.Second), errors.New("it did not end before the agent's timeout"))
	defer cancel()
	event, err := readEvent(ctx, env.in)
	if err != nil {
		return fmt.Errorf("this tool call is blocked: the event on standard input cannot be read: %w; the agent must close it after one event", err)
	}
	if len(event) > dialect.MaxEventBytes {
		return errors.New("this tool call is blocked: the event on standard input is too large; make a smaller call")
	}
	answer, err := client.Answer(c.Context(), event, began)
	if err != nil {
		return err
	}
	if len(answer) == 0 {
		return nil
	}
	_, err = env.out.Write(append(answer, '\n'))
	return err
}

// readEvent reads the event, at most until ctx ends: an agent runs the tool if its hook
// is still waiting for input at the timeout.
func readEvent(ctx context.Context, in io.Reader) ([]byte, error) {
	type input struct {
		event []byte
		err   error
	}
	got := make(chan input, 1)
	go func() {
		var r input
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("%v; report it as a defect", p)
			}
			got <- r
		}()
		r.event, r.err = io.ReadAll(io.LimitReader(in, dialect.MaxEventBytes+1))
	}()
	select {
	case r := <-got:
		return r.event, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func newHookMCPCommand(env *environment) *cobra.Command {
	var h hooking
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the permission-prompt tool of Claude Code",
		Long: `Serves MCP on standard input and output with one tool, approve. Claude Code without a
terminal calls it where it would ask its user. It asks only about calls that its own rules
do not decide: install the hooks to have all calls decided.`,
		Example: `  claude -p "fix the tests" --permission-prompt-tool mcp__askance__approve \
    --mcp-config '{"mcpServers":{"askance":{"command":"askance","args":["hook","mcp"]}}}'`,
		Annotations: map[string]string{blockOnFailure: "true"},
		Args:        noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := h.client(dialect.ClaudeCode)
			if err != nil {
				return err
			}
			return hook.ServePrompt(c.Context(), client, buildInfo().Version, env.in, env.out)
		},
	}
	addHookFlags(c, &h, 5*time.Minute)
	c.Flags().Lookup("timeout").Usage = "how long Claude Code waits for the tool (MCP_TOOL_TIMEOUT)"
	_ = c.Flags().MarkHidden("on-allow") // a permission prompt has no rules of its own that could decide
	return c
}
