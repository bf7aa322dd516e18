package archtest

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Source is one Go file of the module, parsed with its comments.
type Source struct {
	Folder string // of its package, "." for the root
	File   string // path below the module's root, with slashes
	AST    *ast.File
}

// Root returns the folder of the module's go.mod, found by searching upwards from the working
// directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find the module: no go.mod here or above; run the tests inside the module")
		}
		dir = up
	}
}

// Sources parses every Go file of the module, including those for other systems. It leaves
// out what git and the go command ignore: testdata, hidden folders, folders with a leading
// underscore, and nested modules.
func Sources(ctx context.Context, root string) ([]Source, error) {
	files, err := Files(ctx, root)
	if err != nil {
		return nil, err
	}
	var out []Source
	for _, file := range files {
		if !strings.HasSuffix(file, ".go") || !inModule(root, file) {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
		out = append(out, Source{Folder: path.Dir(file), File: file, AST: tree})
	}
	return out, nil
}

// inModule reports whether the go command considers a file part of the module.
func inModule(root, file string) bool {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		name := path.Base(dir)
		if name == "testdata" || strings.IndexAny(name, "._") == 0 || otherModule(filepath.Join(root, dir)) {
			return false
		}
	}
	return true
}

// Test reports whether the file is part of a test.
func (s Source) Test() bool { return strings.HasSuffix(s.File, "_test.go") }

// Kind returns how the table judges the file's imports.
func (s Source) Kind() Kind {
	switch {
	case !s.Test():
		return Code
	case strings.HasSuffix(s.AST.Name.Name, "_test"):
		return ExternalTest
	}
	return Test
}

// Imports lists what the file imports.
func (s Source) Imports() []Import {
	var out []Import
	for _, spec := range s.AST.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has already accepted the literal
		}
		out = append(out, Import{From: s.Folder, To: to, Kind: s.Kind(), File: s.File})
	}
	return out
}

// Files lists the files of the module, with slashes: those that git tracks or would track
// or, without git, every file below the root.
func Files(ctx context.Context, root string) ([]string, error) {
	git := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	git.Dir = root
	if out, err := git.Output(); err == nil {
		files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
		if slices.Contains(files, "go.mod") { // otherwise it is another repository that contains this copy
			return slices.DeleteFunc(files, func(f string) bool { return !regular(root, f) }), nil
		}
	}
	var files []string
	err := walk(root, func(file string) error {
		files = append(files, file)
		return nil
	})
	return files, err
}

// regular reports whether a file that git lists exists and is a regular file.
func regular(root, file string) bool {
	info, err := os.Lstat(filepath.Join(root, file))
	return err == nil && info.Mode().IsRegular()
}

// otherModule reports whether a folder is the root of a nested module, whose dependencies
// never reach users of this one.
func otherModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// walk visits the regular files below root by their relative paths, except those in hidden
// folders, folders with a leading underscore, and nested modules.
func walk(root string, visit func(file string) error) error {
	return filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && at != root && (strings.IndexAny(d.Name(), "._") == 0 && d.Name() != ".ci" || otherModule(at)) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(rel))
	})
}

// Packages asks the go command for the imports of every package of the module and of all
// its dependencies, without tests.
func Packages(ctx context.Context, root string) (Graph, error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = root
	var problems strings.Builder
	list.Stderr = &problems
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, problems.String())
	}
	g := Graph{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		g[words[0]] = words[1:]
	}
	return g, nil
}
