package archtest

import (
	"fmt"
	"strings"

	"github.com/askance-dev/askance/toolcall"
)

// StateDiagram renders the table of transitions as a Mermaid state diagram, with one line per
// arrow and its causes. The docs contain its output; a test compares them.
func StateDiagram() string {
	type arrow struct{ from, to string }
	var order []arrow
	causes := map[arrow][]string{}
	for _, t := range toolcall.Table() {
		for _, s := range t.From {
			from := string(s)
			if s == "" {
				from = "[*]"
			}
			a := arrow{from, string(t.To)}
			if causes[a] == nil {
				order = append(order, a)
			}
			causes[a] = append(causes[a], string(t.Cause))
		}
	}
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, a := range order {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", a.from, a.to, strings.Join(causes[a], ", "))
	}
	b.WriteString("    finished --> [*]\n")
	return b.String()
}

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
