// Package clitest is shared by the tests of the command: a test binary that stands in for
// askance itself, and golden files. Only tests import it.
package clitest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Update rewrites the golden files: go test -update.
var Update = flag.Bool("update", false, "rewrite the golden files")

// Testdata is the folder of the golden files, computed before any test changes the working
// folder.
var Testdata = func() string {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		panic(err)
	}
	return dir
}()

// Volatile is a text that differs between runs, and its replacement.
type Volatile struct {
	What *regexp.Regexp
	With string
}

// Golden compares a text, with volatile parts replaced, with testdata/NAME.golden.
func Golden(t testing.TB, name, got string, volatile ...Volatile) {
	t.Helper()
	for _, v := range volatile {
		got = v.What.ReplaceAllString(got, v.With)
	}
	path := filepath.Join(Testdata, name+".golden")
	if *Update {
		if err := os.MkdirAll(Testdata, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update rewrites it)\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}

// Main runs tests, or stands in for askance if the test binary is called like askance, so
// tests can use real processes and terminals. process is cli.Process.
func Main(m *testing.M, process func(args []string) int) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		os.Exit(process(os.Args[1:]))
	}
	os.Exit(m.Run())
}
