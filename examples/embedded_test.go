package examples_test

import (
	"os"
	"strings"
	"testing"
)

// TestEmbedded compares the program of the tutorial, which cmd/askance/internal/cli
// follows, with the example.
func TestEmbedded(t *testing.T) {
	page, err := os.ReadFile("../docs/tutorials/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("embedded/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "<!-- program:begin -->\n```go\n")
	program, _, end := strings.Cut(rest, "```\n<!-- program:end -->")
	if _, code, _ := strings.Cut(string(source), "\npackage main"); !found || !end || "package main"+code != program {
		t.Errorf("the program of docs/tutorials/agent.md differs from examples/embedded/main.go; copy it from there")
	}
}
