package archtest_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/askance-dev/askance/internal/archtest"
)

const (
	// maxProse is the maximum number of handwritten words in the documents.
	maxProse = 20_000
	// maxReadme is the maximum number of words in README.md, including code.
	maxReadme = 600
)

// generatedPages are generated completely by tests.
var generatedPages = []string{
	"BENCHMARKS.md", "docs/glossary.md", "permission/REFERENCE.md", "permission/TOOLS.md", "permission/agentscope/DEVIATIONS.md",
}

// testedCode names the test that runs the code blocks of a page, or compares them with a source.
var testedCode = map[string]string{
	"bus/PROTOCOL.md":                     "bus/protocol_test.go",
	"clients/typescript/README.md":        "clients/typescript/test/howto.test.ts",
	"docs/howto/coding-agents.md":         "cmd/askance/internal/cli/hook_test.go",
	"docs/howto/endpoint-as-worker.md":    "cmd/askance/internal/cli/worker_runs_test.go",
	"docs/howto/mcp-gateway.md":           "cmd/askance/internal/cli/mcp_test.go",
	"docs/howto/mcp-server-as-worker.md":  "cmd/askance/internal/cli/worker_runs_test.go",
	"docs/howto/python-frameworks.md":     "clients/python/tests/adapters/test_howto_frameworks.py",
	"docs/howto/python.md":                "clients/python/tests/test_howto.py",
	"docs/howto/typescript-frameworks.md": "clients/typescript/test/adapters.test.ts",
	"docs/howto/typescript.md":            "clients/typescript/test/howto.test.ts",
	"docs/howto/work-over-http.md":        "executor/httpwork/page_test.go",
	"gateway/agui/AGUI.md":                "gateway/agui/page_test.go",
	"gateway/api/API.md":                  "cmd/askance/internal/web/snippets_test.go",
	"permission/COOKBOOK.md":              "cmd/askance/internal/cli/guide_test.go",
	"docs/tutorials/agent.md":             "cmd/askance/internal/cli/guide_test.go",
	"docs/tutorials/policy.md":            "cmd/askance/internal/cli/guide_test.go",
	"docs/tutorials/worker.md":            "cmd/askance/internal/cli/guide_test.go",
}

// The documents stay short enough to read. A word contains a letter or a digit. All words count
// except those of the changelog and of the decisions, descriptions of test data, generated pages and
// blocks, code that a test runs or compares, diagrams, and commands, which TestPageCommands checks.
func TestProseIsShort(t *testing.T) {
	total, most := 0, map[string]int{}
	for _, page := range documents(t) {
		if page == "CHANGELOG.md" || page == "docs/decisions.md" || strings.Contains(page, "testdata/") || slices.Contains(generatedPages, page) {
			continue
		}
		_, tested := testedCode[page]
		most[page] = countProse(read(t, filepath.Join(root(t), page)), !tested)
		total += most[page]
	}
	for page, by := range testedCode {
		if text := read(t, filepath.Join(root(t), by)); !strings.Contains(text, path.Base(page)) && !strings.Contains(text, path.Base(path.Dir(page))) {
			t.Errorf("%s does not read %s", by, page)
		}
	}
	t.Logf("%d words: %v", total, most)
	if total > maxProse {
		t.Errorf("%d handwritten words, at most %d: %v", total, maxProse, most)
	}
	if n := len(strings.Fields(read(t, filepath.Join(root(t), "README.md")))); n > maxReadme {
		t.Errorf("README.md has %d words, at most %d", n, maxReadme)
	}
}

var mark = regexp.MustCompile(`^<!-- [\w -]+:(begin|end) -->$`)

// countProse counts words outside of generated blocks, and words in code if code is true.
func countProse(page string, code bool) int {
	n, generated, fenced, counts := 0, false, false, false
	for line := range strings.Lines(page) {
		bare := strings.TrimSpace(line)
		if m := mark.FindStringSubmatch(bare); m != nil {
			generated = m[1] == "begin"
			continue
		}
		if strings.HasPrefix(bare, "```") {
			fenced, counts = !fenced, code && bare != "```sh" && bare != "```mermaid"
			continue
		}
		if !generated && (counts || !fenced) {
			for word := range strings.FieldsSeq(line) {
				if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
					n++
				}
			}
		}
	}
	return n
}

func TestCountProse(t *testing.T) {
	page := "# Two words\n| - |\n\n<!-- x:begin -->\none two\n<!-- x:end -->\n\n```yaml\nthree of code\n```\n```sh\nls\n```\nthe end\n"
	if a, b := countProse(page, true), countProse(page, false); a != 7 || b != 4 {
		t.Errorf("counted %d and %d, want 7 and 4", a, b)
	}
}

// Every page says in its first sentence who it is for.
func TestPagesSayWhoTheyAreFor(t *testing.T) {
	for _, page := range documents(t) {
		if page == "CHANGELOG.md" || strings.Contains(page, "testdata/") {
			continue
		}
		title, rest, _ := strings.Cut(read(t, filepath.Join(root(t), page)), "\n")
		if first := strings.TrimSpace(rest); !strings.HasPrefix(title, "# ") || !strings.HasPrefix(first, "For ") {
			t.Errorf("%s: the first sentence is %.60q, want \"For …\"", page, first)
		}
	}
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mention    = regexp.MustCompile(`\b(?:bus|clients|cmd|docs|engine|examples|executor|gateway|message|permission|toolcall)/[\w./-]*\w\.md\b`)
)

// Links lead to existing files and headings, and programs name existing pages.
func TestLinks(t *testing.T) {
	dir, found := root(t), 0
	for _, page := range documents(t) {
		if strings.Contains(page, "testdata/") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(withoutCode(read(t, filepath.Join(dir, page))), -1) {
			found++
			if problem := brokenLink(dir, page, m[1]); problem != "" {
				t.Errorf("%s: the link %s %s", page, m[1], problem)
			}
		}
	}
	if found < 100 {
		t.Errorf("%d links found; there are more, so the search is broken", found)
	}
	files, err := archtest.Files(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains([]string{".go", ".html", ".py", ".ts", ".yaml", ".json", ".toml"}, path.Ext(file)) || strings.Contains(file, "testdata/") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue // deleted, but not committed yet
		}
		for _, name := range mention.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}

// brokenLink describes what is wrong with a link of a page, or returns "".
func brokenLink(dir, page, target string) string {
	if strings.Contains(target, "://") {
		return ""
	}
	file, heading, _ := strings.Cut(target, "#")
	to := page
	if file != "" {
		to = path.Join(path.Dir(page), file)
	}
	text, err := os.ReadFile(filepath.Join(dir, to))
	if info, statErr := os.Stat(filepath.Join(dir, to)); statErr != nil {
		return "leads to no file"
	} else if info.IsDir() || heading == "" || path.Ext(to) != ".md" {
		return ""
	}
	if err != nil || !slices.Contains(headings(string(text)), heading) {
		return "leads to no heading"
	}
	return ""
}

// headings returns the names that GitHub gives to the headings of a page.
func headings(page string) []string {
	var out []string
	for line := range strings.Lines(withoutFences(page)) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title)))
	}
	return out
}

func withoutCode(page string) string { return inlineCode.ReplaceAllString(withoutFences(page), "") }

func withoutFences(page string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			b.WriteString(line)
		}
	}
	return b.String()
}

func documents(t *testing.T) []string {
	t.Helper()
	files, err := archtest.Files(t.Context(), root(t))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(f string) bool {
		_, err := os.Stat(filepath.Join(root(t), f))
		return path.Ext(f) != ".md" || err != nil
	})
}
