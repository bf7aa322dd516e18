package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/corpus"
)

type explaining struct {
	policyFiles
	tool, args, call, test, now string
	caller                      permission.Caller
}

func newPolicyExplainCommand(env *environment) *cobra.Command {
	x := explaining{policyFiles: policyFiles{cfg: &env.cfg}}
	c := &cobra.Command{
		Use:   "explain [FILE...]",
		Short: "Explain what a policy decides about a call",
		Long: `Decides one call and shows the result of every rule for its tool: the first part of
the condition that was false, the values in it, and its place in the file. For a shell
command it shows each part. Nothing runs.

Pass the call with --tool and --args, as a JSON object with --call (see askance policy
replay --help), or as the name of a test in the rule files with --test.`,
		Example: `  askance policy explain rules.yaml --tools tools.yaml --tool refund --args '{"order": "A-1", "cents": 900}'
  askance policy explain rules.yaml --tools tools.yaml --tool refund --args @call.json --mode dont_ask --json
  askance policy explain rules.yaml --tools tools.yaml --test "large refunds ask"`,
		Args:              anyRuleFiles,
		ValidArgsFunction: completeRules,
		RunE:              func(c *cobra.Command, args []string) error { return runExplain(c.Context(), env, x, args) },
	}
	x.flags(c)
	f := c.Flags()
	f.StringVar(&x.tool, "tool", "", "name of the tool")
	f.StringVar(&x.args, "args", "{}", "arguments of the call: a JSON object, @FILE, or - for standard input")
	f.StringVar(&x.call, "call", "", "the whole call: a JSON object, @FILE, or - for standard input")
	f.StringVar(&x.test, "test", "", "name of a test in the rule files, whose call to decide")
	env.cfg.bindAs(c, &env.cfg.Mode, "permission mode, which overrides that of the policy")
	f.StringVar(&x.now, "now", "", "time of the call, such as 2026-11-21T12:00:00Z (default now)")
	env.cfg.bindAs(c, &env.cfg.Cwd, "working folder of the call")
	env.cfg.bindAs(c, &env.cfg.WorkingDirs, "folder in which tools can work; may be repeated")
	f.StringVar(&x.caller.User, "user", "", "user who requests the call")
	f.StringVar(&x.caller.Agent, "agent", "", "agent that proposes the call")
	f.StringVar(&x.caller.Tenant, "tenant", "", "tenant of the caller")
	f.StringSliceVar(&x.caller.Groups, "group", nil, "group of that user; may be repeated")
	f.StringSliceVar(&x.caller.Roles, "role", nil, "role of the caller; may be repeated")
	f.StringVar((*string)(&x.caller.Session), "session", "", "session of the call")
	_ = c.RegisterFlagCompletionFunc("tool", x.completeTools)
	return c
}

func runExplain(ctx context.Context, env *environment, x explaining, args []string) error {
	if named := len(slices.DeleteFunc([]string{x.tool, x.call, x.test}, func(s string) bool { return s == "" })); named != 1 {
		return usagef("name exactly one call: use --tool and --args, --call, or --test")
	}
	s, policy, b, err := loadPolicy(ctx, env, &x.policyFiles, args)
	if err != nil {
		return err
	}
	req, err := explainRequest(env, x, policy)
	if err != nil {
		return err
	}
	e := b.Explain(ctx, req)
	text, refused := explain.Policy(env.out, e), ""
	if i := slices.IndexFunc(e.Errors, func(f permission.RuleError) bool { return f.Rule == "" && f.Field == "input" }); i >= 0 {
		text, refused = "The engine refuses this call before it evaluates any rule.\n", e.Errors[i].Msg
	} else if !s.declares(policy, req.Tool) {
		refused = "the tools file does not declare " + req.Tool + didYouMean("", spelling.Nearest(req.Tool, toolNames(s.opts.Tools))) + "; if a runtime defines it, rules for any tool and for its server apply"
	}
	if refused != "" { // before the policy decides
		text = env.out.Bad("refused:") + " " + term.SafeLine(refused) + "\n" + text
	}
	return env.print(explanation{e, e.Duration.Microseconds()}, text)
}

// declares reports whether the tool is declared, or a rule names it with frontend/, or no tools are
// declared.
func (s policySource) declares(policy permission.Policy, tool string) bool {
	tool = strings.TrimPrefix(tool, permission.Frontend)
	return len(s.opts.Tools) == 0 || slices.ContainsFunc(s.opts.Tools, func(t permission.Tool) bool { return t.Name == tool }) ||
		slices.ContainsFunc(policy.Rules, func(r permission.Rule) bool { return slices.Contains(r.Tools, permission.Frontend+tool) })
}

type explanation struct {
	*permission.Explanation
	DurationUS int64 `json:"duration_us"`
}

func explainRequest(env *environment, x explaining, policy permission.Policy) (permission.Request, error) {
	var req permission.Request
	switch {
	case x.call != "":
		text, err := env.readText("--call", x.call, corpus.MaxLine)
		if err != nil {
			return req, err
		}
		c, err := corpus.ReadCall([]byte(text))
		if err != nil {
			return req, usagef("--call: %w", err)
		}
		req = c.Request
	case x.test != "":
		i := slices.IndexFunc(policy.Tests, func(t permission.Test) bool { return t.Name == x.test })
		if i < 0 {
			return req, usagef("the rule files have no test %q; askance policy test --verbose lists the tests", x.test)
		}
		return policy.Tests[i].Call, nil
	default:
		text, err := env.readText("--args", x.args, corpus.MaxLine)
		if err != nil {
			return req, err
		}
		req = permission.Request{Tool: strings.TrimPrefix(x.tool, permission.Frontend), Input: []byte(strings.TrimSpace(text)), Cwd: x.cfg.Cwd, WorkingDirs: x.cfg.WorkingDirs, Caller: x.caller}
	}
	return x.when(req)
}

func (e explaining) when(req permission.Request) (permission.Request, error) {
	if e.cfg.Mode != "" {
		mode, err := permission.ParseMode(e.cfg.Mode)
		if err != nil {
			return req, usagef("--mode: %w", err)
		}
		req.Mode = mode
	}
	switch {
	case e.now != "":
		now, err := time.Parse(time.RFC3339, e.now)
		if err != nil {
			return req, usagef("--now is %q, use a time such as 2026-11-21T12:00:00Z", e.now)
		}
		req.Now = now
	case req.Now.IsZero():
		req.Now = time.Now().UTC()
	}
	return req, nil
}

type variable struct {
	Path        string `json:"path"`
	Type        string `json:"type"`
	Required    bool   `json:"required"` // every call has it
	Format      string `json:"format,omitzero"`
	Enum        []any  `json:"enum,omitzero"`
	MaxLength   int    `json:"max_length,omitzero"`
	Description string `json:"description,omitzero"`
}

type vocabulary struct {
	Tool      string                `json:"tool,omitzero"`
	Typed     bool                  `json:"typed"` // the tool has a schema
	Args      []variable            `json:"args"`
	Variables []variable            `json:"variables"`
	Functions []permission.Function `json:"functions"`
}

func newPolicyVarsCommand(env *environment) *cobra.Command {
	p := policyFiles{cfg: &env.cfg}
	c := &cobra.Command{
		Use:   "vars [TOOL]",
		Short: "List the arguments, variables and functions for conditions",
		Long: `Lists what the conditions of rules can use, with types: the arguments of a tool from its
schema, then the variables and functions for every tool. An argument that is not
required may be missing: guard it with has(args.x), or write args.?x.orValue(…).`,
		Example: `  askance policy vars refund --tools tools.yaml
  askance policy vars --json`,
		Args:              optional(wantArgs(1, "one tool")),
		ValidArgsFunction: p.completeTools,
		RunE: func(_ *cobra.Command, args []string) error {
			opts, err := p.options()
			if err != nil {
				return err
			}
			v := vocabulary{Args: []variable{}, Variables: commonVariables(), Functions: permission.Functions()}
			if len(args) == 1 {
				i := slices.IndexFunc(opts.Tools, func(t permission.Tool) bool { return t.Name == args[0] })
				if i < 0 {
					return unknownToolError(args[0], opts.Tools)
				}
				v.Tool, v.Typed = args[0], opts.Tools[i].Schema != nil
				if _, shell := opts.Tools[i].Kind.(permission.ShellKind); !shell {
					v.Variables = slices.DeleteFunc(v.Variables, func(x variable) bool { return strings.HasPrefix(x.Path, "cmd.") })
				}
				v.Args = argVariables(opts.Tools[i].Schema, permission.ArgsType, "args", 0)
			}
			return env.print(v, varsText(env.out, v))
		},
	}
	p.toolsFlag(c)
	return c
}

// maxVarDepth bounds recursive schemas.
const maxVarDepth = 6

func argVariables(s *permission.Schema, structType, path string, depth int) []variable {
	out := []variable{}
	if depth == maxVarDepth {
		return out
	}
	for _, f := range s.Fields(structType) {
		v := variable{Path: path + "." + f.Name, Type: f.Type, Required: f.Required, Format: f.Format, Enum: f.Enum, Description: f.Description}
		if f.MaxLength > 0 {
			v.MaxLength = f.MaxLength
		}
		out = append(out, v)
		if f.Struct != "" {
			below := v.Path
			if strings.HasPrefix(f.Type, "list(") {
				below += "[i]"
			} else if strings.HasPrefix(f.Type, "map(") {
				below += "[key]"
			}
			out = append(out, argVariables(s, f.Struct, below, depth+1)...)
		}
	}
	return out
}

func commonVariables() []variable {
	all := permission.Variables()
	out := []variable{}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		out = append(out, variable{Path: path, Type: all[path], Required: !permission.MayBeMissing(path)})
	}
	return out
}

func varsText(out *term.Out, v vocabulary) string {
	var b strings.Builder
	if v.Tool != "" {
		fmt.Fprintf(&b, "%s\n", out.Bold("Arguments of "+term.SafeLine(v.Tool)))
		if !v.Typed {
			fmt.Fprintf(&b, "  %s has no schema: args is a map of any values, and nothing checks its fields\n", term.SafeLine(v.Tool))
		}
		for _, f := range v.Args {
			b.WriteString(varLine(out, f))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s\n", out.Bold("Variables"))
	for _, f := range v.Variables {
		b.WriteString(varLine(out, f))
	}
	fmt.Fprintf(&b, "\n%s\n", out.Bold("Functions in addition to those of CEL"))
	for _, f := range v.Functions {
		fmt.Fprintf(&b, "  %s\n      %s\n", out.Name(f.Signature), out.Dim(f.Doc))
	}
	return b.String()
}

func varLine(out *term.Out, v variable) string {
	var notes []string
	if !v.Required {
		notes = append(notes, "may be missing")
	}
	if v.Format != "" {
		notes = append(notes, v.Format)
	}
	if v.MaxLength > 0 {
		unit := "elements"
		if v.Type == "string" {
			unit = "characters"
		}
		notes = append(notes, fmt.Sprintf("at most %d %s", v.MaxLength, unit))
	}
	if len(v.Enum) > 0 {
		if b, err := strictjson.Marshal(v.Enum); err == nil {
			notes = append(notes, "one of "+string(b))
		}
	}
	if v.Description != "" {
		notes = append(notes, v.Description)
	}
	text := fmt.Sprintf("  %s  %s", out.Name(term.SafeLine(v.Path)), strings.TrimPrefix(v.Type, "askance."))
	if len(notes) > 0 {
		text += "  " + out.Dim(term.SafeLine(strings.Join(notes, "; ")))
	}
	return text + "\n"
}

func unknownToolError(name string, tools []permission.Tool) error {
	if len(tools) == 0 {
		return usagef("there is no tool %s; pass the file that declares it with --tools", name)
	}
	return usagef("there is no tool %s; the tools file declares %s", name, strings.Join(toolNames(tools[:min(len(tools), 20)]), ", "))
}

func newPolicySchemaCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [rules|tools]",
		Short: "Print the JSON Schema of rule files or tools files for editors",
		Long: `Prints the JSON Schema of rule files, or of tools files. Editors use it to complete keys,
to describe them and to mark misspelled ones. It covers only the structure of a file:
askance policy lint checks the conditions and the tools.

permission/REFERENCE.md and permission/TOOLS.md describe the same keys.`,
		Example: `  askance policy schema > policy.schema.json
  askance policy schema tools > tools.schema.json
  # first line of a rule file, for editors with the YAML language server:
  # yaml-language-server: $schema=./policy.schema.json`,
		ValidArgs: []string{"rules", "tools"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "rules" && args[0] != "tools" {
				return usagef("name one kind of file: rules or tools")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			schema := permission.EditorSchema()
			if len(args) == 1 && args[0] == "tools" {
				schema = toolfile.EditorSchema()
			}
			_, err := env.out.Write(schema)
			return err
		},
	}
}
