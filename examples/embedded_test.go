package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEmbedded runs the program of the README as it stands there.
func TestEmbedded(t *testing.T) {
	program := readmeProgram(t)
	source, err := os.ReadFile("embedded/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if _, code, _ := strings.Cut(string(source), "\npackage main"); "package main"+code != program {
		t.Errorf("the program of README.md differs from examples/embedded/main.go; copy it from there")
	}
	dir := t.TempDir()
	main, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(main, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", bin, main).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	const asked = `refund {"order":"A-1042","cents":19900}: approve? [y/n] `
	for _, tt := range []struct {
		answer, want string
		ok           bool
	}{
		{"y\n", asked + "refunded 19900 cents of order A-1042\n", true},
		{"n\n", "a person rejected it: The execution of tool \"refund\" is denied by the user ann. They say: the shop says no", false},
	} {
		run := exec.Command(bin)
		run.Stdin = strings.NewReader(tt.answer)
		out, err := run.CombinedOutput()
		if (err == nil) != tt.ok || !strings.Contains(string(out), tt.want) {
			t.Errorf("with the answer %q: %v\n%s\nwant %q", tt.answer, err, out, tt.want)
		}
	}
}

func readmeProgram(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "<!-- program:begin -->\n```go\n")
	program, _, end := strings.Cut(rest, "```\n<!-- program:end -->")
	if !found || !end {
		t.Fatal("README.md has no program between program:begin and program:end")
	}
	return program
}
