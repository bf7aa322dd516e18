package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/permission"
)

func newPolicyCommand(env *environment) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "policy",
		Short: "Check, test, explain and compare policies, and show the one in force",
		Long: `These commands need only rule files and a tools file. Name the files as arguments, or
with --policy, ASKANCE_POLICY or askance.yaml, as for askance serve. managed=FILE,
user=FILE and run=FILE set another layer than project. A command that reads a file once
accepts - for standard input, and process substitution (<(…)).

Only put, status and show need a running engine, and only put changes its policy.

docs/tutorials/policy.md leads from an empty folder to a tested policy in ten minutes.`,
		Example: `  askance policy lint rules.yaml --tools tools.yaml
  askance policy test rules.yaml --tools tools.yaml
  askance policy explain rules.yaml --tools tools.yaml --tool refund --args '{"cents": 900}'
  askance policy replay candidate.yaml --data ./data`,
	},
		newPolicyLintCommand(env), newPolicyTestCommand(env), newPolicyExplainCommand(env),
		newPolicyReplayCommand(env), newPolicyDiffCommand(env), newPolicyFmtCommand(env),
		newPolicyVarsCommand(env), newPolicySchemaCommand(env), newPolicyImportCommand(env),
		newPolicyPutCommand(env), newPolicyStatusCommand(env), newPolicyShowCommand(env),
	)
}

type policyFiles struct {
	cfg *config

	declared []toolfile.Tool // of the tools file, once it is read
}

func (p *policyFiles) flags(c *cobra.Command) {
	p.cfg.bindAs(c, &p.cfg.Policy, "rule file, or folder of rule files, prefixed with LAYER= if the layer is not project; may be repeated; the same as an argument")
	p.toolsFlag(c)
}

func (p *policyFiles) toolsFlag(c *cobra.Command) {
	p.cfg.bind(c, &p.cfg.Tools)
	_ = c.MarkFlagFilename("tools", "yaml", "yml")
}

func completeRules(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// anyRuleFiles are the arguments of a command about one policy.
func anyRuleFiles(*cobra.Command, []string) error { return nil }

type policySource struct {
	files   []permission.File
	ignored []permission.Notice // other files in the folders
	opts    permission.Options
}

// readPolicy reads the rule files and the tools. Arguments take precedence over --policy
// and the settings.
func readPolicy(ctx context.Context, env *environment, p *policyFiles, args []string) (policySource, error) {
	paths := args
	if len(paths) == 0 {
		paths = p.cfg.Policy
	}
	if len(paths) == 0 {
		return policySource{}, usagef("no rule files: name them as arguments, or with --policy")
	}
	var s policySource
	var err error
	if s.opts, err = p.options(); err != nil {
		return s, err
	}
	s.files, s.ignored, err = readRuleFiles(ctx, env, paths)
	return s, err
}

// readRuleFiles reads rule files once, so it accepts standard input and process
// substitution, which an engine could not read again.
func readRuleFiles(ctx context.Context, env *environment, paths []string) ([]permission.File, []permission.Notice, error) {
	var once []permission.File
	var again []string
	for _, path := range paths {
		layer, bare := permission.CutLayer(path)
		f := permission.File{Name: bare, Layer: layer}
		var err error
		switch {
		case bare == "-":
			f.Name = standardInput
			f.Data, err = env.readStandardInput("rules", permission.MaxFileBytes)
		case plainfile.HandedOver(bare):
			f.Data, err = textfile.ReadHanded("rule file", bare, permission.MaxFileBytes)
		default:
			again = append(again, path)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		once = append(once, f)
	}
	if len(again) == 0 {
		return once, nil, nil
	}
	source := permission.Paths(again...)
	files, err := source.Read(ctx)
	return append(files, once...), source.Ignored(), err
}

const standardInput = "standard input"

// options returns those of an engine with these tools, without its time limits.
func (p *policyFiles) options() (permission.Options, error) {
	if p.cfg.Tools != "" && p.declared == nil { // only once: it can be a pipe
		data, err := textfile.ReadHanded("tools file", p.cfg.Tools, textfile.MaxBytes)
		if err == nil {
			p.declared, err = toolfile.Parse(p.cfg.Tools, data)
		}
		if err != nil {
			return permission.Options{}, err
		}
	}
	opts := node.PolicyOptions(p.declared)
	opts.Unhurried = true
	return opts, nil
}

func (s policySource) load() (permission.Policy, *permission.Bundle, error) {
	b, err := permission.Load(s.files, s.opts)
	if err != nil {
		return permission.Policy{}, nil, err
	}
	policy, err := permission.Parse(s.files...)
	return policy, b, err
}

func loadPolicy(ctx context.Context, env *environment, p *policyFiles, args []string) (s policySource, policy permission.Policy, b *permission.Bundle, err error) {
	if s, err = readPolicy(ctx, env, p, args); err == nil {
		policy, b, err = s.load()
	}
	return s, policy, b, err
}

func (p *policyFiles) completeTools(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	opts, err := p.options()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(slices.Values(toolNames(opts.Tools))), cobra.ShellCompDirectiveNoFileComp
}

func toolNames(tools []permission.Tool) []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}
