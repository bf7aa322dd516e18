package summary_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine/internal/summary"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/toolcall"
)

func compileRefund(t testing.TB) *permission.Schema {
	t.Helper()
	s, err := permission.CompileSchema([]byte(refundSchema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func kind(t testing.TB, name, argument string) permission.Kind {
	t.Helper()
	k, err := agentscope.New(name, agentscope.Config{Home: "/home/dev", Argument: argument})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const refundSchema = `{"type":"object","properties":{"note":{"type":"string"},"cents":{"type":"integer"},"order":{"type":"string"},"to":{"type":"object","properties":{"name":{"type":"string"}}}},"required":["order","cents"]}`

func TestLine(t *testing.T) {
	refund := summary.Tool{Schema: compileRefund(t)}
	long := strings.Repeat("é", 300)
	for _, tc := range []struct {
		name, tool, input, want string
		of                      summary.Tool
	}{
		{"the line of a shell", "bash", `{"command":"git push origin main"}`, "git push origin main", summary.Tool{Kind: kind(t, "bash", "")}},
		{"a line under another name", "run", `{"line":"ls"}`, "ls", summary.Tool{Kind: kind(t, "bash", "line")}},
		{"a shell without a kind", "shell", `{"command":["bash","-lc","make test"],"workdir":"/srv"}`, "make test (in /srv)", summary.Tool{}},
		{"no shell", "shell", `{"command":["/tmp/evil","-c","git status"]}`, "/tmp/evil -c 'git status'", summary.Tool{}},
		{"words", "exec", `{"command":["rm","-r","a b"]}`, "rm -r 'a b'", summary.Tool{}},
		{"a switch of a shell", "Bash", `{"command":"ls","unsafe":true}`, "ls (unsafe)", summary.Tool{}},
		{"several lines", "Bash", `{"command":"cd /tmp\n  rm -rf x\n"}`, "cd /tmp ↵ rm -rf x", summary.Tool{}},
		{"padding", "Bash", `{"command":"ls                                 ; rm -rf /"}`, "ls ; rm -rf /", summary.Tool{}},
		{"write", "Write", `{"file_path":"/etc/hosts","content":"a\nb\n"}`, "Write /etc/hosts (2 lines)", summary.Tool{Kind: kind(t, "write", "")}},
		{"edit", "Edit", `{"file_path":"a.go","old_string":"x","new_string":"y","replace_all":true}`, "Edit a.go (replace_all)", summary.Tool{Kind: kind(t, "edit", "")}},
		{"read", "view", `{"path":"a.go"}`, "Read a.go", summary.Tool{Kind: kind(t, "read", "path")}},
		{"search", "Grep", `{"pattern":"TODO","path":"src"}`, "Search TODO in src", summary.Tool{Kind: kind(t, "grep", "")}},
		{"a file without a kind", "create_file", `{"path":"a.txt","content":"x"}`, "create_file a.txt (1 line)", summary.Tool{}},
		{"edits of several files", "multi_edit", `{"edits":[{"file_path":"src/a.ts","old":"1","new":"2"},{"file_path":"src/b.ts","old":"1","new":"2"},{"file_path":"src/a.ts","old":"3","new":"4"}]}`, "multi_edit edits src/a.ts, src/b.ts", summary.Tool{}},
		{"edits of one file", "MultiEdit", `{"file_path":"a.ts","edits":[{"old_string":"1","new_string":"2"}]}`, "MultiEdit a.ts", summary.Tool{}},
		{"an edit of another file", "MultiEdit", `{"file_path":"a.ts","edits":[{"path":"a.ts"},{"path":"/etc/passwd"}]}`, "MultiEdit a.ts (edits a.ts, /etc/passwd)", summary.Tool{}},
		{"an edit that names two files", "MultiEdit", `{"edits":[{"path":"a.ts","file_path":"/etc/passwd"}]}`, "MultiEdit edits 1 item", summary.Tool{}},
		{"a patch", "apply_patch", `{"patch":"*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Delete File: src/b.py\n*** Add File: c.py\n+z\n*** End Patch"}`, "apply_patch patch src/a.py, deleted src/b.py, new c.py", summary.Tool{}},
		{"a patch of Codex", "apply_patch", `{"input":"*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Delete File: src/b.py\n*** End Patch"}`, "apply_patch src/a.py, deleted src/b.py", summary.Tool{}},
		{"a patch of Codex as a command", "apply_patch", `{"command":"*** Begin Patch\n*** Add File: c.py\n+z\n*** End Patch","workdir":"/srv"}`, "apply_patch new c.py (workdir /srv)", summary.Tool{}},
		{"a command named apply_patch without a patch", "apply_patch", `{"command":"rm -rf /\n*** Begin Patch\n@@\n*** Add File: a"}`, "rm -rf / ↵ *** Begin Patch ↵ @@ ↵ *** Add File: a", summary.Tool{}},
		{"another tool's input that looks like a patch", "write_stdin", `{"input":"*** Begin Patch\n*** Update File: a\n*** End Patch\nrm -rf /"}`, `write_stdin input "*** Begin Patch ↵ *** Update File: a ↵…"`, summary.Tool{}},
		{"a unified patch", "git_apply", `{"diff":"diff --git a/x.go b/x.go\n--- a/x.go\t2026-01-01\n+++ b/x.go\t2026-01-02\n@@ -1 +1 @@\n-1\n+2\n--- a/y.go\n+++ /dev/null\n"}`, "git_apply diff x.go, deleted y.go", summary.Tool{}},
		{"a patch with two names for a file", "patch", `{"patch":"--- /etc/passwd\n+++ README.md\n@@ -1 +1 @@\n-1\n+2\n"}`, "patch patch /etc/passwd, README.md", summary.Tool{}},
		{"a patch with one name for a file", "patch", `{"patch":"--- /etc/passwd\n@@ -1 +1 @@\n-1\n+2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"}`, "patch patch /etc/passwd, x", summary.Tool{}},
		{"a binary file in a patch", "git_apply", `{"diff":"diff --git a/.github/w.yml b/.github/w.yml\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZ\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"}`, "git_apply diff .github/w.yml, x", summary.Tool{}},
		{"a mode in a patch", "git_apply", `{"diff":"diff --git a/a b c b/a b c\nold mode 100644\nnew mode 100755\n"}`, "git_apply diff a b c", summary.Tool{}},
		{"renamed files in a patch", "git_apply", `{"diff":"diff --git a/old b/new\nrename from old\nrename to new\n--- a/old\n+++ b/new\n@@ -1 +1 @@\n-1\n+2\ndiff --git a/x b/y\n"}`, "git_apply diff old, to new, x, y", summary.Tool{}},
		{"a new and a deleted file with times", "git_apply", `{"diff":"diff --git a/n b/n\n--- /dev/null\t1970-01-01\n+++ b/n\t2026-01-02\n@@ -0,0 +1 @@\n+2\n--- a/y\t2026-01-01\n+++ /dev/null\t1970-01-01\n"}`, "git_apply diff new n, deleted y", summary.Tool{}},
		{"a file deleted and made again", "apply_patch", `{"patch":"*** Begin Patch\n*** Update File: a\n*** Delete File: a\n*** Add File: a\n*** End Patch"}`, "apply_patch patch deleted a, new a", summary.Tool{}},
		{"a folder that a prefix looks like", "git_apply", `{"diff":"--- a/b/x\n+++ b/b/x\n@@ -1 +1 @@\n-1\n+2\n"}`, "git_apply diff b/x", summary.Tool{}},
		{"an argument named patch that is none", "post", `{"patch":"--- x\n+++ README.md\nrm -rf /"}`, `post patch "--- x ↵ +++ README.md ↵ rm -rf /"`, summary.Tool{}},
		{"an input that looks like a patch", "Bash", `{"command":"sh","stdin":"--- x\n+++ README.md\n@@ -1 +1 @@\nrm -rf /"}`, `sh (stdin "--- x ↵ +++ README.md ↵ @@ -1 +1…)`, summary.Tool{}},
		{"a text that mentions a patch", "post", `{"text":"see\n*** Update File: a"}`, `post text "see ↵ *** Update File: a"`, summary.Tool{}},
		{"more files than fit", "multi_edit", `{"edits":[{"path":"/srv/app/src/checkout/cart.ts"},{"path":"/srv/app/src/checkout/order.ts"},{"path":"/srv/app/src/checkout/user.ts"},{"path":"/srv/app/src/pay.ts"}]}`, "multi_edit edits /srv/app/src/checkout/cart.ts, /srv/app/src/checkout/order.ts and 2 more files", summary.Tool{}},
		{"fetch", "http", `{"url":"https://example.org/a","method":"post"}`, "POST https://example.org/a", summary.Tool{}},
		{"fetch without a method", "WebFetch", `{"url":"https://example.org","prompt":"what"}`, "Fetch https://example.org (prompt what)", summary.Tool{}},
		{"the input and the environment of a command", "Bash", `{"command":"sh","stdin":"rm -rf /\nls","env":{"PATH":"/tmp"},"timeout":5,"description":"harmless"}`, `sh (stdin "rm -rf / ↵ ls", env 1 field)`, summary.Tool{}},
		{"the input of a long command", "Bash", `{"command":"` + long + `","stdin":"rm -rf /"}`, strings.Repeat("é", 100) + `… (stdin "rm -rf /")`, summary.Tool{}},
		{"the body of a request", "http", `{"url":"https://example.org/a","method":"post","body":"{\"all\":true}","headers":{"a":"b"}}`, `POST https://example.org/a (body {"all":true}, headers 1 field)`, summary.Tool{}},
		{"the target of a copy", "copy_file", `{"path":"a","content":"x","destination":"/etc/b"}`, "copy_file a (1 line) (destination /etc/b)", summary.Tool{}},
		{"amount and order", "refund", `{"note":"late delivery","cents":19900,"order":"A-1042"}`, `refund order A-1042, cents 19900, note "late delivery"`, refund},
		{"no schema", "refund", `{"cents":19900,"to":{"name":"x"},"tags":["a","b"],"big":[1,2,3,4],"none":null,"dry":false,"now":true}`, "refund cents 19900, to {name x}, tags [a, b], big 4 items, now", summary.Tool{}},
		{"an amount with its currency", "transfer", `{"amount":{"value":12500.5,"currency":"EUR"},"from":{"a":{"b":1}},"empty":{},"many":{"a":1,"b":2,"c":3,"d":4}}`, "transfer amount {value 12500.5, currency EUR}, from 1 field, empty 0 fields, many 4 fields", summary.Tool{}},
		{"a hidden value within an object", "transfer", `{"card":{"pin":"[redacted hmac-sha256:00ff]","of":"ann"}}`, "transfer card {pin [redacted], of ann}", summary.Tool{}},
		{"no arguments", "uptime", `{}`, "uptime", summary.Tool{}},
		{"no object", "t", `[1,`, "t [1,", summary.Tool{}},
		{"long", "Bash", `{"command":"` + long + `"}`, strings.Repeat("é", 119) + "…", summary.Tool{}},
		{"a long value", "t", `{"a":"` + long + `","b":1}`, "t a " + strings.Repeat("é", 39) + "…, b 1", summary.Tool{}},
		{"hidden", "t", `{"pin":"[redacted hmac-sha256:` + strings.Repeat("a", 64) + `]","n":1}`, "t n 1, pin [redacted]", summary.Tool{}},
		{"a hidden line", "Bash", `{"command":"[redacted hmac-sha256:` + strings.Repeat("a", 64) + `]"}`, "[redacted]", summary.Tool{}},
	} {
		if got := summary.Line(tc.of, &toolcall.Call{Tool: tc.tool, Input: tc.input}); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A rule's message about the call comes first, then the tool's template.
func TestLineBySource(t *testing.T) {
	s := compileRefund(t)
	template, err := summary.Parse("Refund {cents} cents of order {order} to {to.name} {{now}}", s)
	if err != nil {
		t.Fatal(err)
	}
	c := &toolcall.Call{Tool: "refund", Input: `{"cents":19900,"order":"A-1042","to":{"name":"Ann Lee"}}`}
	of := summary.Tool{Template: template, Schema: s}
	c.Decision = &toolcall.Decision{Message: "Pay Ann $199.00.\nSecond line", Headline: true}
	if got := summary.Line(of, c); got != "Pay Ann $199.00." {
		t.Errorf("with a message: %q", got)
	}
	c.Decision.Message = `Pay A\u{202e}n \u{72}m \u{zz} \u{1b}?`
	if got := summary.Line(of, c); got != "Pay A\u202en \\u{72}m \\u{zz} \x1b?" {
		t.Errorf("with hidden characters: %q", got)
	}
	c.Decision.Headline = false
	if got := summary.Line(of, c); got != "Refund 19900 cents of order A-1042 to Ann Lee {now}" {
		t.Errorf("with a template: %q", got)
	}
	c.Input = `{"cents":19900,"order":"A-1042"}`
	if got := summary.Line(of, c); got != "refund order A-1042, cents 19900" {
		t.Errorf("without an argument of the template: %q", got)
	}
}

func TestTemplateFaults(t *testing.T) {
	s := compileRefund(t)
	for text, want := range map[string]string{
		" ":                      "summary is empty",
		"Refund {amount}":        "declares no argument amount; use one of cents, note, order, to",
		"Refund {order.id}":      "order has no members in input_schema; write {order}",
		"Refund {to.city}":       "declares no argument city; use one of name",
		"Refund {order":          "is not an argument",
		"Refund {}":              "is not an argument",
		"Refund }":               "unmatched }",
		strings.Repeat("x", 501): "the limit is 500",
		"\xff":                   "is not UTF-8",
	} {
		if _, err := summary.Parse(text, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := summary.Parse("Refund {amount}", nil); err != nil {
		t.Errorf("without a schema any argument can be there: %v", err)
	}
}

func TestRisk(t *testing.T) {
	of := summary.Tool{Claims: permission.Claims{Destructive: true, OpenWorld: true}}
	c := &toolcall.Call{Definition: &toolcall.DefinitionRef{Hash: "b", First: "a"}}
	if got := fmt.Sprint(summary.Risk(of, c)); got != "[destructive open world definition changed]" {
		t.Errorf("risk %s", got)
	}
}

// For any tool and template, no summary contains a value that rules hide.
func TestNothingHiddenIsSummarized(t *testing.T) {
	names := []string{"command", "cmd", "file_path", "path", "url", "method", "content", "order", "cents", "note", "cwd"}
	rapid.Check(t, func(r *rapid.T) {
		const secret = "s3cr3t-7ze9"
		hidden := map[string]bool{}
		args := map[string]any{}
		var paths []string
		for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 6, rapid.ID[string]).Draw(r, "names") {
			if hidden[n] = rapid.Bool().Draw(r, n); hidden[n] {
				args[n] = rapid.SampledFrom([]any{secret, "a " + secret, []any{secret}, map[string]any{"k": secret}}).Draw(r, "hidden "+n)
				paths = append(paths, "args."+n)
			} else {
				args[n] = rapid.SampledFrom([]any{"plain", 7, true, nil, "https://x.org"}).Draw(r, "shown "+n)
			}
		}
		input, err := strictjson.Marshal(args)
		if err != nil {
			r.Fatal(err)
		}
		of := summary.Tool{}
		if rapid.Bool().Draw(r, "template") {
			if of.Template, err = summary.Parse("Do {"+rapid.SampledFrom(names).Draw(r, "argument")+"} {"+names[0]+".k}", nil); err != nil {
				r.Fatal(err)
			}
		}
		if k := rapid.SampledFrom([]string{"", "bash", "write", "read", "grep"}).Draw(r, "kind"); k != "" {
			of.Kind = kind(t, k, "")
		}
		c := &toolcall.Call{Tool: "t", Input: string(input), Redact: paths}
		if line := summary.Line(of, c.Redacted()); strings.Contains(line, secret) {
			r.Fatalf("%s of %s", line, input)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"Refund {cents} of {order}", "{{", "}}", "{a.b.c}", "{", "{a..b}", "é{x}"} {
		f.Add(s, `{"cents":1,"a":{"b":{"c":"x"}},"x":"é"}`)
	}
	s := compileRefund(f)
	f.Fuzz(func(t *testing.T, text, input string) {
		_, _ = summary.Parse(text, s)
		template, err := summary.Parse(text, nil)
		if err != nil {
			return
		}
		line := summary.Line(summary.Tool{Template: template}, &toolcall.Call{Tool: "t", Input: input})
		if !utf8.ValidString(line) || utf8.RuneCountInString(line) > 120 || strings.ContainsAny(line, "\n\r\t") {
			t.Errorf("%q of %q and %q", line, text, input)
		}
	})
}
