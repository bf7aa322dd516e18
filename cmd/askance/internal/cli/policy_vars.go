package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
)

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
