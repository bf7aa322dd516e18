package cli_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/clitest"
	"github.com/spf13/cobra"
)

// ownCommands returns all commands except cobra's hidden ones and help topics.
func ownCommands() map[string]*cobra.Command {
	out := cli.Tree()
	for name, c := range out {
		if strings.HasPrefix(name, "completion") || name == "help" || c.Hidden || c.IsAdditionalHelpTopicCommand() {
			delete(out, name)
		}
	}
	return out
}

// Every command appears in the golden file of the help.
func TestEveryCommandIsListed(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(ownCommands())) {
		if !slices.Contains(commands, name) {
			t.Errorf("askance %s is not in the list of commands of this package's tests", name)
		}
	}
}

// Every command has a help with valid examples, prints JSON on request, completes, and reports a
// wrong flag with exit code 2 and no output.
func TestEveryCommand(t *testing.T) {
	cleanEnvironment(t)
	all := ownCommands()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run("askance "+name, func(t *testing.T) {
			c, words := all[name], strings.Fields(name)
			if c.Short == "" || strings.HasSuffix(c.Short, ".") || !strings.Contains(c.Example, "askance") {
				t.Errorf("Short is %q, the example is %q", c.Short, c.Example)
			}
			for line := range strings.Lines(c.Example) {
				checkExample(t, all, line)
			}
			if c.InheritedFlags().Lookup("json") == nil && c.PersistentFlags().Lookup("json") == nil {
				t.Error("no --json")
			}
			out := ok(t, append(words, "--help")...)
			if !strings.Contains(out, "Usage:\n") || !strings.Contains(out, "Examples:\n") {
				t.Errorf("help without usage and examples:\n%s", out)
			}
			// A mistake leads to exit code 2 and no standard output, and to JSON on request.
			r := run(t, append(words, "--no-such-flag", "--json")...)
			if r.code != cli.ExitUsage || r.out != "" {
				t.Errorf("an unknown flag: exit %d, printed %q", r.code, r.out)
			}
			r = run(t, append(slices.Clone(words), "--json", "--no-such-flag")...)
			var doc struct {
				Error struct{ Code, What string }
			}
			if err := json.Unmarshal([]byte(r.err), &doc); err != nil || doc.Error.What == "" {
				t.Errorf("the error is not a JSON document: %v\n%s", err, r.err)
			}
			r = run(t, append(append([]string{"__complete"}, words...), "--")...)
			if r.code != cli.ExitOK || !strings.Contains(r.out, "--json") || !strings.Contains(r.out, "\n:") {
				t.Errorf("completion of flags: exit %d\n%s", r.code, r.out)
			}
			if r = run(t, append(append([]string{"__complete"}, words...), "")...); r.code != cli.ExitOK {
				t.Errorf("completion of arguments: exit %d\n%s", r.code, r.err)
			}
		})
	}
}

// checkExample checks that the commands and flags of an example exist.
func checkExample(t *testing.T, all map[string]*cobra.Command, line string) {
	t.Helper()
	_, call, found := strings.Cut(" "+strings.TrimSpace(line), " askance ")
	if !found {
		return // a continuation of the line before, or a comment
	}
	call, _, _ = strings.Cut(call, " #")
	var words []string
	for w := range strings.FieldsSeq(call) {
		if strings.ContainsAny(w, "|>") || w == "--" {
			break
		}
		words = append(words, w)
	}
	name, c := "", all[""]
	for len(words) > 0 {
		sub := strings.TrimSpace(name + " " + words[0])
		if all[sub] == nil {
			break
		}
		name, c, words = sub, all[sub], words[1:]
	}
	if name == "" {
		t.Errorf("the example %q does not call a command", line)
		return
	}
	for _, w := range words {
		flag, long := strings.CutPrefix(w, "--")
		flag, _, _ = strings.Cut(flag, "=")
		if long && c.Flags().Lookup(flag) == nil && c.InheritedFlags().Lookup(flag) == nil {
			t.Errorf("the example %q has a flag --%s that %s lacks", line, flag, name)
		}
	}
}

var inlineCommand = regexp.MustCompile("`(askance [a-z][^`…]*)`")

// Every command in a document exists, with its flags.
func TestPageCommands(t *testing.T) {
	root, all, found := filepath.Join(clitest.Testdata, "../../../../.."), cli.Tree(), 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && path != root):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".md" || name == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		shell := false
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			bare := strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			switch {
			case strings.HasPrefix(bare, "```"):
				shell = bare == "```sh" || bare == "```console"
			case shell && strings.HasPrefix(bare, "askance "):
				found++
				checkExample(t, all, bare)
			}
			for _, m := range inlineCommand.FindAllStringSubmatch(line, -1) {
				found++
				if m[1] != "askance help" && !strings.HasSuffix(m[1], " --help") {
					checkExample(t, all, m[1])
				}
			}
		}
		return nil
	})
	if err != nil || found < 150 {
		t.Errorf("%d commands found: %v", found, err)
	}
}
