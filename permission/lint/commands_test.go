package lint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/permission/lint"
)

// someCalls guards a loop over the commands of a line.
const someCalls = `cmd.static && size(cmd.calls) > 0 && `

// Conditions of allow rules about what a command line runs are checked in the same way as
// contents.
func TestConditionsOnCommands(t *testing.T) {
	kind, err := agentscope.New(agentscope.Bash, agentscope.Config{})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := permission.CompileSchema([]byte(`{"required": ["command"], "properties": {"command": {"type": "string", "maxLength": 1000}}}`))
	if err != nil {
		t.Fatal(err)
	}
	opts := lint.Options{Options: permission.Options{Tools: []permission.Tool{{Name: "Bash", Kind: kind, Schema: schema}}}}
	for _, tc := range []struct {
		when     string
		behavior message.Behavior
		iKnow    bool
		want     []lint.Code
	}{
		{`cmd.static && cmd.calls.all(c, c.argv[0] == "python3" && c.options_admitted)`, message.BehaviorAllow, false, []lint.Code{lint.EmptyAll, lint.Interpreter}},
		{someCalls + `cmd.calls.all(c, "xargs" == c.argv[0] && c.options_admitted)`, message.BehaviorAllow, false, []lint.Code{lint.Interpreter}},
		{someCalls + `cmd.calls.all(c, c.argv[0] in ["git", "sh", "env"] && c.options_admitted)`, message.BehaviorAllow, false, []lint.Code{lint.Interpreter, lint.Interpreter}},
		{someCalls + `cmd.calls.all(c, c.argv[0] == "git" && c.options_admitted)`, message.BehaviorAllow, false, nil},
		{someCalls + `cmd.calls.all(c, c.argv[0] == "sh")`, message.BehaviorAllow, true, nil},
		{`cmd.calls.exists(c, c.argv[0] == "sh")`, message.BehaviorDeny, false, []lint.Code{lint.Boundary}},
		{`cmd.calls.exists(c, c.argv[0] in ["rm", "dd"])`, message.BehaviorAsk, false, []lint.Code{lint.Boundary, lint.Boundary}},
		{`cmd.calls.exists(c, size(c.argv) > 50)`, message.BehaviorDeny, false, nil},
		// Options with effects.
		{someCalls + `cmd.calls.all(c, c.argv[0] == "git")`, message.BehaviorAllow, false, []lint.Code{lint.OpenOptions}},
		{someCalls + `cmd.calls.all(c, c.argv[0] == "go" && c.argv[1] in ["test", "vet"])`, message.BehaviorAllow, false, []lint.Code{lint.OpenOptions}},
		{someCalls + `cmd.calls.all(c, c.argv[0] == "ls" || c.options_admitted)`, message.BehaviorAllow, false, []lint.Code{lint.OpenOptions}},
		{someCalls + `cmd.calls.all(c, c.argv == ["make", "test"] || c.argv[0] == "git" && c.options_admitted)`, message.BehaviorAllow, false, nil},
		{someCalls + `cmd.calls.all(c, c.argv in [["make"], ["ls", "-l"]])`, message.BehaviorAllow, false, nil},
		{someCalls + `cmd.calls.exists(c, c.argv == ["ls"])`, message.BehaviorAllow, false, []lint.Code{lint.OpenOptions}},
		{someCalls + `cmd.calls[0].argv == ["ls"]`, message.BehaviorAllow, false, []lint.Code{lint.OpenOptions}},
		{someCalls + `!cmd.calls.all(c, c.options_admitted)`, message.BehaviorAllow, false, []lint.Code{lint.OpenOptions}},
		{`cmd.static && cmd.calls.map(c, c.argv) == [["ls"]]`, message.BehaviorAllow, false, nil},
		{someCalls + `cmd.calls.all(c, c.argv[0] == "git")`, message.BehaviorDeny, true, nil},
		{`!cmd.static || !cmd.calls.all(c, c.argv[0] == "git")`, message.BehaviorDeny, false, nil},
		// Redirections and variables.
		{`size(cmd.calls) > 0 && cmd.calls.all(c, c.argv == ["ls"])`, message.BehaviorAllow, false, []lint.Code{lint.NotStatic}},
		{`size(cmd.calls) > 0 && (cmd.static || size(cmd.reasons) == 1) && cmd.calls.all(c, c.argv == ["ls"])`, message.BehaviorAllow, false, []lint.Code{lint.NotStatic}},
		// The line as text.
		{`args.command.split(" ")[0] == "git"`, message.BehaviorAllow, false, []lint.Code{lint.Boundary}},
		{`args.command.substring(0, 4) == "git "`, message.BehaviorAllow, false, []lint.Code{lint.Boundary}},
		{`cmd.static && args.command.startsWith("git ")`, message.BehaviorAllow, false, []lint.Code{lint.Boundary}},
		{`args.command.lowerAscii().startsWith("git ")`, message.BehaviorAllow, false, []lint.Code{lint.Boundary}},
		{`args.command.split(" ")[0] == "git"`, message.BehaviorAllow, true, nil},
		{`args.command.split(" ")[0] == "git"`, message.BehaviorDeny, false, nil},
		{`args.command in ["git status", "ls"]`, message.BehaviorAllow, false, nil},
	} {
		file := "version: 1\nname: x\nrules:\n  - name: r\n    tool: Bash\n    behavior: " + string(tc.behavior) + "\n    when: '" + tc.when + "'\n"
		if tc.iKnow {
			file += "    i_know: true\n"
		}
		var got []lint.Code
		for _, f := range lint.Run([]permission.File{{Name: "x.yaml", Data: []byte(file)}}, opts).Findings {
			got = append(got, f.Code)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s in a rule with behavior %s: %v, want %v", tc.when, tc.behavior, got, tc.want)
		}
	}
}

// Without a list of tools, lint can only report that the name is unknown.
func TestNoListOfTools(t *testing.T) {
	file := permission.File{Name: "x.yaml", Data: []byte("version: 1\nname: x\nrules: [{name: r, tool: anything, behavior: deny}]\n")}
	r := lint.Run([]permission.File{file}, lint.Options{})
	if r.Errors != 0 || len(r.Findings) != 1 || r.Findings[0].Code != lint.UnknownTool || r.Findings[0].Level != lint.Warning {
		t.Errorf("findings %v", r.Findings)
	}
}

// A tool that takes a command line but has no kind is reported once, where a rule names it.
func TestShellWithoutKind(t *testing.T) {
	for _, tc := range []struct {
		name, schema string
		want         bool
	}{
		{"Bash", "", true},
		{"run_command", "", true},
		{"ops", `{"properties": {"cmd": {"type": "string"}}}`, true},
		{"ops", `{"properties": {"command": {"type": "string", "enum": ["start", "stop"]}}}`, false},
		{"ops", `{"properties": {"note": {"type": "string"}}}`, false},
	} {
		tool := permission.Tool{Name: tc.name}
		if tc.schema != "" {
			s, err := permission.CompileSchema([]byte(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			tool.Schema = s
		}
		for _, rules := range []string{"[{name: a, tool: " + tc.name + ", behavior: deny}, {name: b, tool: " + tc.name + ", behavior: ask}]", "[]"} {
			file := permission.File{Name: "x.yaml", Data: []byte("version: 1\nname: x\nrules: " + rules + "\n")}
			found := 0
			for _, f := range lint.Run([]permission.File{file}, lint.Options{Options: permission.Options{Tools: []permission.Tool{tool}}}).Findings {
				if f.Code == lint.NoKind {
					found++
				}
			}
			if want := map[bool]int{true: 1}[tc.want && rules != "[]"]; found != want {
				t.Errorf("%s with %s and rules %s: %d findings, want %d", tc.name, tc.schema, rules, found, want)
			}
		}
	}
}

// Deny and ask rules that seem to be about the files in a folder are reported, and those about
// files without an extension are not.
func TestFolderContents(t *testing.T) {
	for _, tc := range []struct {
		want     lint.Level
		contents string
	}{
		{lint.Error, "/opt/ secret/ ~/.ssh/ /"},
		{lint.Warning, "/etc secret ~ . .. ../data /home/dev/.ssh .aws ~/.gnupg ~/.kube ~/.docker .git ~/.config config ~/.config/gh"},
		{"", "/etc/** secret/* *.key .env ~/.netrc ~/.npmrc src/.envrc a/b.txt Makefile src/Dockerfile LICENSE /etc/passwd /etc/shadow /etc/hosts /etc/sudoers " +
			"~/.ssh/id_rsa ~/.ssh/id_ed25519 ~/.ssh/authorized_keys ~/.ssh/known_hosts ~/.aws/credentials ~/.kube/config"},
	} {
		for content := range strings.FieldsSeq(tc.contents) {
			for _, tool := range []string{"'*'", "Read", "Bash, Read"} {
				file := "version: 1\nname: x\nrules: [{name: r, tool: [" + tool + "], behavior: deny, rule_content: '" + content + "'}]\n"
				var got lint.Level
				for _, f := range lint.Run([]permission.File{{Name: "x.yaml", Data: []byte(file)}}, lint.Options{}).Findings {
					if f.Code == lint.Folder {
						got = f.Level
					}
				}
				if got != tc.want {
					t.Errorf("tool %s, content %s: level %q, want %q", tool, content, got, tc.want)
				}
			}
		}
	}
}
