package hook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/hook"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/strictjson"
)

func settingsOf(d dialect.Dialect) hook.Settings {
	return hook.Settings{Dialect: d, Program: "/opt/my tools/askance", URL: "http://127.0.0.1:8787", TokenFile: "/home/ann/agent's.token", Timeout: d.Timeout()}
}

// documents are settings files as people write them.
var documents = []string{
	"{ // mine\n  \"hooks\": {}}",
	"{//\n\"hooks\":{/* none yet */},\n}",
	"",
	"{}\n",
	"{} // mine",
	"{\n  \"model\": \"opus\",\n  \"permissions\": {\"allow\": [\"Read\"]}\n}\n",
	`{"hooks":{}}`,
	"{\n  // my settings\n  \"theme\": \"dark\", // at night\n  \"hooks\": {\n    /* before */\n    \"PreToolUse\": [\n      {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"lint, // not a comment\"}]}, // mine\n    ],\n    \"Stop\": [],\n  },\n}\n",
	"{\"hooks\": {\"BeforeTool\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"a\"}]}]}, \"a\\\"b\": [1, 2.0, true]}",
}

// TestInstall: the hooks are installed once, everything else stays unchanged byte for byte, and
// the hooks can be removed.
func TestInstall(t *testing.T) {
	for _, d := range dialect.Dialects() {
		for _, before := range documents {
			s := settingsOf(d)
			once, err := s.Install(before)
			if err != nil {
				t.Fatalf("%s\n%v", before, err)
			}
			s.Timeout += time.Minute
			twice, err := s.Install(once)
			if err != nil {
				t.Fatalf("%s\n%v", once, err)
			}
			events := hook.Events(d)
			if n := strings.Count(twice, "hook "+string(d)); n != len(events) {
				t.Errorf("%d hooks, want %d:\n%s", n, len(events), twice)
			}
			for line := range strings.Lines(before) {
				for word := range strings.FieldsSeq(line) {
					if word = strings.Trim(word, "{}[],"); !strings.Contains(twice, word) {
						t.Errorf("%s lost %q:\n%s", d, word, twice)
					}
				}
			}
			after, err := hook.Uninstall(d, twice)
			if err != nil {
				t.Fatalf("%v:\n%s", err, twice)
			}
			if strings.Contains(after, "askance") || strings.Contains(before, "lint") && !strings.Contains(after, "lint, // not a comment") {
				t.Errorf("afterwards:\n%s", after)
			}
			if !strings.Contains(before, "//") && strings.Join(strings.Fields(after), "") != strings.Join(strings.Fields(strings.NewReplacer(`"hooks":{}`, "").Replace(withObject(before))), "") {
				t.Errorf("%s\nbefore: %s\nafter:  %s", d, before, after)
			}
		}
	}
}

func withObject(text string) string {
	if text == "" {
		return "{}"
	}
	return text
}

// TestInstalled checks what an agent reads.
func TestInstalled(t *testing.T) {
	command := `'/opt/my tools/askance' hook %s --url http://127.0.0.1:8787 --token-file '/home/ann/agent'\''s.token' --timeout `
	for d, want := range map[dialect.Dialect]struct {
		event, matcher, onFailure, timeout string
		limit                              int64
	}{
		dialect.ClaudeCode: {"PreToolUse", "*", "block", "10m0s", 600},
		dialect.Codex:      {"PermissionRequest", "", "", "10m0s", 600},
		dialect.Gemini:     {"BeforeTool", "*", "", "1m0s", 60_000},
	} {
		text, err := settingsOf(d).Install("")
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Hooks map[string][]struct {
				Matcher string `json:"matcher"`
				Hooks   []struct {
					Name, Type, Command string
					Timeout             int64  `json:"timeout"`
					OnFailure           string `json:"onFailure"`
				} `json:"hooks"`
			} `json:"hooks"`
		}
		text = strings.NewReplacer(`"type"`, `"Type"`, `"command":`, `"Command":`, `"name"`, `"Name"`).Replace(text)
		if err := strictjson.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		g := got.Hooks[want.event][0]
		h := g.Hooks[0]
		if h.Type != "command" || h.Command != strings.Replace(command, "%s", string(d), 1)+want.timeout || g.Matcher != want.matcher || h.OnFailure != want.onFailure || h.Timeout != want.limit {
			t.Errorf("%s: %+v", d, g)
		}
	}
	s := settingsOf(dialect.ClaudeCode)
	s.HTTP = true
	text, err := s.Install("{}")
	if err != nil || !strings.Contains(text, `"url":"http://127.0.0.1:8787/v1/hooks/claude-code?hold_ms=595000"`) || !strings.Contains(text, `"Bearer $ASKANCE_TOKEN"`) {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := hook.Uninstall(dialect.ClaudeCode, text); err != nil || strings.TrimSpace(text) != "{\n}" && strings.TrimSpace(text) != "{}" {
		t.Errorf("%v\n%s", err, text)
	}
}

// A comment next to a hook of askance stays when the hook goes.
func TestUninstallKeepsComments(t *testing.T) {
	const ours = `{"type": "command", "command": "askance hook claude-code --url http://h"}`
	for _, text := range []string{
		`{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [ // why` + "\n" + ours + `]}]}}`,
		`{"hooks": {"PreToolUse": [{"matcher": "*", // why` + "\n" + `"hooks": [` + ours + `]}]}}`,
		`{"hooks": {"PreToolUse": [ // why` + "\n" + `{"matcher": "*", "hooks": [` + ours + `]}]}}`,
	} {
		after, err := hook.Uninstall(dialect.ClaudeCode, text)
		if err != nil || strings.Contains(after, "askance") || !strings.Contains(after, "// why\n") {
			t.Errorf("%s became %s, %v", text, after, err)
		}
		if _, err := settingsOf(dialect.ClaudeCode).Install(after); err != nil {
			t.Errorf("%s: %v", after, err)
		}
	}
}

// TestInstallRefuses: a file that cannot be read is not changed.
func TestInstallRefuses(t *testing.T) {
	for _, text := range []string{"[]", "{", `{"hooks": []}`, `{"hooks": {"PreToolUse": {}}}`, `{"a": 1 /* }`, `{"a": 1, "a": 2}`, "null", "{} /* }", `{"hooks": {,}}`, strings.Repeat("[", 1<<20)} {
		if out, err := settingsOf(dialect.ClaudeCode).Install(text); err == nil {
			t.Errorf("%.200s became\n%.200s", text, out)
		}
	}
}

func FuzzInstall(f *testing.F) {
	for _, text := range documents {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once, err := settingsOf(dialect.ClaudeCode).Install(text)
		if err != nil {
			return
		}
		twice, err := settingsOf(dialect.ClaudeCode).Install(once)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, once, err)
		}
		plain := strings.NewReplacer(",", "", " ", "", "\t", "", "\r", "", "\n", "") // a trailing comma goes
		if plain.Replace(once) != plain.Replace(twice) {
			t.Errorf("%q became %q and then %q", text, once, twice)
		}
	})
}

// An installed hook that does not block every call fails the check.
func TestCheckFindsGaps(t *testing.T) {
	for _, c := range []struct {
		d         dialect.Dialect
		old, with string
		want      string
	}{
		{dialect.ClaudeCode, "", "", ""},
		{dialect.Codex, "", "", ""},
		{dialect.Gemini, "", "", ""},
		{dialect.ClaudeCode, `"hooks": {`, `"disableAllHooks": true, "hooks": {`, "disableAllHooks is true"},
		{dialect.ClaudeCode, `"hooks": {`, `"disableAllHooks": "yes", "hooks": {`, "cannot be read"},
		{dialect.ClaudeCode, `"matcher":"*"`, `"matcher":"Bash"`, `the matcher "Bash"`},
		{dialect.Gemini, `"matcher":"*"`, `"matcher":"run_shell_command"`, `the matcher "run_shell_command"`},
		{dialect.ClaudeCode, `"type":"command"`, `"type":"command","if":"Bash(git *)"`, "condition"},
		{dialect.ClaudeCode, `"type":"command"`, `"type":"command","async":true`, "async"},
		{dialect.Codex, `"type":"command"`, `"type":"command","async":true`, "Codex skips it"},
		{dialect.Gemini, `"hooks": {`, `"hooksConfig": {"enabled": true, "disabled": ["other"]}, "hooks": {`, ""},
		{dialect.Gemini, `"hooks": {`, `"hooksConfig": {"enabled": false}, "hooks": {`, "hooksConfig.enabled is false"},
		{dialect.Gemini, `"hooks": {`, `"hooksConfig": {"disabled": ["askance"]}, "hooks": {`, "hooksConfig.disabled names the hook"},
		{dialect.Gemini, `"hooks": {`, `"hooksConfig": {"enabled": "no"}, "hooks": {`, "cannot be read"},
	} {
		s := settingsOf(c.d)
		s.Program = "/nowhere/askance"
		text, err := s.Install("{}")
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, f := range hook.Check(t.Context(), c.d, strings.Replace(text, c.old, c.with, 1)) {
			if !f.OK && !strings.Contains(f.Text, "the hook fails") && !strings.Contains(f.Text, "the hook does not block: exit code 127") {
				found = append(found, f.Text)
			}
		}
		if got := strings.Join(found, "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s with %s: %q, want %q", c.d, c.with, got, c.want)
		}
	}
}

// TestCheckOrder: a check lists its findings in the order of the settings, each time.
func TestCheckOrder(t *testing.T) {
	text, err := settingsOf(dialect.Codex).Install("{}")
	if err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, `"matcher":"","hooks":[{"type":"command"`, `"matcher":3,"hooks":[{"type":"command","async":"no"`, 1)
	for range 20 {
		var found []string
		for _, f := range hook.Check(t.Context(), dialect.Codex, text)[3:5] {
			found = append(found, f.Text)
		}
		if !strings.Contains(found[0], "matcher") || !strings.Contains(found[1], "async") {
			t.Fatalf("found %q, want the matcher before the hook", found)
		}
	}
}
