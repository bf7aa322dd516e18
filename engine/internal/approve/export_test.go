package approve

import (
	"fmt"
	"strings"
)

// Table writes the checks for the documentation.
func Table() string {
	var b strings.Builder
	b.WriteString("| | check | wants | else |\n|---|---|---|---|\n")
	for i, c := range checks {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", i+1, c.Name, c.Wants, c.Else)
	}
	return b.String()
}
