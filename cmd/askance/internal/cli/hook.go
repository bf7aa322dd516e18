package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/hook"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/linediff"
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
		Example: `  (umask 077; askance token create agent --role runtime >agent.token)
  askance hook install claude-code --token-file agent.token
  askance hook check claude-code`,
		Annotations: map[string]string{blockOnFailure: "true"}, // an agent may start it with a wrong name
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
and names the request, with a link if the server has a web address. The request stays open: when
the agent repeats the call, it gets the decision. Every failure ends with exit code 2 and a
reason, which blocks the call.

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
	f.StringVar(&h.url, "url", "", "URL of the server, or unix://PATH of its Unix socket (default $ASKANCE_URL, or http://"+web.DefaultAddress+")")
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
	var err error
	if !isSocket(c.URL) {
		err = checkURL(from, c.URL, h.insecure, "url-insecure")
	}
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

// installing has the flags of the commands that read or write an agent's settings.
type installing struct {
	hooking
	file          string
	project, http bool
	yes           bool
}

const maxAgentSettings = 1 << 20

func addSettingsFlags(c *cobra.Command, i *installing) *cobra.Command {
	f := c.Flags()
	f.StringVar(&i.file, "file", "", "settings file of the agent (default the user's)")
	f.BoolVar(&i.project, "project", false, "use the settings of the project in the current folder")
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || agentNames[dialect.Dialect(args[0])] == "" {
			return usagef("name the agent: claude-code, codex or gemini")
		}
		return nil
	}
	c.ValidArgsFunction = completeWords("claude-code", "codex", "gemini")
	return c
}

func newHookInstallCommand(env *environment) *cobra.Command {
	var i installing
	c := addSettingsFlags(&cobra.Command{
		Use:   "install AGENT",
		Short: "Write the hooks into the settings of an agent",
		Long: `Writes the hooks of askance into the settings of Claude Code, Codex or Gemini CLI. It
shows the change and asks first. Other settings and comments stay as they are; hooks of an
earlier installation are replaced.

Keep the token in a file that only you can read: --token-file. The agent can read the
settings.`,
		Example: `  askance hook install claude-code --token-file ~/.config/askance/agent.token
  askance hook install codex --yes
  askance hook install gemini --project`,
		RunE: func(c *cobra.Command, args []string) error {
			return runHookInstall(env, c, &i, dialect.Dialect(args[0]))
		},
	}, &i)
	addHookFlags(c, &i.hooking, 0)
	c.Flags().Lookup("timeout").Usage = "how long the agent lets the hook run (default 10m, or 1m for gemini)"
	c.Flags().BoolVar(&i.http, "http-hook", false, "Claude Code only: let it post its events itself, with the token in $ASKANCE_TOKEN")
	c.Flags().BoolVar(&i.yes, "yes", false, "write without asking")
	return c
}

func (i *installing) settingsPath(d dialect.Dialect) (string, error) {
	switch {
	case i.file != "":
		return i.file, nil
	case i.project:
		return hook.File(d, ".")
	}
	return hook.File(d, "")
}

// readAgentSettings reads the settings of an agent; a file that does not exist is empty.
func readAgentSettings(path string) (string, error) {
	b, err := textfile.ReadHanded("settings of the agent", path, maxAgentSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

func runHookInstall(env *environment, c *cobra.Command, i *installing, d dialect.Dialect) error {
	if i.http && d != dialect.ClaudeCode {
		return usagef("--http-hook is for claude-code: %s has no HTTP hooks", agentNames[d])
	}
	if i.http && i.tokenFile != "" {
		return usagef("--token-file cannot be used with --http-hook: Claude Code reads the token from $ASKANCE_TOKEN")
	}
	client, err := i.client(d)
	if err != nil {
		return err
	}
	if i.http && isSocket(client.URL) {
		return usagef("--http-hook cannot be used with the Unix socket %s: Claude Code posts only to URLs", client.URL)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program of askance: %w", err)
	}
	s := hook.Settings{Dialect: d, Program: program, URL: client.URL, Timeout: cmp.Or(i.timeout, d.Timeout()), Pass: client.Pass, HTTP: i.http, Insecure: i.insecure}
	if s.Timeout <= dialect.Margin {
		return usagef("--timeout is %s, use one over %s", s.Timeout, dialect.Margin)
	}
	if i.tokenFile != "" {
		if s.TokenFile, err = filepath.Abs(i.tokenFile); err != nil {
			return err
		}
	}
	if err := i.change(env, c, d, s.Install); err != nil {
		return err
	}
	for _, w := range hook.Warnings(d, hook.Version(c.Context(), d)) {
		env.notef("%s %s\n", env.err.Bad("warning:"), w)
	}
	env.notef("Check it with: askance hook check %s\n", d)
	return nil
}

func newHookUninstallCommand(env *environment) *cobra.Command {
	var i installing
	c := addSettingsFlags(&cobra.Command{
		Use:     "uninstall AGENT",
		Short:   "Remove the hooks from the settings of an agent",
		Long:    "Removes the hooks of askance from the settings of an agent. It shows the change and asks first.",
		Example: "  askance hook uninstall claude-code",
		RunE: func(c *cobra.Command, args []string) error {
			d := dialect.Dialect(args[0])
			return i.change(env, c, d, func(text string) (string, error) { return hook.Uninstall(d, text) })
		},
	}, &i)
	c.Flags().BoolVar(&i.yes, "yes", false, "write without asking")
	return c
}

// change edits the settings of an agent after a person has seen the diff, or with --yes.
func (i *installing) change(env *environment, c *cobra.Command, d dialect.Dialect, edit func(string) (string, error)) error {
	path, err := i.settingsPath(d)
	if err != nil {
		return err
	}
	before, err := readAgentSettings(path)
	if err != nil {
		return err
	}
	after, err := edit(before)
	if err != nil {
		return &textfile.Error{Kind: "settings of the agent", File: path, Err: err}
	}
	if before == "" && strings.TrimSpace(after) == "{}" || before == after {
		return env.print(map[string]any{"file": path, "changed": false}, "Nothing to change in "+term.SafeLine(path)+".\n")
	}
	diff := changedLines(before, after)
	if err := confirmUnless(c.Context(), env, i.yes, "write "+path, term.SafeLine(path)+"\n"+diff, "Write this?"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the settings of the agent: %w", err)
	}
	if err := rewriteInPlace(path, []byte(after), 0o600); err != nil {
		return fmt.Errorf("write the settings of the agent: %w", err)
	}
	return env.print(map[string]any{"file": path, "changed": true}, "Wrote "+term.SafeLine(path)+":\n"+diff)
}

// changedLines are the lines that an edit adds and removes.
func changedLines(before, after string) string {
	var b strings.Builder
	for _, line := range linediff.Lines(strings.Split(before, "\n"), strings.Split(after, "\n")) {
		if !strings.HasPrefix(line, "  ") {
			b.WriteString(term.SafeLine(line) + "\n")
		}
	}
	return b.String()
}

func newHookCheckCommand(env *environment) *cobra.Command {
	var i installing
	return addSettingsFlags(&cobra.Command{
		Use:   "check AGENT",
		Short: "Prove that the installed hooks decide and block",
		Long: `Reads the settings of an agent, starts the installed hook as the agent does with an event
that is not recorded, and starts it again without a server, where it must block. For
Codex it also asks codex whether its user trusts the hook.`,
		Example: "  askance hook check claude-code",
		RunE: func(c *cobra.Command, args []string) error {
			d := dialect.Dialect(args[0])
			path, err := i.settingsPath(d)
			if err != nil {
				return err
			}
			text, err := readAgentSettings(path)
			if err != nil {
				return err
			}
			found := hook.Check(c.Context(), d, text)
			if d == dialect.Codex && i.file == "" {
				trust, err := hook.CodexTrust(c.Context(), ".")
				if err != nil {
					trust = hook.Finding{Text: "Codex cannot say whether it trusts the hook: " + err.Error()}
					if errors.Is(err, exec.ErrNotFound) {
						trust.Text = "Codex is not on the PATH, so it cannot say whether it trusts the hook"
					}
				}
				found = append(found, trust)
			}
			return reportChecks(env, path, found)
		},
	}, &i)
}

func reportChecks(env *environment, path string, found []hook.Finding) error {
	var b strings.Builder
	bad := 0
	for _, f := range found {
		mark := "ok    "
		if !f.OK {
			mark = "FAIL  "
			bad++
		}
		b.WriteString(mark + term.SafeLine(f.Text) + "\n")
	}
	if err := env.print(map[string]any{"file": path, "checks": found}, b.String()); err != nil {
		return err
	}
	if bad > 0 {
		return findingsf("%d of %d checks failed for %s", bad, len(found), path)
	}
	return nil
}
