package shell_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission/shell"
)

// If a line writes more files than are checked, it may run one of them.
func TestManyWrittenFiles(t *testing.T) {
	var line strings.Builder
	for i := range 200 {
		fmt.Fprintf(&line, "echo x >f%d;", i)
	}
	line.WriteString("sh f7")
	deny := patterns(t, "rm:*")[0]
	if matched, err := deny.Matches(shell.Parse(line.String())); matched || err == nil {
		t.Errorf("%v, %v, want unclear", matched, err)
	}
}
