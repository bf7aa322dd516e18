package agenthook_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/agenthook"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
)

// An event that another reader could take for another call is denied, and so is a tool whose name only
// looks like that of an allowed one.
func TestAmbiguousEvents(t *testing.T) {
	w := newWorld(t)
	for _, d := range dialect.Dialects() {
		good := pre(d, "c", "ls", `{"command":"ls"}`)
		if a := w.ask(d, strings.Replace(good, `"c"`, `"good"`, 1)); !allowed(d, a) {
			t.Fatalf("%s: a regular event: %+v", d, a)
		}
		for i, change := range []func(string) string{
			func(e string) string { return strings.Replace(e, `{`, `{"tool_name":"Bash",`, 1) },
			func(e string) string { return strings.TrimSuffix(e, "}") + `,"tool_name":"ls"}` },
			func(e string) string { return strings.TrimSuffix(e, "}") + `,"tool_input":{"command":"rm"}}` },
			func(e string) string {
				return strings.Replace(e, `{"command":"ls"}`, `{"command":"ls","command":"rm"}`, 1)
			},
			func(e string) string {
				return strings.Replace(e, `{"command":"ls"}`, `{"command":"ls","comm\u0061nd":"rm"}`, 1)
			},
			func(e string) string { return strings.Replace(e, `{"command":"ls"}`, `{"a":{"b":1,"b":2}}`, 1) },
			func(e string) string { return strings.Replace(e, `{"command":"ls"}`, `{"command":"\ud83d"}`, 1) },
			func(e string) string { return strings.Replace(e, `{"command":"ls"}`, "{\"command\":\"\xff\"}", 1) },
			func(e string) string {
				return strings.Replace(e, `{"command":"ls"}`, strings.Repeat(`{"a":`, 9999)+"1"+strings.Repeat("}", 9999), 1)
			},
			func(e string) string { return strings.Replace(e, `"tool_name"`, `"Tool_Name"`, 1) },
			func(e string) string { return e + e },
			func(e string) string { return e + "\x00" },
			func(e string) string { return "\ufeff" + e },
			func(e string) string { return e[:len(e)-1] },
			func(e string) string { return "[" + e + "]" },
			func(e string) string { return strings.Replace(e, `"ls",`, `"LS",`, 1) },
			func(e string) string { return strings.Replace(e, `"ls",`, `"ls ",`, 1) },
			func(e string) string { return strings.Replace(e, `"ls",`, `"ls\u200b",`, 1) },
			func(e string) string { return strings.Replace(e, `"ls",`, `"ls\u0000",`, 1) },
			func(e string) string { return strings.Replace(e, `"ls",`, `"frontend/ls",`, 1) },
			func(e string) string { return strings.Replace(e, `"ls",`, `"\uff4c\uff53",`, 1) },
			func(e string) string { return strings.Replace(e, `"s"`, `"`+strings.Repeat("s", 1<<20)+`"`, 1) },
			func(e string) string { return strings.Replace(e, `"/w"`, `"/`+strings.Repeat("w", 1<<20)+`"`, 1) },
		} {
			event := change(strings.Replace(good, `"c"`, fmt.Sprintf(`"c%d"`, i), 1))
			a, err := w.send(t.Context(), d, agenthook.Options{Hold: time.Millisecond}, event)
			if err != nil || allowed(d, a) || denied(d, a) == "" {
				t.Errorf("%s %d: %.300s: %.300s %v", d, i, event, a.Text, err)
			}
		}
	}
}
