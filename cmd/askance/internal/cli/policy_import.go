package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/permission/format"
)

type importing struct {
	policyFiles
	name, output string
	leaveOut     bool
}

func newPolicyImportCommand(env *environment) *cobra.Command {
	p := importing{policyFiles: policyFiles{cfg: &env.cfg}}
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Convert permission settings of other agents into a rule file",
		Long: `Reads a JSON file and prints an equivalent rule file. The file has one of these forms:

  {"permissions": {"allow": ["Bash(git status:*)"], "ask": […], "deny": ["Read(.env)"]}}
  {"mode": "default", "allow_rules": {"Bash": [{…}]}, "ask_rules": {…}, "deny_rules": {…}}

The first form has rules written as Tool or Tool(specifier); its other members are
ignored and listed on standard error. The second form is AgentScope's permission
context. If a rule cannot be converted exactly, the whole file is refused: an allow rule
never becomes wider, a deny rule never narrower.

--leave-out drops allow rules that cannot be converted and lists them on standard
error, so the result allows less. Deny and ask rules must all be convertible.

Without --tools the tool names are those of AgentScope's own tools. - is standard input.`,
		Example: `  askance policy import settings.json > imported.yaml
  askance policy import context.json --tools tools.yaml -o imported.yaml`,
		Args: wantArgs(1, "one file with the permissions of an agent, for instance: askance policy import .claude/settings.json"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(_ *cobra.Command, args []string) error { return runImport(env, p, args[0]) },
	}
	p.toolsFlag(c)
	c.Flags().StringVar(&p.name, "name", "imported", "name of the rule file, which is the source of its rules")
	c.Flags().BoolVar(&p.leaveOut, "leave-out", false, "drop allow rules that cannot be converted")
	c.Flags().StringVarP(&p.output, "output", "o", "", "write to this file instead of standard output")
	return c
}

func runImport(env *environment, p importing, path string) error {
	opts, err := p.importOptions()
	if err != nil {
		return err
	}
	data, err := readFile(env, "import", path, permission.MaxFileBytes)
	if err != nil {
		return err
	}
	policy, passed, err := importPolicy(env, data, p, opts)
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	if len(passed) > 0 {
		env.notef("ignored: %s\n", strings.Join(passed, ", "))
	}
	out, err := format.Policy(p.name, "Imported by askance policy import. Tests belong below the rules.", policy)
	switch {
	case err != nil:
		return fmt.Errorf("import %s: %w", path, err)
	case p.output != "":
		return replaceFile(p.output, out, 0o644)
	}
	return env.print(map[string]any{"rules": len(policy.Rules), "mode": policy.Mode, "passed_over": passed, "yaml": string(out)}, string(out))
}

// importOptions returns options with the declared tools, or with AgentScope's own.
func (i importing) importOptions() (permission.Options, error) {
	opts, err := i.options()
	if err != nil || i.cfg.Tools != "" {
		return opts, err
	}
	opts.AllowUnknownTools = true
	for name, kind := range map[string]string{
		"Bash": agentscope.Bash, "PowerShell": agentscope.PowerShell, "Read": agentscope.Read, "Write": agentscope.Write,
		"Edit": agentscope.Edit, "Glob": agentscope.Glob, "Grep": agentscope.Grep,
	} {
		k, err := agentscope.New(kind, agentscope.Config{})
		if err != nil {
			return opts, err
		}
		opts.Tools = append(opts.Tools, permission.Tool{Name: name, Kind: k})
	}
	return opts, nil
}

// settingsModes maps the names of modes in such settings to permission modes.
var settingsModes = map[string]permission.Mode{
	"default": permission.ModeDefault, "acceptEdits": permission.ModeAcceptEdits, "plan": permission.ModeExplore,
	"bypassPermissions": permission.ModeBypass, "dontAsk": permission.ModeDontAsk,
}

// importPolicy reads either form. It returns the members that it ignores.
func importPolicy(env *environment, data []byte, p importing, opts permission.Options) (permission.Policy, []string, error) {
	top, err := strictjson.Object(data)
	if err != nil {
		return permission.Policy{}, nil, usagef("%s", strictjson.AtLine(err, string(data)))
	}
	_, first := top["permissions"]
	_, second := top["allow_rules"]
	second = second || top["deny_rules"] != nil || top["ask_rules"] != nil
	switch {
	case first && second: // what one form denies must not be ignored
		return permission.Policy{}, nil, usagef("the file has permissions, and also allow_rules, ask_rules or deny_rules: split it, and import both files")
	case !first && !second:
		return permission.Policy{}, nil, usagef("the file has neither permissions nor allow_rules, ask_rules or deny_rules; see askance policy import --help")
	case second:
		var c message.PermissionContext
		if err := strictjson.Unmarshal(data, &c); err != nil {
			return permission.Policy{}, nil, usagef("%s", strictjson.AtLine(err, string(data)))
		}
		policy, err := permission.ImportContext(c, opts)
		return policy, nil, err
	}
	given, ok := top["permissions"].(map[string]any)
	if !ok {
		return permission.Policy{}, nil, usagef("permissions is not a JSON object; see askance policy import --help")
	}
	var passed []string
	for key := range maps.Keys(top) {
		if key != "permissions" {
			passed = append(passed, key)
		}
	}
	s := permission.Specifiers{Source: p.name}
	mode := permission.Mode("")
	for key, v := range given {
		switch key {
		case "allow":
			s.Allow, err = texts(key, v)
		case "ask":
			s.Ask, err = texts(key, v)
		case "deny":
			s.Deny, err = texts(key, v)
		case "defaultMode":
			text, _ := v.(string)
			if mode, ok = settingsModes[text]; !ok {
				err = usagef("permissions.defaultMode is %v, which has no equivalent; use default, acceptEdits, plan, bypassPermissions or dontAsk", v)
			}
		default:
			passed = append(passed, "permissions."+key)
		}
		if err != nil {
			return permission.Policy{}, nil, err
		}
	}
	slices.Sort(passed)
	if p.leaveOut {
		s.Allow = importableRules(env, s, opts)
	}
	policy, err := permission.FromSpecifiers(s, opts)
	policy.Mode = cmp.Or(policy.Mode, mode)
	return policy, passed, err
}

// importableRules returns the allow rules that can be converted, and reports the others.
func importableRules(env *environment, s permission.Specifiers, opts permission.Options) []string {
	return slices.DeleteFunc(s.Allow, func(text string) bool {
		_, err := permission.FromSpecifiers(permission.Specifiers{Source: s.Source, Allow: []string{text}}, opts)
		if refused, ok := errors.AsType[*permission.LoadError](err); ok {
			env.notef("dropped: %s\n", term.SafeLine(refused.Problems[0].Msg))
		}
		return err != nil
	})
}

func texts(key string, v any) ([]string, error) {
	items, ok := v.([]any)
	if !ok {
		return nil, usagef("permissions.%s is not a list; use a list of rules", key)
	}
	out := make([]string, 0, len(items))
	for _, item := range items {
		s, ok := item.(string)
		if !ok {
			return nil, usagef("permissions.%s has an element that is not a string; use a list of rules", key)
		}
		out = append(out, s)
	}
	return out, nil
}
