package permission_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/permission"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata/refused")

// testdata/refused contains policies that must be refused. The .txt of each is the error, with
// file, line and column. The files that begin with enforced- are for an engine that carries out
// every duty.
func TestRefused(t *testing.T) {
	opts := permission.Options{Tools: []permission.Tool{
		{Name: "t"}, {Name: "untyped"}, {Name: "write"},
		{Name: "read", Schema: schema(t, `{"type": "object", "required": ["path"], "properties": {
			"path": {"type": "string"}, "size": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}}}}`)},
	}}
	paths, err := filepath.Glob("testdata/refused/*.yaml")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			opts := opts
			if strings.HasPrefix(filepath.Base(path), "enforced-") {
				opts.Enforced = allDuties
			}
			_, err = permission.Load([]permission.File{{Name: filepath.Base(path), Data: data}}, opts)
			var le *permission.LoadError
			if !errors.As(err, &le) {
				t.Fatalf("Load = %v, want a LoadError", err)
			}
			got := strings.Join(texts(le), "\n") + "\n"
			golden := strings.TrimSuffix(path, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// texts returns the texts of all problems; LoadError.Error limits their number.
func texts(le *permission.LoadError) []string {
	var out []string
	for _, p := range le.Problems {
		out = append(out, p.String())
	}
	return out
}
