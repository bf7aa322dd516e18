package lint

import (
	"fmt"
	"maps"
	"slices"

	"github.com/askance-dev/askance/permission"
)

// Record is the state in which the tests of a policy last passed. It is kept
// next to the policy, so that a change of the language or of a tool shows.
type Record struct {
	// Language names what expressions mean: the functions, their libraries and
	// the variables.
	Language string `json:"language"`
	// Tools are the hashes of the declared tools' schemas, by name; "" for a
	// tool without one.
	Tools map[string]string `json:"tools"`
}

// NewRecord is the present state.
func NewRecord(tools []permission.Tool) Record {
	r := Record{Language: permission.LanguageHash(), Tools: map[string]string{}}
	for _, t := range tools {
		hash := ""
		if t.Schema != nil {
			hash = t.Schema.Hash()
		}
		r.Tools[t.Name] = hash
	}
	return r
}

// checkDrift compares the present state with the recorded one.
func (l *linter) checkDrift() {
	before := l.opts.Recorded
	if before == nil {
		return
	}
	report := func(msg string) {
		l.found = append(l.found, Finding{Code: Drift, Level: Error, Msg: msg, Hint: "run the tests again with --record, and review what changed"})
	}
	now := NewRecord(l.opts.Tools)
	if now.Language != before.Language {
		report("the language of conditions has changed since the tests were recorded")
	}
	for _, name := range slices.Sorted(maps.Keys(before.Tools)) {
		hash, ok := now.Tools[name]
		switch {
		case !ok:
			report(fmt.Sprintf("tool %s was declared when the tests were recorded, and is not any more", name))
		case hash != before.Tools[name]:
			report(fmt.Sprintf("the schema of tool %s has changed since the tests were recorded", name))
		}
	}
}
