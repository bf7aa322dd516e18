package archtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of file that contains an import.
type Kind int

// The kinds of files.
const (
	Code         Kind = iota // not a test
	Test                     // a test inside the package
	ExternalTest             // a test of package x_test
)

// Import is one import of a file.
type Import struct {
	From string // the folder of the importing package, "." for the root
	To   string // the import path
	Kind Kind
	File string // for the failure text
}

// ErrImport is wrapped by every error of [Table.Check].
var ErrImport = errors.New("import not in the table")

// Check returns nil for an import that the table allows. Otherwise the error
// names the file, the import, what the row allows instead, and why.
//
// Tests inside a package are bound by its row, but may also use test libraries and Proof
// packages. External tests may import any package of the module and any library that a row
// names, because they join parts as a user does.
func (t Table) Check(i Import) error {
	row, ok := t.Row(i.From)
	if !ok {
		return fmt.Errorf("%w: %s: folder %s has no row; add one to internal/archtest/table.go with its reason", ErrImport, i.File, i.From)
	}
	if t.allows(row, i) {
		return nil
	}
	return fmt.Errorf("%w: %s imports %s, but %s, because %s", ErrImport, i.File, strings.TrimPrefix(i.To, Module+"/"), row.summary(), row.Why)
}

func (t Table) allows(row Row, i Import) bool {
	switch folder, own := ownFolder(i.To); {
	case own:
		return t.allowsOwn(row, i, folder)
	case standard(i.To):
		return i.Kind != Code || !slices.Contains(row.Never, i.To)
	default:
		return t.allowsLibrary(row, i)
	}
}

func (t Table) allowsOwn(row Row, i Import, folder string) bool {
	target, known := t.Row(folder)
	if !known {
		return false
	}
	if row.Outside && internal(folder) {
		return false
	}
	if target.Proof && row.Folder != target.Folder {
		return i.Kind != Code || row.Proof
	}
	switch {
	case target.Folder == row.Folder, i.Kind == ExternalTest:
		return true
	case slices.Contains(t.Shared, folder):
		return true
	case row.Public && !internal(folder):
		return true
	}
	return slices.Contains(row.Own, target.Folder)
}

func (t Table) allowsLibrary(row Row, i Import) bool {
	if anyBelow(i.To, row.Libraries) {
		return true
	}
	if i.Kind == Code && !row.Proof {
		return false
	}
	if anyBelow(i.To, t.TestLibraries) {
		return true
	}
	return (i.Kind == ExternalTest || row.Proof) && t.someRowNames(i.To)
}

func (t Table) someRowNames(library string) bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool { return anyBelow(library, r.Libraries) })
}

// TestOnly reports whether code that is not a test must not reach the package: the test
// machinery of the standard library, test libraries, Proof packages.
func (t Table) TestOnly(path string) bool {
	if folder, own := ownFolder(path); own {
		row, ok := t.Row(folder)
		return ok && row.Proof
	}
	return below(path, "testing") || path == "net/http/httptest" || anyBelow(path, t.TestLibraries)
}

// ownFolder returns the folder of a package of this module.
func ownFolder(path string) (string, bool) {
	if path == Module {
		return ".", true
	}
	return strings.CutPrefix(path, Module+"/")
}

func internal(folder string) bool {
	return slices.Contains(strings.Split(folder, "/"), "internal")
}

// standard reports whether a path belongs to the standard library: its first element has no
// dot, unlike the import paths of modules.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
