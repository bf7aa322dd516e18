package cli_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
)

// TestToolsImport compares the complete output of the command and loads the file that it writes.
func TestToolsImport(t *testing.T) {
	folderOf(t, "import")
	for _, tc := range []struct {
		golden string
		args   []string
		tools  int
	}{
		{"openai", []string{"openai.json"}, 3},
		{"mcp", []string{"mcp.json", "--server", "files"}, 3},
		{"mcp-trusted", []string{"mcp.json", "--trust-hints", "--placement", "local"}, 3},
		{"openapi", []string{"openapi.yaml", "--leave-out"}, 3},
		{"leave-out", []string{"bad.json", "--leave-out"}, 1},
		{"only", []string{"openai.json", "--only", "ping"}, 1},
		{"json", []string{"openai.json", "--only", "ping", "--json"}, 1},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			args := append([]string{"tools", "import"}, tc.args...)
			r := run(t, args...)
			if r.code != cli.ExitOK {
				t.Fatalf("exit %d: %s", r.code, r.err)
			}
			golden(t, "tools-import-"+tc.golden, "$ askance "+strings.Join(args, " ")+"\n"+r.out+r.err)
			ok(t, append(args, "--output", "written.yaml")...)
			tools, err := toolfile.Load("written.yaml")
			if err != nil || len(tools) != tc.tools {
				t.Fatalf("the written file has %d tools, %v; want %d", len(tools), err, tc.tools)
			}
			for _, tool := range tools {
				if trusted := tc.golden == "mcp-trusted"; (tool.ReadOnly || tool.Idempotent) && !trusted {
					t.Errorf("a hint of the source gives %s more permissions: %+v", tool.Name, tool)
				}
			}
		})
	}
}

// The hint that a tool is read-only does not allow its calls.
func TestToolsImportAllowsNothing(t *testing.T) {
	folderOf(t, "import")
	write(t, "rules.yaml", "version: 1\nname: none\nrules: []\n")
	for _, tc := range []struct {
		flags []string
		want  string
	}{{nil, "ask"}, {[]string{"--trust-hints"}, "allow"}} {
		ok(t, append([]string{"tools", "import", "mcp.json", "-o", "tools.yaml"}, tc.flags...)...)
		out := ok(t, "policy", "explain", "rules.yaml", "--tools", "tools.yaml", "--tool", "read_file", "--args", `{"path":"/a"}`, "--json")
		if !strings.Contains(out, `"decision": "`+tc.want+`"`) {
			t.Errorf("with %v the call is not decided %s: %s", tc.flags, tc.want, out)
		}
	}
}

func TestToolsImportReadsStandardInput(t *testing.T) {
	cleanEnvironment(t)
	r := runWith(t, `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`, "tools", "import", "-")
	if r.code != cli.ExitOK || !strings.Contains(r.out, "from standard input") || !strings.Contains(r.out, "- name: a\n") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
}

func TestToolsImportRefuses(t *testing.T) {
	folderOf(t, "import")
	for _, tc := range []struct {
		code       int
		says, args string
	}{
		{cli.ExitUsage, "2 of 3 tools cannot be imported: bad (tools[1]): compile schema", "bad.json"},
		{cli.ExitUsage, "1 of 4 tools cannot be imported: upload (PUT /refunds): its body is not JSON", "openapi.yaml"},
		{cli.ExitUsage, "convert it to OpenAPI 3", "swagger.json"},
		{cli.ExitUsage, "has no tools", "other.json"},
		{cli.ExitUsage, "another page", "page.json"},
		{cli.ExitUsage, "tools[0]: is not a tool", "notool.json"},
		{cli.ExitUsage, `two tools with the name "a"`, "twice.json"},
		{cli.ExitUsage, "there is no tool to import", "empty.json"},
		{cli.ExitUsage, "readOnlyHint: ", "hint.json"},
		{cli.ExitUsage, `"name"`, "dup.json"},
		{cli.ExitUsage, `there is no tool "nothing"`, "openai.json --only nothing"},
		{cli.ExitNotFound, "no such file", "missing.json"},
		{cli.ExitUsage, "expected one source", ""},
		{cli.ExitUsage, "expected one source", "openai.json --url http://127.0.0.1:1/"},
		{cli.ExitUsage, "expected one source", "openai.json -- true"},
		{cli.ExitUsage, "--token-file is only for --url", "openai.json --token-file x"},
		{cli.ExitUsage, "--placement", "openai.json --placement here"},
		{cli.ExitUsage, "not an http or https URL", "--url ftp://x/"},
		{cli.ExitError, "list the tools of false", "-- false"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			fails(t, tc.code, tc.says, append([]string{"tools", "import"}, strings.Fields(tc.args)...)...)
		})
	}
}
