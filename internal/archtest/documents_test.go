package archtest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

var update = flag.Bool("update", false, "write the import table and the state diagram into the documents")

func TestDocuments(t *testing.T) {
	states := "```mermaid\n" + archtest.StateDiagram() + "```\n"
	tree := os.DirFS(root(t))
	parts, err := archtest.EnginePicture(tree)
	if err != nil {
		t.Fatal(err)
	}
	constants := func(file, typ, head string) string {
		table, err := archtest.ConstTable(tree, file, typ, head)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	tests := []struct{ file, block, want string }{
		{"message/proof/PROOF.md", "findings", constants("message/proof/report.go", "Kind", "finding | what happened")},
		{"permission/COOKBOOK.md", "modes", constants("message/msg.go", "PermissionMode", "mode | meaning")},
		{"engine/APPROVALS.md", "responses", constants("toolcall/vote.go", "ResponseKind", "response | effect")},
		{"gateway/blocks/BLOCKS.md", "codes", constants("message/blockstream/codec.go", "ErrorCode", "code | reason | what to do")},
		{"ARCHITECTURE.md", "modules", archtest.Rules().ModulePicture()},
		{"ARCHITECTURE.md", "engine", parts},
		{"ARCHITECTURE.md", "states", states},
		{"docs/phases.md", "phases", archtest.PhaseTable()},
		{"docs/imports.md", "imports", archtest.Rules().Markdown()},
	}
	for _, tt := range tests {
		t.Run(tt.file+" "+tt.block, func(t *testing.T) {
			path := filepath.Join(root(t), tt.file)
			document := read(t, path)
			if *update {
				document = write(t, path, document, tt.block, tt.want)
			}
			got, err := archtest.Block(document, tt.block)
			if err != nil {
				t.Fatalf("%s: %v", tt.file, err)
			}
			if got != tt.want {
				t.Errorf("%s: the block %q differs from the code; run: go test ./internal/archtest -update\ngot:\n%s\nwant:\n%s", tt.file, tt.block, got, tt.want)
			}
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, document, block, text string) string {
	t.Helper()
	document, err := archtest.WithBlock(document, block, text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := os.WriteFile(path, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	return document
}

// People read an example before they run it.
func TestEveryExampleHasAReadme(t *testing.T) {
	for _, s := range sources(t) {
		if s.AST.Name.Name != "main" || !strings.HasPrefix(s.Folder, "examples/") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root(t), s.Folder, "README.md")); err != nil {
			t.Errorf("%s: %v; write a few lines about what it shows and how to run it", s.Folder, err)
		}
	}
}

// The architecture document can be read in one sitting.
func TestArchitectureIsShort(t *testing.T) {
	const most = 2500
	if n := len(strings.Fields(read(t, filepath.Join(root(t), "ARCHITECTURE.md")))); n > most {
		t.Errorf("ARCHITECTURE.md has %d words, the limit is %d: move reasons to the package comments", n, most)
	}
}
