package agentscope

import (
	"fmt"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission"
)

// The names that a line may reach are limited, however it repeats and nests commands, and a line with
// more of them is never certain.
func TestNamesAreLimited(t *testing.T) {
	for _, tt := range []struct{ prefix, shape string }{
		{"", "env "}, {"", "sudo -u x "}, {"", "find . -name 'a #' -exec "}, {"", "fd -x "}, {"", "xargs a# "}, {"", "exec "},
		{"cat ", "a/b# "}, {"", "cd a# && cat b; "}, {"cd a; cd b; cd c; cd d; cd e; cd f; cd g; cat ", "x# "}, {"cat ", "{a,b#}/* "},
		{"", "echo a/b# | as; "}, {"cat <<E >x\n", "a/b/c/d/e# "}, {"python3 -c '", "open(x#, \"y#\");"}, {"", "A=b#:c:d,e cat "},
	} {
		for _, size := range []int{16 << 10, 1 << 20} {
			var line strings.Builder
			line.WriteString(tt.prefix)
			for i := 0; line.Len() < size; i++ {
				line.WriteString(strings.ReplaceAll(tt.shape, "#", fmt.Sprint(i)))
			}
			input := map[string]any{"command": line.String()}
			b := bash{Config{Home: "/home/dev"}}.Prepare(permission.Call{Input: input, Cwd: "/w"}).(*bashCall)
			found := b.paths()
			names := len(found.named) + len(found.globs) + len(found.removed) + len(found.folders)
			if names > maxNames+maxFolders {
				t.Errorf("%q and %q of %d bytes: %d names", tt.prefix, tt.shape, size, names)
			}
			if size > shellReads && found.unknown == "" {
				t.Errorf("%q and %q of %d bytes: certain", tt.prefix, tt.shape, size)
			}
		}
	}
}

// shellReads are the bytes of the longest text that is read as a line.
const shellReads = 64 << 10
