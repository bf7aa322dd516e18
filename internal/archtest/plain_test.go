package archtest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

// maxOddWords is how many words of a translated register 10,000 lines may contain. The remaining
// ones are mostly http.NoBody.
const maxOddWords = 2

// oddWords are written in halves, so this file contains none of them.
var oddWords = regexp.MustCompile(`(?i)\b(who` + `ever|whom` + `ever|what` + `ever|which` + `ever|no` + `body|some` + `body|any` + `body|an` + `ew|me` + `nd(s|ed|ing)?|be` + `side|at h` + `and|by it` + `self|of wh` + `ich|of wh` + `om|t(ake|akes|aken|ook) ba` + `ck|nou` + `ght|there` + `of|where` + `in)\b`)

// The module is written in plain technical English.
func TestPlainWords(t *testing.T) {
	dir := root(t)
	files, err := archtest.Files(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{".go", ".md", ".html", ".tmpl", ".js", ".yaml"}
	lines, words := 0, 0
	for _, file := range files {
		if !slices.Contains(kinds, filepath.Ext(file)) || strings.Contains(file, "testdata/") || strings.Contains(file, "node_modules/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		lines += bytes.Count(text, []byte("\n"))
		words += len(oddWords.FindAll(text, -1))
	}
	t.Logf("%d words in %d lines", words, lines)
	if lines < 10_000 || words*10_000 > maxOddWords*lines {
		t.Errorf("%d words of a translated register in %d lines, at most %d in 10,000 are allowed", words, lines, maxOddWords)
	}
}
