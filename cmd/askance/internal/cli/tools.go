package cli

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolimport"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func newToolsCommand(env *environment) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:     "tools",
		Short:   "Manage tools files",
		Long:    "Writes tools files, which declare the tools of an engine. No engine is needed.",
		Example: "  askance tools import openapi.yaml -o tools.yaml",
	}, newToolsImportCommand(env))
}

type toolsImport struct {
	file, url, tokenFile string
	placement            string
	output               string
	only                 []string
	timeout              time.Duration
	argv                 []string
	write                toolimport.Options
}

func newToolsImportCommand(env *environment) *cobra.Command {
	var t toolsImport
	c := &cobra.Command{
		Use:   "import FILE | --url URL | -- CMD [ARG…]",
		Short: "Write a tools file from an MCP server, an OpenAI tools array or an OpenAPI document",
		Long: `Reads tool definitions and prints a tools file. The source is one of these:

  FILE            an array of tools as the OpenAI or the Anthropic API takes it, the
                  answer of an MCP server to tools/list, or an OpenAPI 3 document (JSON or
                  YAML); - is standard input
  --url URL       an MCP server over HTTP
  -- CMD [ARG…]   an MCP server that CMD starts, over its standard input and output

A definition is converted exactly or not at all: if one cannot be converted, the import
is refused. --leave-out leaves such tools out and lists them in the file and on standard
error. What a tools file cannot express becomes a comment.

The hints of a source are not proof. Hints that restrict become settings (destructive,
open_world). Hints that permit more become comments: read_only would allow calls that no
rule matches, and idempotent would run a lost call again. --trust-hints turns all hints
into settings; use it only for a source that you control.

Each operation of an OpenAPI document becomes a tool. Its input has the parameters under
their names, and the JSON body as body.`,
		Example: `  askance tools import tools.json -o tools.yaml
  askance tools import openapi.yaml --only getOrder --only refundOrder
  askance tools import --url https://mcp.example.com/mcp --token-file token --server shop
  askance tools import --server files -- npx -y @modelcontextprotocol/server-filesystem /srv`,
		Args: func(c *cobra.Command, args []string) error { return t.readArgs(c.ArgsLenAtDash(), args) },
		RunE: func(c *cobra.Command, _ []string) error { return runToolsImport(c.Context(), env, t) },
	}
	f := c.Flags()
	f.StringVar(&t.url, "url", "", "MCP server over HTTP")
	f.StringVar(&t.tokenFile, "token-file", "", "file with a bearer token for --url")
	f.StringVar(&t.write.Server, "server", "", "name of the source in rules (the server of each tool)")
	f.StringVar(&t.placement, "placement", "remote", "where the tools run: remote (workers), local or external")
	f.StringArrayVar(&t.only, "only", nil, "import only this tool; may be repeated")
	f.BoolVar(&t.write.LeaveOut, "leave-out", false, "leave out tools that cannot be converted")
	f.BoolVar(&t.write.Trust, "trust-hints", false, "turn all hints of the source into settings: only for a source that you control")
	durationVar(f, &t.timeout, "timeout", 30*time.Second, "how long an MCP server can take")
	f.StringVarP(&t.output, "output", "o", "", "write to this file instead of standard output")
	return c
}

// readArgs finds the one source.
func (t *toolsImport) readArgs(dash int, args []string) error {
	var argv []string
	if dash >= 0 {
		args, argv = args[:dash], args[dash:]
	}
	sources := len(args) + min(len(argv), 1)
	if t.url != "" {
		sources++
	}
	t.write.Placement = toolcall.Placement(t.placement)
	if err := checkWord("placement", t.placement, []toolcall.Placement{toolcall.PlaceRemote, toolcall.PlaceLocal, toolcall.PlaceExternal}); err != nil {
		return err
	}
	switch {
	case sources != 1 || slices.Contains(args, ""):
		return usagef("expected one source: a file, --url, or a command after --")
	case t.tokenFile != "" && t.url == "":
		return usagef("--token-file is only for --url")
	case t.timeout <= 0:
		return usagef("--timeout %s must be positive", t.timeout)
	case len(args) > 0:
		t.file, t.write.Source = args[0], filepath.Base(args[0])
		if t.file == "-" {
			t.write.Source = "standard input"
		}
		return nil
	case len(argv) > 0:
		t.argv, t.write.Source = argv, filepath.Base(argv[0]) // its arguments can contain a secret
		return nil
	}
	u, err := url.Parse(t.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usagef("--url %q is not an http or https URL", t.url)
	}
	t.write.Source = u.Scheme + "://" + u.Host + u.Path // a query can contain a secret
	return nil
}

func runToolsImport(ctx context.Context, env *environment, t toolsImport) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	found, err := t.find(ctx, env)
	if err != nil {
		return err
	}
	if err := found.Only(t.only); err != nil {
		return usageError{fmt.Errorf("import %s: %w", t.write.Source, err)}
	}
	file, leftOut, err := found.Write(t.write)
	if err != nil {
		return usageError{fmt.Errorf("import %s: %w", t.write.Source, err)}
	}
	for _, tool := range leftOut {
		env.notef("left out: %s\n", term.SafeLine(tool))
	}
	if t.output != "" {
		return replaceFile(t.output, file, 0o644)
	}
	return env.print(map[string]any{"tools": len(found.Tools) - len(leftOut), "left_out": leftOut, "yaml": string(file)}, string(file))
}

func (t *toolsImport) find(ctx context.Context, env *environment) (*toolimport.Found, error) {
	switch {
	case t.argv != nil:
		return toolimport.FromCommand(ctx, t.argv)
	case t.url != "":
		token := ""
		if t.tokenFile != "" {
			b, err := textfile.ReadHanded("token file", t.tokenFile, maxSecret)
			if err != nil {
				return nil, err
			}
			token = strings.TrimSpace(string(b))
		}
		return toolimport.FromURL(ctx, t.url, token)
	}
	data, err := readFile(env, "import", t.file, toolimport.MaxBytes)
	if err != nil {
		return nil, err
	}
	found, err := toolimport.Read(data)
	if err != nil {
		return nil, usageError{fmt.Errorf("import %s: %w", t.write.Source, err)}
	}
	return found, nil
}

// starter holds the files of a new project.
//
//go:embed starter/*.yaml
var starter embed.FS

var starterFiles = []string{settingsFile, "rules.yaml", "tools.yaml"}

func newInitCommand(env *environment) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:        "init [FOLDER]",
		SuggestFor: []string{"new", "create", "setup"},
		Short:      "Write the settings, policy and tools file of a new project",
		Long: `Writes askance.yaml, rules.yaml and tools.yaml with comments into a folder, by default
the current one. The policy has tests and passes askance policy lint. The settings put
the data into .askance, which git ignores.

It does not replace a file without --force.`,
		Example: `  askance init
  askance init shop && cd shop && askance serve
  askance init --force`,
		Args: optional(wantArgs(1, "one folder")),
		RunE: func(_ *cobra.Command, args []string) error {
			return runInit(env, cmp.Or(onlyArg(args), "."), force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace existing files")
	return c
}

func runInit(env *environment, folder string, force bool) error {
	var there []string
	for _, name := range starterFiles {
		if _, err := os.Lstat(filepath.Join(folder, name)); err == nil {
			there = append(there, filepath.Join(folder, name))
		}
	}
	if len(there) > 0 && !force {
		return &message.Error{Code: message.CodeConflict, Op: "init", What: "these files already exist: " + strings.Join(there, ", "), Hint: "pass --force to replace them, or name another folder"}
	}
	data := filepath.Join(folder, ".askance")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	if err := replaceFile(filepath.Join(data, ".gitignore"), []byte("*\n"), 0o600); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	var written []string
	for _, name := range starterFiles {
		text, err := starter.ReadFile("starter/" + name)
		if err == nil {
			err = replaceFile(filepath.Join(folder, name), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("init: write %s: %w", name, err)
		}
		written = append(written, filepath.Join(folder, name))
	}
	enter := ""
	if folder != "." {
		enter = "cd " + spelling.ShellWord(folder) + " && "
	}
	return env.print(map[string]any{"files": written, "next": enter + "askance serve"}, fmt.Sprintf(`Wrote %s.
Next, start the server:  %[2]saskance serve
Then, in another terminal:
  %[2]saskance open                                                # the web console
  %[2]saskance preview bash --args '{"command": "git push"}'       # what the policy decides
`, term.SafeLine(strings.Join(written, ", ")), term.SafeLine(enter)))
}
