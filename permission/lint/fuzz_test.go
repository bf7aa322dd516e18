package lint_test

import (
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/lint"
)

// FuzzRun: no file causes a panic, every finding has a known code, and the same file always gets
// the same findings.
func FuzzRun(f *testing.F) {
	paths, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(paths) < 40 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		f.Add([]byte(read(f, path)))
	}
	opts := options(f, lint.Approvers, "bad")
	f.Fuzz(func(t *testing.T, text []byte) {
		files := []permission.File{{Name: "f.yaml", Data: text}}
		report := lint.Run(files, opts)
		for _, finding := range report.Findings {
			if len(finding.Code) != 3 || finding.Msg == "" || finding.Level != lint.Error && finding.Level != lint.Warning {
				t.Errorf("finding %+v", finding)
			}
		}
		if _, err := permission.Load(files, opts.Options); err != nil && report.Errors == 0 {
			t.Errorf("the policy does not load, but lint reports no error: %v", err)
		}
		if again := lint.Run(files, opts); len(again.Findings) != len(report.Findings) {
			t.Errorf("%d findings, then %d", len(report.Findings), len(again.Findings))
		}
	})
}
