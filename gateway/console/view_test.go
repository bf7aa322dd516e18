package console

import (
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

var ownTags = regexp.MustCompile(`<mark( title="[^"<>]*")?>([^<>&]|&nbsp;)*</mark>|</?bdi( dir="rtl")?>`)

// TestMarkupIsText: markup turns every untrusted value into text. Except for its own marks it
// produces no tags, and it loses nothing.
func TestMarkupIsText(t *testing.T) {
	line := functions()["line"].(func(any) template.HTML)
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.StringMatching(`(<[a-z/]+|&#?[a-z0-9]+;|["'>‹›U+0-9A-F]|\x{202e}|а|ש){0,12}`)).Draw(t, "text")
		out := ownTags.ReplaceAllString(string(line(in)), "")
		if strings.ContainsAny(out, `<>"'`) {
			t.Fatalf("%q is shown as %q", in, out)
		}
		if plain := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return -1
			}
			return r
		}, in); plain == in && html.UnescapeString(out) != in {
			t.Fatalf("%q is shown as %q", in, out)
		}
	})
}

// Equal marks in a row are counted, and only the first mark of a text has an explanation: a page
// with 60,000 marks had 11 MB.
func TestMarksAreShort(t *testing.T) {
	if got, want := string(markup("a‹U+200B›‹U+200B›‹U+202E›b‹U+200B›")), `>U+200B&nbsp;×2 U+202E</mark>b<mark>U+200B</mark>`; !strings.HasSuffix(got, want) {
		t.Errorf("marks are shown as %s", got)
	}
	if n := len(markup(strings.Repeat("a‹U+200B›", 60_000))); n > 30*60_000 {
		t.Errorf("60,000 marks have %d bytes", n)
	}
}

// Text from right to left is isolated together with the spaces in it, and nothing else is.
func TestRightToLeftIsIsolated(t *testing.T) {
	for in, want := range map[string]string{
		"rm אב/1 x":   `rm <bdi dir="rtl">אב</bdi>/1 x`,
		"שלום, עולם.": `<bdi dir="rtl">שלום, עולם</bdi>.`,
		"ab é 日本 -1":  "ab é 日本 -1",
	} {
		if got := string(markup(in)); got != want {
			t.Errorf("%q is shown as %s", in, got)
		}
	}
}

func TestReadable(t *testing.T) {
	if b, a := readable(`{"a":1}`); len(b) != 0 || len(a.Tree) != 1 || a.Tree[0].Name != "a" || a.Bytes != 7 {
		t.Errorf("one member is shown as %+v and %+v", b, a)
	}
	for _, odd := range []string{`{`, `{"a":[` + strings.Repeat("1,", maxArguments) + `1]}`} {
		if b, a := readable(odd); b != nil || a.Tree != nil || a.Raw != odd {
			t.Errorf("%.40q is shown as %+v and %+v", odd, b, a.Tree)
		}
	}
	b, a := readable(`{"timeout":5,"command":"git push --force"}`)
	if len(b) != 1 || b[0].Kind != "command" || b[0].Lines[0] != "git push --force" || len(a.Tree) != 1 || a.Tree[0].Name != "timeout" {
		t.Errorf("a command is shown as %+v and %+v", b, a.Tree)
	}
	b, a = readable(`{"file_path":"/a.go","old_string":"one\ntwo","new_string":"one\n2\u202e"}`)
	if len(b) != 1 || b[0].Kind != "edit" || b[0].Title != "/a.go" || len(b[0].Diff) != 3 || b[0].Diff[2] != (change{"+", "2‹U+202E›"}) || len(a.Tree) != 1 {
		t.Errorf("an edit is shown as %+v and %+v", b, a.Tree)
	}
	if b, _ = readable(`{"path":"a\u202eb","old":"\tx\ny\nend","new":"    x\ny  \nend"}`); b[0].Title != "a\u202eb" || !slices.Equal(b[0].Diff, []change{
		{"-", "‹U+0009›x"}, {"-", "y"}, {"+", "    x"}, {"+", "y‹U+0020›‹U+0020›"}, {" ", "end"},
	}) {
		t.Errorf("an edit of white space is shown as %+q", b)
	}
	if b, _ = readable(`{"file_path":"/tmp/a","path":"/etc/passwd","old":"a","new":"b"}`); b[0].Title != "" {
		t.Errorf("of two files, the edit is shown as one of %s", b[0].Title)
	}
	b, a = readable(`{"path":"x","edits":[{"oldText":"a","newText":"b"},{"oldText":"c","newText":"d"}]}`)
	if len(b) != 2 || len(a.Tree) != 1 {
		t.Errorf("two edits are shown as %+v and %+v", b, a.Tree)
	}
	b, a = readable(`{"edits":[{"path":"x","old":"a","new":"b","all":true},{"path":"y","file":"z","old":"c","new":"d"}],"command":7}`)
	if len(b) != 2 || b[0].Title != "x" || len(b[0].Rest) != 1 || b[1].Title != "" || len(b[1].Rest) != 2 || len(a.Tree) != 1 {
		t.Errorf("edits of several files are shown as %+v and %+v", b, a.Tree)
	}
	if b, _ = readable(`{"path":"x","edits":[{"path":"y","old":"a","new":"b"}]}`); len(b) != 1 || b[0].Title != "" || len(b[0].Rest) != 1 {
		t.Errorf("an edit that names another file than its call is shown as %+v", b)
	}
	if b, a = readable(`{"edits":[{"old":"a","new":"b"},{"old":"c"}]}`); len(b) != 0 || len(a.Tree) != 1 {
		t.Errorf("a list with something else than edits is shown as %+v and %+v", b, a.Tree)
	}
	for input, want := range map[string]string{`{"command":"ls\n"}`: "ls‹U+000A›", `{"content":"a\nls\n"}`: "ls"} {
		if b, _ = readable(input); len(b) != 1 || b[0].Lines[len(b[0].Lines)-1] != want {
			t.Errorf("the last line of %s is shown as %+q, want %q", input, b, want)
		}
	}
	if b, _ = readable(`{"patch":"new file mode 100755\n@@ -1 +1,2 @@\n a\n+b"}`); !slices.Equal(b[0].Diff, []change{{" ", "new file mode 100755"}, {" ", "@@ -1 +1,2 @@"}, {" ", " a"}, {"+", "b"}}) {
		t.Errorf("a patch is shown as %+q", b)
	}
}

func TestDiff(t *testing.T) {
	if d := diff(`{"a":1}`, "{\n \"a\": 1 }"); d != nil {
		t.Errorf("the same JSON differs by %v", d)
	}
	if d := diff(`{"a":1}`, `{"a":2}`); len(d) != 4 || d[1] != (change{"-", `  "a": 1`}) || d[2] != (change{"+", `  "a": 2`}) {
		t.Errorf("the difference is %v", d)
	}
}

func TestTerms(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	text := "rm /tmp/a:*"
	suggested := []message.PermissionRule{{ToolName: "bash", RuleContent: &text, Behavior: message.BehaviorAllow, Source: "suggested"}, {ToolName: "bash", Behavior: message.BehaviorAllow}}
	answer := func(f form) (toolcall.Response, error) {
		f.Do, f.Digest = doApprove, "sha256:1"
		return responseOf(&f, toolcall.Key{}, suggested, now)
	}
	resp, err := answer(form{Remember: "terms", Rules: []int{0}, Contents: map[int]string{0: "rm /tmp/a/b:*"}, Scope: "session", Last: "1h", Uses: "3", Path: "args.n", Limit: "10"})
	if err != nil {
		t.Fatal(err)
	}
	r := resp.Remember
	if *r.Rules[0].RuleContent != "rm /tmp/a/b:*" || text != "rm /tmp/a:*" || r.Uses != 3 || !r.Until.Equal(now.Add(time.Hour)) || r.Budget.Limit != "10" || resp.Rules != nil {
		t.Errorf("the terms are %+v", r)
	}
	if resp, err = answer(form{Remember: "letter", Rules: []int{1}}); err != nil || len(resp.Rules) != 1 || resp.Remember != nil {
		t.Errorf("with the exact rule: %+v, %v", resp, err)
	}
	if resp, err = answer(form{Rules: []int{0}}); err != nil || resp.Rules != nil || resp.Remember != nil {
		t.Errorf("with nothing to remember: %+v, %v", resp, err)
	}
	for _, bad := range []form{{Remember: "terms"}, {Remember: "letter", Rules: []int{2}}, {Remember: "terms", Rules: []int{0}, Last: "-1h"}, {Remember: "terms", Rules: []int{0}, Uses: "0"}} {
		if resp, err := answer(bad); err == nil {
			t.Errorf("%+v is accepted as %+v", bad, resp.Remember)
		}
	}
}

func TestFilter(t *testing.T) {
	f := filter{Show: showDone, Words: "a b&c", Tool: "x", Agent: "y", Session: "s/1", Rule: "r", Mine: true, Sort: toolcall.SortProposed, Group: "agent", Cursor: "77", From: 100}
	if got := filterOf(f.Fields()); got != f {
		t.Errorf("the filter reads back as %+v", got)
	}
	if got := filterOf(map[string][]string{"show": {showDone}, "cursor": {"c"}, "from": {"100"}}); got != (filter{Show: showDone}) {
		t.Errorf("a cursor that is not a position in the finished calls is read as %+v", got)
	}
	if got := filterOf(map[string][]string{"show": {"nonsense"}}); got != (filter{Show: showOpen}) || got.listAddress() != "/inbox" {
		t.Errorf("an unknown filter is read as %+v", got)
	}
}

// After a response the next request is the one below it, even if its own row is already gone.
func TestNextRequest(t *testing.T) {
	t.Parallel()
	rows := func(ids string) *side {
		s := &side{}
		for id := range strings.FieldsSeq(ids) {
			s.Rows = append(s.Rows, row{ID: id, Mine: id != "x"})
		}
		return s
	}
	for _, c := range []struct{ before, at, after, want string }{
		{"a b c", "b", "a c", "c"},
		{"a b c", "c", "a b", "a"},
		{"a b x c", "b", "a x c", "c"},
		{"a b c", "b", "n a", "a"}, // c is also gone
		{"a", "a", "", ""},
	} {
		got := ""
		if next := nextRequest(rows(c.after), c.at, rowsBehind(rows(c.before), c.at)...); next != nil {
			got = next.ID
		}
		if got != c.want {
			t.Errorf("after %s of %q with %q left: %q, want %q", c.at, c.before, c.after, got, c.want)
		}
	}
}

// Every phase of a call is on exactly one tab.
func TestTabsHaveEveryPhase(t *testing.T) {
	var got []toolcall.Phase
	for _, tab := range tabs {
		got = append(got, tab.phases...)
	}
	want := toolcall.Phases()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the tabs have %v, want %v", got, want)
	}
}

// A page shows the beginning of a long value and folds the rest. Nothing is lost, and no mark is
// broken.
func TestFolds(t *testing.T) {
	line := strings.Repeat("x", 99)
	for _, tc := range []struct {
		name  string
		value any
		want  int
	}{
		{"a short text", "ls", 2},
		{"a text", strings.Repeat("é", 20_000), foldBytes},
		{"a text with marks", strings.Repeat("‹U+202E›", 5000), foldBytes - foldBytes%len("‹U+202E›")},
		{"some lines", make([]string, 2*foldLines), 2 * foldLines},
		{"many lines", make([]string, 2*foldLines+1), foldLines},
		{"long lines", slices.Repeat([]string{line}, 190), foldBytes / len(line)},
		{"a diff", slices.Repeat([]change{{"+", line}}, 5000), foldBytes / len(line)},
		{"many members", make([]asked.Argument, 1000), foldLines},
	} {
		if got := foldAt(tc.value); got != tc.want {
			t.Errorf("%s: folded at %d, want %d", tc.name, got, tc.want)
		}
	}
}

// A page hides unchanged lines of a diff, and of changed ones only those after the first lines. All
// are there, in their order.
func TestFoldDiff(t *testing.T) {
	t.Parallel()
	same, plus := change{" ", "x"}, change{"+", strings.Repeat("x", 99)}
	far := slices.Concat(slices.Repeat([]change{same}, 500), []change{plus}, slices.Repeat([]change{same}, 7))
	if d := foldDiff(far); len(d.Shown) != 3 || len(d.Shown[0].Lines) != 497 || len(d.Shown[1].Lines) != 7 || len(d.Shown[2].Lines) != 4 || d.More != nil {
		t.Errorf("one change far below is shown as %+v", d)
	}
	if d := foldDiff(slices.Repeat([]change{plus}, 5000)); len(d.Shown) != 1 || len(d.Shown[0].Lines) != foldBytes/99 || d.Left != 5000-foldBytes/99 {
		t.Errorf("many changes are folded before %d lines", d.Left)
	}
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]change{same, same, same, same, same, {"-", "y"}, plus, {"", "@@"}}), 0, 300).Draw(t, "lines")
		d := foldDiff(lines)
		var all []change
		for i, h := range slices.Concat(d.Shown, d.More) {
			all = append(all, h.Lines...)
			if changed := slices.ContainsFunc(h.Lines, func(l change) bool { return l.Mark != " " }); h.Same && (changed || len(h.Lines) <= nearLines) || i < len(d.Shown) && !h.Same && len(h.Lines) > 2*foldLines {
				t.Fatalf("part %d of %v is %v", i, lines, h)
			}
		}
		left := 0
		for _, h := range d.More {
			left += len(h.Lines)
		}
		if !slices.Equal(all, lines) || left != d.Left {
			t.Fatalf("%v is shown as %+v", lines, d)
		}
	})
}

// The age in a row counts from the proposal, as in the terminal and as the order by age does, also
// after an escalation.
func TestRowAge(t *testing.T) {
	proposed := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	c := &toolcall.Call{State: message.ToolCallAsking, Request: &toolcall.ApprovalRequest{}, ProposedAt: proposed, UpdatedAt: proposed.Add(time.Hour)}
	if r := rowOf(c, &gateway.Peer{}, false, filter{}, toolcall.Key{}, proposed); !r.Asked.Equal(proposed) {
		t.Errorf("the age counts from %v, want %v", r.Asked, proposed)
	}
}

// A result without text is a result: the page says what it has.
func TestResultWithoutText(t *testing.T) {
	for want, output := range map[string]message.Content{
		"No output.":                message.List(),
		"[image/png at https://a/]": message.List(&message.DataBlock{Source: &message.URLSource{MediaType: "image/png", URL: "https://a/"}}),
	} {
		c := &card{Call: &toolcall.Call{State: message.ToolCallFinished, Result: &message.ToolResultBlock{Output: output, State: message.ToolResultSuccess}}}
		if c.addExecution(nil); c.Result != want || !c.ResultOK {
			t.Errorf("the result is %q, want %q", c.Result, want)
		}
	}
}

// What people only read shows emoji whole, and marks other invisible characters. Arguments keep all
// marks, because many emoji look the same without a selector.
func TestEmoji(t *testing.T) {
	const zwj, vs = "\u200d", "\ufe0f"
	for _, whole := range []string{"❤" + vs, "👩" + zwj + "💻", "👩🏽" + zwj + "⚕" + vs, "👨" + zwj + "👩" + zwj + "👧" + zwj + "👦", "🏳" + vs + zwj + "🌈", "🕵" + vs + zwj + "♀" + vs, "❤" + vs + zwj + "🔥", "👩" + zwj + "❤" + vs + zwj + "💋" + zwj + "👨", "<b>" + "☺" + vs + "</b>"} {
		if got, want := string(highlight(joinEmoji(reveal.Text(whole)))), template.HTMLEscapeString(whole); got != want {
			t.Errorf("%+q is shown as %+q", whole, got)
		}
		if shown := string(markup(reveal.Text(whole))); !strings.Contains(shown, "U+") {
			t.Errorf("the argument %+q is shown as %+q", whole, shown)
		}
	}
	for text, marks := range map[string]int{"a" + vs: 1, "🚀" + vs: 1, "1" + vs: 1, "❤" + vs + vs: 1, "🚀" + zwj + "🚀": 1, "👦" + zwj + "👦": 1, "a" + zwj + "b": 1, "👩" + zwj + zwj + "💻": 1, "👩" + zwj + "💻" + zwj: 1, "🏃" + vs + zwj + "♀" + vs: 2} {
		if shown := string(highlight(joinEmoji(reveal.Text(text)))); strings.Count(shown, "U+") != marks {
			t.Errorf("%+q is shown as %s, want %d marks", text, shown, marks)
		}
	}
}
