package agentscope

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// dodge is a path that Windows reads differently from its text.
type dodge struct {
	rule, path string
	want       message.Behavior // for a call that an allow rule without content covers
}

var dodges = []dodge{
	{"/srv/secret/**", "/srv/SECRET/k", "deny"},
	{"/srv/secret/**", `\srv\secret\k`, "deny"},
	{"/srv/secret/**", `C:\srv\secret\k`, "deny"},
	{"/srv/secret/**", `c:/srv/secret/k`, "deny"},
	{"/srv/secret/**", `C:\srv\app\..\Secret\k`, "deny"},
	{"/srv/secret/**", `C:/srv\app/..\secret/k`, "deny"},
	{"/srv/secret/**", `\\?\C:\srv\secret\k`, "deny"},
	{"/srv/secret/**", `\\.\C:\srv\secret\k`, "deny"},
	{"/srv/secret/**", `//?/c:/srv/secret/k`, "deny"},
	{"/srv/secret/**", "/srv/secret./k", "deny"},
	{"/srv/secret/**", "/srv/secret /k", "deny"},
	{"/srv/secret/**", "/srv/secret. ./k", "deny"},
	{"/srv/secret/**", "/srv/secret::$INDEX_ALLOCATION/k", "deny"},
	{"/srv/secret/**", "/srv/secret:$I30:$INDEX_ALLOCATION/k", "deny"},
	{"/srv/secret/**", `\\host\c$\srv\secret\k`, "ask"},
	{"/srv/secret/**", "//localhost/c$/srv/secret/k", "ask"},
	{"/srv/secret/**", `\\?\UNC\host\c$\srv\secret\k`, "ask"},
	{"/srv/secret/**", `\\?\GLOBALROOT\Device\HarddiskVolume1\srv\secret\k`, "ask"},
	{"/srv/secret/**", `\??\C:\srv\secret\k`, "ask"},
	{"/srv/secret/**", "/srv/SECRE~1/k", "ask"},
	{"/srv/secret/**", `C:\SRV\SECRE~1\k`, "ask"},
	{"/srv/secret/**", `C:secret\k`, "ask"},
	{"/srv/secret/**", "/srv/app/.. /secret/k", "ask"},
	{"/srv/secret/**", "/srv/app/.../secret/k", "ask"},
	{"secret/**", `secret\k`, "deny"},
	{"secret/**", `.\Secret\k`, "deny"},
	{"secret/**", `app\..\secret\k`, "deny"},
	{"secret/**", `C:\work\secret\k`, "deny"},
	{"*.pem", "key.PEM", "deny"},
	{"*.pem", "key.pem.", "deny"},
	{"*.pem", "key.pem ", "deny"},
	{"*.pem", "key.pem::$DATA", "deny"},
	{"*.pem", "key.pem:hidden.txt", "deny"},
	{"~/.ssh/*", `~\.ssh\id`, "deny"},
	{"~/.ssh/*", `C:\Users\Dev\.SSH\id`, "deny"},
	{"~/.ssh/*", "/c/Users/dev/.ssh/id", "deny"},
	{`C:\Data\**`, "/data/k", "deny"},
	{`C:\Data\**`, "/c/data/k", "deny"},
	{`C:\Data\**`, "/mnt/c/Data/k", "deny"},
	{`C:\Data\**`, "/cygdrive/c/Data/k", "deny"},
	{`\\?\C:\Data\**`, `c:\data\k`, "deny"},
	{"/c/Data/**", `C:\data\k`, "deny"},
	// These are not dodges. Asking about them would be a false alarm.
	{"/srv/secret/**", "/srv/app/k", "allow"},
	{"/srv/secret/**", `C:\srv\app\k`, "allow"},
	{"/srv/secret/**", "/srv/logs/2026-01-01T10:00:00.log", "allow"},
	{"/srv/secret/**", "/srv/app/.~lock.k#", "allow"},
	{"*.pem", "notes/pem.md", "allow"},
}

func windowsDecision(t *testing.T, kind string, c Config, mode permission.Mode, path string, rules ...message.PermissionRule) permission.Decision {
	t.Helper()
	input, err := json.Marshal(map[string]string{"file_path": path, "path": path, "pattern": "x"})
	if err != nil {
		t.Fatal(err)
	}
	b := compile(t, permission.Tool{Name: "T", Kind: mustNew(kind, c)}, rules...)
	return b.Decide(context.Background(), permission.Request{Tool: "T", Input: input, Mode: mode, Cwd: `C:\work`})
}

func contentRule(b message.Behavior, content string) message.PermissionRule {
	return message.PermissionRule{ToolName: "T", RuleContent: &content, Behavior: b}
}

// If the tool runs on Windows, no spelling of a path avoids a deny or ask rule.
func TestNoSpellingDodgesADenyRule(t *testing.T) {
	all := message.PermissionRule{ToolName: "T", Behavior: message.BehaviorAllow}
	for _, kind := range []string{Read, Write, Edit, Grep, Glob} {
		for _, d := range dodges {
			got := windowsDecision(t, kind, Config{Home: `C:\Users\dev`}, permission.ModeDefault, d.path, contentRule("deny", d.rule), all)
			want := d.want
			if kind == Grep && want == message.BehaviorAllow && d.rule == "*.pem" {
				want = message.BehaviorAsk // the search may find such a file in a subfolder
			}
			if got.Behavior != want {
				t.Errorf("%s of %q under deny %s: %s by %s, want %s", kind, d.path, d.rule, got.Behavior, got.Step, want)
			}
			if d.want == message.BehaviorAllow {
				continue
			}
			for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits, permission.ModeBypass} {
				if got := windowsDecision(t, kind, Config{Home: `C:\Users\dev`}, mode, d.path, contentRule("ask", d.rule)); got.Behavior == message.BehaviorAllow {
					t.Errorf("%s of %q under ask %s in %s: allowed by %s", kind, d.path, d.rule, mode, got.Step)
				}
			}
		}
	}
}

// A path that only Windows reads as another file, or whose text does not determine the file, is
// not allowed by rules about paths, by a mode, or as a read.
func TestNoWindowsPathIsAllowed(t *testing.T) {
	rules := []message.PermissionRule{}
	for _, content := range []string{"*", "**", "/**", "/srv/**", "/srv/app/**", `C:\srv\app\**`, "C:/**", `\\host\share\**`, "//host/**", "./**", "*.txt", `C:\work\**`} {
		rules = append(rules, contentRule("allow", content))
	}
	for _, path := range []string{
		`C:\srv\app\k.txt`, "C:/srv/app/k.txt", "c:k.txt", `k\l.txt`, `..\k.txt`, `\srv\app\k.txt`, `\\?\C:\srv\app\k.txt`, `\\host\share\k.txt`,
		"//host/share/k.txt", "/srv/app/PROGRA~1/k.txt", "PROGRA~1.TXT", "/srv/app/nul", "com1", "/srv/app/.../k.txt", "/srv/app/.. /k.txt", `~\k.txt`, `C:\work\k.txt`,
	} {
		for _, home := range []string{"", `C:\Users\dev`, "/c/Users/dev", "/mnt/c/Users/dev"} {
			rules := slices.Clone(rules)
			if home != "" { // without a home, a content with ~ does not load
				rules = append(rules, contentRule("allow", "~/**"))
			}
			for _, kind := range []string{Read, Write, Edit, Grep} {
				for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits} {
					if d := windowsDecision(t, kind, Config{Home: home}, mode, path, rules...); d.Behavior != message.BehaviorAsk || len(d.Suggested) > 0 {
						t.Errorf("%s of %q in %s with home %q: %s by %s, offers %v", kind, path, mode, home, d.Behavior, d.Step, d.Suggested)
					}
				}
			}
		}
	}
	if d := windowsDecision(t, Write, Config{}, permission.ModeDefault, "src/k.txt", contentRule("allow", "src/**")); d.Behavior != message.BehaviorAllow {
		t.Errorf("a plain name in a folder of Windows: %s by %s", d.Behavior, d.Step)
	}
	for _, tc := range []struct{ path, content string }{{"/srv/app/evil.exe:k.txt", "/srv/app/*.txt"}, {"/srv/app/k.txt:x", "/srv/app/*x"}, {"/srv/app/k.txt.", "/srv/app/*."}} {
		if d := windowsDecision(t, Write, Config{}, permission.ModeDefault, tc.path, contentRule("allow", tc.content)); d.Behavior != message.BehaviorAsk {
			t.Errorf("write of %q under allow %s: %s by %s", tc.path, tc.content, d.Behavior, d.Step)
		}
	}
}

// Sensitive files are recognized in every spelling. A rule for a whole tool does not cover them.
func TestSensitiveFilesOfWindows(t *testing.T) {
	all := message.PermissionRule{ToolName: "T", Behavior: message.BehaviorAllow}
	for _, path := range []string{`C:\Users\dev\.ssh\config`, `repo\.git\hooks\post-commit`, `.GIT.\config`, ".env::$DATA", ".env.", "/srv/.ENV ", "GIT~1/config", `C:\repo\GIT~2\config`, `\\host\c$\k`} {
		if d := windowsDecision(t, Write, Config{}, permission.ModeDefault, path, all); d.Behavior != message.BehaviorAsk {
			t.Errorf("write of %q: %s by %s", path, d.Behavior, d.Step)
		}
	}
	for _, line := range []string{"touch .env.", "touch '.env::$DATA'", `touch '.git\config'`, `touch '..\x'`, `rm 'C:\work\k'`, `cp a 'C:\x'`, "touch GIT~1/config", "cp a //host/share/b", "touch ab:c"} {
		for _, home := range []string{"", `C:\Users\dev`} {
			b := compile(t, permission.Tool{Name: "T", Kind: mustNew(Bash, Config{Home: home})})
			input, _ := json.Marshal(map[string]string{"command": line})
			d := b.Decide(context.Background(), permission.Request{Tool: "T", Input: input, Mode: permission.ModeAcceptEdits, Cwd: "/work"})
			if want := line != "touch ab:c"; (d.Behavior == message.BehaviorAsk) != want {
				t.Errorf("%s with home %q: %s by %s", line, home, d.Behavior, d.Step)
			}
		}
	}
}

// If the home folder is a POSIX path, the text of a path is taken literally.
func TestPathsOfPOSIX(t *testing.T) {
	for _, path := range []string{`k\l.txt`, "C:/k.txt", "PROGRA~1.TXT", "nul", "a:b"} {
		for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits} {
			if d := windowsDecision(t, Read, Config{Home: "/home/dev"}, mode, path); d.Behavior != message.BehaviorAllow {
				t.Errorf("read of %q in %s: %s by %s", path, mode, d.Behavior, d.Step)
			}
		}
	}
	if d := windowsDecision(t, Read, Config{Home: "/home/dev"}, permission.ModeDefault, "SRC/a", contentRule("deny", "src/*")); d.Behavior != message.BehaviorAllow {
		t.Errorf("Linux is case-sensitive, but SRC matched src: %s", d.Behavior)
	}
	if d := windowsDecision(t, Read, Config{Home: "/Users/dev"}, permission.ModeDefault, "SRC/a", contentRule("deny", "src/*")); d.Behavior != message.BehaviorDeny {
		t.Errorf("macOS is case-insensitive, but SRC did not match src: %s", d.Behavior)
	}
}

// Lines of PowerShell and cmd.exe are not analysed: no content covers one, no rule is offered,
// and such a tool cannot be declared read-only.
func TestShellsOfWindows(t *testing.T) {
	for _, kind := range []string{PowerShell, Cmd} {
		tool := permission.Tool{Name: "T", Kind: mustNew(kind, Config{})}
		for _, b := range []message.Behavior{message.BehaviorAllow, message.BehaviorAsk, message.BehaviorDeny} {
			for _, content := range []string{"Get-ChildItem:*", "dir", "*", "git status:*"} {
				if _, err := permission.Compile(fromRules([]message.PermissionRule{contentRule(b, content)}), permission.Options{Tools: []permission.Tool{tool}}); err == nil {
					t.Errorf("%s: a rule with %s %q is accepted", kind, b, content)
				}
			}
		}
		for _, line := range []string{"Get-ChildItem", "dir", "ls", "echo x", "git status"} {
			input, _ := json.Marshal(map[string]string{"command": line})
			for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits} {
				d := compile(t, tool).Decide(context.Background(), permission.Request{Tool: "T", Input: input, Mode: mode, Cwd: "/work"})
				if d.Behavior != message.BehaviorAsk || len(d.Suggested) > 0 {
					t.Errorf("%s %q in %s: %s by %s, offers %v", kind, line, mode, d.Behavior, d.Step, d.Suggested)
				}
			}
		}
		tool.ReadOnly = true
		if _, err := permission.Compile(permission.Policy{}, permission.Options{Tools: []permission.Tool{tool}}); err == nil {
			t.Errorf("%s: a read-only tool is accepted", kind)
		}
	}
}
