package cli

import (
	"cmp"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
)

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
		enter = "cd " + term.ShellWord(folder) + " && "
	}
	return env.print(map[string]any{"files": written, "next": enter + "askance serve"}, fmt.Sprintf(`Wrote %s.
Next, start the server:  %[2]saskance serve
Then, in another terminal:
  %[2]saskance open                                                # the web console
  %[2]saskance preview bash --args '{"command": "git push"}'       # what the policy decides
`, term.SafeLine(strings.Join(written, ", ")), term.SafeLine(enter)))
}
