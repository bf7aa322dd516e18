package toolfile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/examples/incident"
	"github.com/askance-dev/askance/toolcall"
)

func TestParse(t *testing.T) {
	tools, err := toolfile.Parse("t.yaml", []byte(`
version: 1
tools:
  - name: refund
    placement: remote
    idempotent: true
    lease: 2s
    max_attempts: 5
    input_schema:
      type: object
      properties: {n: {type: integer, maximum: 5}}
  - name: uptime
    command: [uptime, -p]
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(tools) != 2 {
		t.Fatalf("%d tools, want 2", len(tools))
	}
	r := tools[0]
	if r.Name != "refund" || r.Placement != toolcall.PlaceRemote || !r.Idempotent || r.Lease != 2*time.Second || r.MaxAttempts != 5 {
		t.Errorf("refund = %+v", r)
	}
	if r.Schema.Validate([]byte(`{"n":5}`)) != nil || r.Schema.Validate([]byte(`{"n":6}`)) == nil {
		t.Error("the schema does not limit n to 5")
	}
	if u := tools[1]; u.Placement != toolcall.PlaceLocal || strings.Join(u.Command, " ") != "uptime -p" {
		t.Errorf("uptime = %+v", u)
	}
}

func TestParseKinds(t *testing.T) {
	tools, err := toolfile.Parse("t.yaml", []byte("version: 1\ntools: [{name: Bash, kind: bash, home: /home/dev}, {name: Old, kind: bash, placement: remote}]"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := tools[0].Kind.Name(), tools[1].Kind.Name(); !strings.Contains(a, "bash home=/home/dev links") || !strings.HasSuffix(b, "bash") {
		t.Errorf("kinds %q and %q", a, b)
	}
}

func TestParseFaults(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "write version: 1"},
		{"other version", "version: 2\ntools: []", "version is 2"},
		{"misspelled key", "version: 1\ntools:\n  - name: a\n    idempotant: true", `unknown field "idempotant"`},
		{"key twice", "version: 1\ntools:\n  - name: a\n    name: b", `"name" already defined`},
		{"no name", "version: 1\ntools:\n  - placement: local", "tools[0] has no name"},
		{"same name", "version: 1\ntools:\n  - name: a\n  - name: a", "tool a: is declared twice"},
		{"placement", "version: 1\ntools:\n  - name: a\n    placement: moon", "use local, remote or external"},
		{"command of a remote tool", "version: 1\ntools:\n  - name: a\n    placement: remote\n    command: [x]", "askance worker --tool a -- x"},
		{"summary", "version: 1\ntools:\n  - name: a\n    summary: Refund {amount}\n    input_schema: {properties: {cents: {type: integer}}}", "t.yaml:4:14: tool a: summary: {amount}: input_schema declares no argument amount; use one of cents"},
		{"schema", "version: 1\ntools:\n  - name: a\n    input_schema: {type: 7}", "input_schema"},
		{"lease", "version: 1\ntools:\n  - name: a\n    lease: 499ms", "the lease 499ms is too short for heartbeats; use 500ms or more"},
		{"duration", "version: 1\ntools:\n  - name: a\n    lease: soon", `lease: "soon" is not a time`},
		{"negative", "version: 1\ntools:\n  - name: a\n    backoff: -1s", "backoff: \"-1s\" is not a time"},
		{"kind", "version: 1\ntools:\n  - name: a\n    kind: bsh", `unknown kind of tool "bsh", use one of bash`},
		{"read-only PowerShell", "version: 1\ntools:\n  - name: a\n    kind: powershell\n    read_only: true", "read_only: askance cannot analyse"},
		{"read-only cmd", "version: 1\ntools:\n  - name: a\n    kind: cmd\n    read_only: true", "read_only: askance cannot analyse"},
		{"PowerShell as bash", "version: 1\ntools:\n  - name: PowerShell\n    kind: bash", "kind: bash reads lines as a POSIX shell does"},
		{"pwsh.exe as bash", "version: 1\ntools:\n  - name: pwsh.exe\n    kind: bash", "use powershell or cmd"},
		{"cmd as bash", "version: 1\ntools:\n  - name: cmd\n    kind: bash", "use powershell or cmd"},
		{"compat", "version: 1\ntools:\n  - name: a\n    kind: bash\n    compat: strict", `unknown field "compat"`},
		{"what to write for compat", "version: 1\ntools:\n  - name: a\n    kind: bash\n    compat: strict", "remove the key"},
		{"argument", "version: 1\ntools:\n  - name: a\n    kind: read\n    input_schema: {properties: {path: {type: string}}}", "t.yaml:4:11: tool a: kind: the kind reads the path from the argument file_path, which input_schema does not declare; write argument: path"},
		{"argument without kind", "version: 1\ntools:\n  - name: a\n    argument: path", "only for tools with a kind"},
		{"argument of another kind", "version: 1\ntools:\n  - name: a\n    kind: mcp\n    argument: path", "mcp reads no argument"},
		{"home without kind", "version: 1\ntools:\n  - name: a\n    home: /", "only for tools with a kind"},
		{"no YAML", "version: [", "t.yaml"},
		{"too long", strings.Repeat("# padding\n", textfile.MaxBytes/10+1), "longer than 1 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := toolfile.Parse("t.yaml", []byte(tc.text))
			var fe *textfile.Error
			if !errors.As(err, &fe) || fe.File != "t.yaml" {
				t.Fatalf("Parse = %v, want a *textfile.Error of t.yaml", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse = %v\nwant it to contain %q", err, tc.want)
			}
		})
	}
}

// TestFaultsSayWhereAndHow: an error has its position, in the form that editors open, and says
// how to correct the file.
func TestFaultsSayWhereAndHow(t *testing.T) {
	const head = "version: 1\ntools:\n  - name: a\n"
	for _, tc := range []struct{ name, text, want string }{
		{"another format's schema", head + "    inputSchema: {}", `t.yaml:4:5: unknown field "inputSchema" (did you mean input_schema?)`},
		{"annotations", head + "    annotations: {}", "did you mean read_only, destructive"},
		{"misspelled key", head + "    placment: remote", "did you mean placement?"},
		{"unknown key", head + "    colour: red", "t.yaml:4:5: unknown field \"colour\" (the keys of a tool are name, description"},
		{"rule file", "version: 1\nrules: []", "t.yaml:2:1: unknown field \"rules\" (this looks like a rule file"},
		{"truth", head + "    read_only: yes", "t.yaml:4:16: read_only: must be true or false"},
		{"list", head + "    command: uptime -p", "t.yaml:4:14: command: is text, want a list"},
		{"tab", "version: 1\ntools:\n\t- name: a", "t.yaml:3:1: found character '\t' that cannot start any token (indent with spaces"},
		{"kind", head + "    kind: shell", "t.yaml:4:11: tool a: kind: unknown kind"},
		{"placement", head + "    placement: Remote", "t.yaml:4:16: tool a: placement is"},
		{"twice", head + "  - name: a", "t.yaml:4:11: tool a: is declared twice"},
		{"type of a property", head + "    input_schema:\n      properties:\n        n: {type: int}", "t.yaml:6:19: tool a: input_schema: compile schema: invalid JSON Schema: it does not match the metaschema: at /properties/n/type: "},
		{"misspelled keyword of a schema", head + "    input_schema:\n      properties:\n        n: {maxLenght: 5}", "t.yaml:6:24: tool a: input_schema: compile schema: invalid JSON Schema: at /properties/n/maxLenght: is not a keyword of JSON Schema and checks nothing (did you mean maxLength?"},
		{"not a list", "version: 1\ntools: {a: {}}", "t.yaml:2:"},
		{"list at the top", "- name: a", "t.yaml:1:1: is a list, want keys and values"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := toolfile.Parse("t.yaml", []byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Parse = %v\nwant it to contain %q", err, tc.want)
			}
		})
	}
}

func TestIncidentTools(t *testing.T) {
	data, err := incident.Files.ReadFile("tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if tools, err := toolfile.Parse("tools.yaml", data); err != nil || len(tools) != 4 {
		t.Fatalf("Parse = %d tools, %v", len(tools), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("version: 1\ntools: [{name: a, lease: 1s}]"))
	f.Add([]byte("version: 1\ntools: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tools, err := toolfile.Parse("t.yaml", data)
		if err != nil && tools != nil {
			t.Fatalf("tools and an error: %v", err)
		}
		for _, tool := range tools {
			if tool.Name == "" {
				t.Fatal("a tool without a name")
			}
		}
	})
}
