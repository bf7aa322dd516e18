package archtest

import (
	"fmt"
	"strings"

	"github.com/askance-dev/askance/toolcall"
)

// PhaseTable renders the table of phases for the documentation.
func PhaseTable() string {
	var b strings.Builder
	b.WriteString("| phase | means | set by | next | lasts |\n|---|---|---|---|---|\n")
	for _, r := range toolcall.PhaseTable() {
		words := make([]string, len(r.Next))
		for i, p := range r.Next {
			words[i] = string(p)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Phase, r.Means, r.SetBy, strings.Join(words, ", "), r.Lasts)
	}
	return b.String()
}
