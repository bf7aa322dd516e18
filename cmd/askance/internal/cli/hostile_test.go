package cli_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
)

// hostile has an escape sequence, a Cyrillic letter in a Latin word, a turn of
// direction, and a character that nobody sees.
const hostile = "\x1b[2Jp\u0430y\u202epal\u200b"

// TestHostileText holds every command that shows what agents and people wrote
// to the one way in which that is shown.
func TestHostileText(t *testing.T) {
	clean(t)
	s := serveRules(t, strings.Replace(testRules, "rules:", "rules:\n  - {name: odd, tool_name: outside, behavior: ask, when: 'size(args) > 0', message: \"'Run ' + args.what + '?'\"}", 1))
	id := "c-" + hostile
	input := `{"what":"` + strings.ReplaceAll(hostile, "\x1b", `\u001b`) + `"}`
	s.propose("r1-"+hostile, id, "outside", input)
	shown := func(args ...string) {
		t.Helper()
		r := run(t, append(args, "--data", s.data)...)
		if r.code != 0 || !strings.Contains(r.out, "‹U+001B›[2Jp‹U+0430›y") {
			t.Errorf("askance %s: exit %d\n%s%s", args[0], r.code, r.out, r.err)
		}
		for _, text := range []string{r.out, r.err} {
			if text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '‹' || r == '›' }), ""); reveal.Hidden(text) {
				t.Errorf("askance %s shows %q", args[0], text)
			}
		}
	}
	shown("show", id)
	shown("events", "tail", "--once")
	shown("hand-over", id, "--to", "ann-"+hostile, "--note", hostile, "--yes")
	shown("show", id)
	shown("list", "--all")
	if got := decode[message.ShowReply](t, ok(t, "show", id, "--json", "--data", s.data)).Call; string(got.Call) != id || got.Input != input {
		t.Errorf("show --json has %q with %q", got.Call, got.Input)
	}
	if r := run(t, "__complete", "show", "", "--data", s.data); strings.Contains(r.out, "c-") {
		t.Errorf("completed as %q", r.out)
	}
	shown("reject", id, "--yes", "--feedback", hostile)
	shown("show", id)
	s.propose("r1-"+hostile, id+"2", "outside", input)
	shown("interrupt", id+"2")
	shown("list", "--all")
}
