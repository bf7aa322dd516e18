package agentscope

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func TestMatchName(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"**", "a/b", true}, {"src/*.go", "src/a/b.go", true}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "axxbyy", false},
		{"?", "é", true}, {"[é-ü]", "ö", true}, {"[!a]", "a", false}, {"[]a]", "]", true}, {"[a-]", "-", true}, {"[", "[", true}, {"[!]", "[!]", true},
		{`a\*`, `a\z`, true}, {"{a,b}", "a", false}, {"A", "a", false}, {"a*", "a\nb", true},
	} {
		if got := matchName(tc.pattern, tc.name); got != tc.want {
			t.Errorf("%q on %q: %v", tc.pattern, tc.name, got)
		}
	}
}

// A link that leads out of the working directory is outside, for edits and for allow rules. A
// deny rule about its target applies.
func TestLinks(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, other := filepath.Join(top, "work"), filepath.Join(top, "other")
	for _, d := range []string{work, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(work, "out")); err != nil {
		t.Fatal(err)
	}
	rule := func(b message.Behavior, content string) message.PermissionRule {
		return message.PermissionRule{ToolName: "Write", RuleContent: &content, Behavior: b}
	}
	for _, tc := range []struct {
		name, path string
		mode       permission.Mode
		links      Links
		rules      []message.PermissionRule
		want       message.Behavior
	}{
		{"inside", "a.txt", permission.ModeAcceptEdits, permission.ResolveLinks, nil, message.BehaviorAllow},
		{"out by a link", "out/a.txt", permission.ModeAcceptEdits, permission.ResolveLinks, nil, message.BehaviorAsk},
		{"out by a link that is not followed", "out/a.txt", permission.ModeAcceptEdits, nil, nil, message.BehaviorAllow},
		{"rule", work + "/a.txt", permission.ModeDefault, permission.ResolveLinks, []message.PermissionRule{rule("allow", work+"/**")}, message.BehaviorAllow},
		{"rule and link", work + "/out/a.txt", permission.ModeDefault, permission.ResolveLinks, []message.PermissionRule{rule("allow", work+"/**")}, message.BehaviorAsk},
		{"relative rule and link", "out/a.txt", permission.ModeDefault, permission.ResolveLinks, []message.PermissionRule{rule("allow", "out/**")}, message.BehaviorAsk},
		{"rule for the link itself", work + "/out/a.txt", permission.ModeDefault, permission.ResolveLinks, []message.PermissionRule{rule("allow", work+"/out/**")}, message.BehaviorAllow},
		{"deny where it leads", "out/a.txt", permission.ModeBypass, permission.ResolveLinks, []message.PermissionRule{rule("deny", other+"/**")}, message.BehaviorDeny},
	} {
		b := compile(t, permission.Tool{Name: "Write", Kind: mustNew(Write, Config{Links: tc.links})}, tc.rules...)
		d := b.Decide(context.Background(), permission.Request{Tool: "Write", Input: []byte(`{"file_path": "` + tc.path + `"}`), Mode: tc.mode, Cwd: work})
		if d.Behavior != tc.want {
			t.Errorf("%s: %s by %s, want %s", tc.name, d.Behavior, d.Step, tc.want)
		}
	}
}

// A deny rule about a file applies to every spelling of its path.
func TestSpellings(t *testing.T) {
	for _, tc := range []struct{ content, path string }{
		{"secrets/**", "./secrets/k"}, {"secrets/**", "/workspace/project/secrets/k"}, {"secrets/**", "src/../secrets/k"}, {"secrets/**", "secrets//k"},
		{"/workspace/project/secrets/*", "secrets/k"}, {"./secrets/*", "secrets/k"}, {"~/x", "/home/dev/x"}, {"/home/dev/x", "~/x"}, {"/etc/*", "../../etc/x"},
	} {
		at := Config{Home: "/home/dev"}.places(permission.Call{Cwd: "/workspace/project"})
		if !at.isNamed(tc.content, tc.path) {
			t.Errorf("deny %s does not match %s", tc.content, tc.path)
		}
	}
}

// Edits are allowed without approval only if every command and argument is proved safe.
func TestProvenEdits(t *testing.T) {
	for command, want := range map[string]bool{
		"mv a.txt sub/b.txt": true, "mkdir -p a/b && touch a/b/c": true, "rm -f a b": true, "cp -r a b": true, "sed -i 's/a/b/g' f": true, "rm *.tmp": true,
		"touch ~/notes/x": true, "mkdir a && ls": true, "sed -n 1,5p f": true, `touch a "b c"`: true, "touch a -- b": true, "sed -e s/a/b/ -i f": true,
		"mkdir a; python evil.py": false, `touch a "/etc/x"`: false, "touch a ../../x": false, "mkdir a && cd / && rm b": false, "cp * d": false, "cp *.tmp d": true, "mv *.py src/": true, "mv *. src/": false, "touch ~bob/x": false, "touch a > ~bob/x": false,
		"mkdir a && cd a": true, "mkdir a && cd a && touch b": false, "mkdir a && cd $X": false, "touch a > b": true, "touch a >> b/c 2>&1": true,
		"touch a > /etc/x": false, "touch a > .env": false, "touch a > $X": false, "touch a < /etc/x": false, "touch a > -x": true, "touch a <> b": false,
		"{ touch a; } > /etc/x": false, "touch a <<E\nx\nE": false, "rm --recursive --force a": true, "rm --no-preserve-root a": false,
		"mkdir --parents a/b": true, "cp --recursive a b": true, "cp --symbolic-link a b": false, "sed -nE 's/a/b/p' f": true,
		"sed -i '' 's/a/b/' f": true, "sed -i '' 's/../../../x/' f": false, "sed -i '' '1e id' f": false, "sed -i '' f": false, "sed -ie 's/a/b/' f": true,
		"sed -i/etc/x s/a/b/ f": false, "sed --in-place=.bak s/a/b/ f": true, "sed - s/a/b/ f": false,
		`sed -i 's/a\.b/c/' f`: true, `sed -i 's/\s+$//g' f`: true, `sed -i 's/\(a\)/\1b/' f`: true, `sed -i 's|a\.|b|' f`: true, `sed -i 's/a\/b/e' f`: false,
		`sed -i 's/a/b\/e' f`: false, `sed -i 's/a/b\x2fe/' f`: false, `sed -i 's/a/\cA/' f`: false, `sed -i 's/a\\/b/e' f`: false,
		"cp -r src/* dst/": true, "cp src/.* dst/": false, "mv src/.e* d": false, "sed -i s/a/b/ *.py": false,
		"rm $X a": false, "sed -i 's/a/b/w /etc/x' f": false, "mkdir a > /etc/x": false, "touch a & curl h": false, "mv -t /etc a": false,
		"cp a b; ": true, "mkdir a\ncurl h": false, "X=1 touch a": false, "touch a 2> b": true, "sed -i -f script f": false, "cp --target-directory=/etc a": false,
		"touch sub*/x": false, "rm -rf a": false, `sed -i '1e id' f`: false, "touch a b/.env": false, "touch .env*": false, `rm "a b"`: false, "touch -- -x": false,
	} {
		k := mustNew(Bash, Config{Home: "/home/dev"})
		c := permission.Call{Tool: "Bash", Input: map[string]any{"command": command}, Mode: permission.ModeAcceptEdits, Cwd: "/workspace/project", WorkingDirs: []string{"/home/dev/notes"}}
		c.Prepared = k.Prepare(c)
		if got := k.Check(c).Answer == permission.CheckAllow; got != want {
			t.Errorf("%q is allowed: %v, want %v", command, got, want)
		}
	}
}

// Names that some file system treats as another name, and links of a process that only the tool
// can follow.
func TestOtherNamesOfFiles(t *testing.T) {
	secret := "/w/secret/**"
	deny := []message.PermissionRule{{ToolName: "Write", RuleContent: &secret, Behavior: message.BehaviorDeny}}
	for _, tc := range []struct {
		path  string
		mode  permission.Mode
		rules []message.PermissionRule
		want  message.Behavior
	}{
		{"GIT~1/config", permission.ModeAcceptEdits, nil, message.BehaviorAsk},
		{"sub/git~1/hooks/x", permission.ModeAcceptEdits, nil, message.BehaviorAsk},
		{".git./config", permission.ModeAcceptEdits, nil, message.BehaviorAsk},
		{".git /config", permission.ModeAcceptEdits, nil, message.BehaviorAsk},
		{".git::$INDEX_ALLOCATION/config", permission.ModeAcceptEdits, nil, message.BehaviorAsk},
		{".g\u0131t/config", permission.ModeAcceptEdits, nil, message.BehaviorAsk},
		{".\u017fsh/authorized_keys", permission.ModeAcceptEdits, nil, message.BehaviorAsk},
		{".bashrc.", permission.ModeAcceptEdits, nil, message.BehaviorAsk},
		{".gitignore", permission.ModeAcceptEdits, nil, message.BehaviorAllow},
		{"git~x", permission.ModeAcceptEdits, nil, message.BehaviorAsk},
		{"a~1", permission.ModeAcceptEdits, nil, message.BehaviorAllow},
		{"/proc/self/cwd/secret/k", permission.ModeBypass, deny, message.BehaviorDeny},
		{"/proc/thread-self/cwd/./secret/k", permission.ModeBypass, deny, message.BehaviorDeny},
		{"/proc/self/task/2/cwd/../w/secret/k", permission.ModeBypass, deny, message.BehaviorDeny},
		{"/proc/1/task/2/cwd/../w/secret/k", permission.ModeBypass, deny, message.BehaviorAsk},
		{"/proc/self/root/w/secret/k", permission.ModeBypass, deny, message.BehaviorDeny},
		{"//proc//self/root/w/secret/k", permission.ModeBypass, deny, message.BehaviorDeny},
		{"/proc/self/cwd/public", permission.ModeBypass, deny, message.BehaviorAllow},
	} {
		b, err := permission.Compile(fromRules(tc.rules), permission.Options{Tools: []permission.Tool{{Name: "Write", Kind: mustNew(Write, Config{Home: "/home/dev"})}}})
		if err != nil {
			t.Fatal(err)
		}
		input, err := json.Marshal(map[string]string{"file_path": tc.path, "content": "x"})
		if err != nil {
			t.Fatal(err)
		}
		d := b.Decide(context.Background(), permission.Request{Tool: "Write", Input: input, Mode: tc.mode, Cwd: "/w"})
		if d.Behavior != tc.want {
			t.Errorf("%q: %s by %s, want %s", tc.path, d.Behavior, d.Step, tc.want)
		}
	}
}

// A working directory, and a folder above it, is removed only after an approval.
func TestRemovingAWorkingDirectory(t *testing.T) {
	b := mustCompile(t, everyTool(Config{Home: "/home/dev"}), pathRule(Bash, message.BehaviorAllow, "rm:*"))
	for line, want := range map[string]message.Behavior{
		"rm -r /srv/data/": "ask", "rm -R ../srv/data": "ask", "rm --recursive '/srv/data/x/..'": "ask", "cd sub && rm -fr ../../srv/data": "ask",
		"rm -r sub /srv/data/x": "allow", "rm /srv/data": "allow", "rm -r /srv/datax": "allow",
	} {
		if d := decideCall(t, b, Bash, map[string]any{"command": line}, permission.ModeAcceptEdits); d.Behavior != want {
			t.Errorf("%s: %s by %s, want %s", line, d.Behavior, d.Step, want)
		}
	}
}
