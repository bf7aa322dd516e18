package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/linediff"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/format"
)

type formatted struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
}

func newPolicyFmtCommand(env *environment) *cobra.Command {
	p := policyFiles{cfg: &env.cfg}
	var check, diff bool
	c := &cobra.Command{
		Use:   "fmt [FILE...]",
		Short: "Format rule files and keep their comments",
		Long: `Puts keys into their usual order, separates rules with blank lines and indents by two
spaces. Comments keep their place, and values do not change. A file whose policy would
change is not written.

With - it formats standard input to standard output. --check writes nothing and exits
with code 7 if a file is not formatted.`,
		Example: `  askance policy fmt rules.yaml
  askance policy fmt rules/ --check --diff
  askance policy fmt - < rules.yaml`,
		Args:              anyRuleFiles,
		ValidArgsFunction: completeRules,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "-" {
				return formatInput(env)
			}
			return formatFiles(c.Context(), env, p, args, check, diff)
		},
	}
	f := c.Flags()
	env.cfg.bindAs(c, &env.cfg.Policy, "rule file, or folder of rule files; may be repeated; the same as an argument")
	f.BoolVar(&check, "check", false, "write nothing; exit code 7 if a file is not formatted")
	f.BoolVar(&diff, "diff", false, "show what changes")
	return c
}

func formatInput(env *environment) error {
	text, err := env.readStandardInput("fmt", permission.MaxFileBytes)
	if err != nil {
		return err
	}
	out, err := format.Source(standardInput, text)
	if err != nil {
		return err
	}
	_, err = env.out.Write(out)
	return err
}

func formatFiles(ctx context.Context, env *environment, p policyFiles, args []string, check, diff bool) error {
	if len(args) == 0 {
		args = p.cfg.Policy
	}
	if len(args) == 0 {
		return usagef("no rule files: name them as arguments, or - for standard input")
	}
	files, err := permission.Paths(args...).Read(ctx)
	if err != nil {
		return err
	}
	done, changed := []formatted{}, 0
	var failed []error
	for _, f := range files {
		out, err := format.Source(f.Name, f.Data)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		same := bytes.Equal(out, f.Data)
		done = append(done, formatted{f.Name, !same})
		if same {
			continue
		}
		changed++
		if err := rewriteFile(env, f, out, check, diff); err != nil {
			return err
		}
	}
	if env.json {
		if err := env.printDocument(done); err != nil {
			return err
		}
	}
	switch {
	case len(failed) > 0:
		return errors.Join(failed...)
	case check && changed > 0:
		return findingsf("%s not formatted; run askance policy fmt", asked.Count(changed, "file"))
	}
	return nil
}

func rewriteFile(env *environment, f permission.File, out []byte, check, diff bool) error {
	if !env.json {
		if err := env.printf("%s\n", term.SafeLine(f.Name)); err != nil {
			return err
		}
		if diff {
			was, is := strings.TrimSuffix(string(f.Data), "\n"), strings.TrimSuffix(string(out), "\n")
			if err := env.printf("%s", diffText(env.out, linediff.Lines(strings.Split(was, "\n"), strings.Split(is, "\n")))); err != nil {
				return err
			}
		}
	}
	if check {
		return nil
	}
	if err := rewriteInPlace(f.Name, out, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", f.Name, err)
	}
	return nil
}
