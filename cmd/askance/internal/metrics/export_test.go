package metrics

import (
	"fmt"
	"strings"
)

// Reference returns the table of all metrics, for the documentation.
func Reference() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range append(described, ofProcess...) {
		labels := "none"
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	return b.String()
}
