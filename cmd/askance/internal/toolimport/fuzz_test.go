package toolimport_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolimport"
	"github.com/askance-dev/askance/toolcall"
)

// FuzzRead imports any document. The result is a tools file with exactly the tools of the source,
// and no hint of the source permits anything.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`[{"type":"function","function":{"name":"ping","parameters":{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}}}]`,
		`{"tools":[{"name":"x","description":"a\u202eb \ud83d\udc69\u200d \udb40\udc41","inputSchema":{"type":"object","properties":{"\u202e\u200b":{"type":"string","enum":["\u202e"]}}}}]}`,
		`{"tools":[{"name":"x: y\n- name: z","description":"a # b","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"idempotentHint":true,"destructiveHint":false},"title":"\u202e"}]}`,
		`{"openapi":"3.0.0","paths":{"/a/{b}":{"get":{"parameters":[{"name":"b","in":"path","required":true,"schema":{"type":"string","nullable":true}}]},"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/S"}}}}}}},"components":{"schemas":{"S":{"$ref":"#/components/schemas/S"}}}}`,
		"openapi: 3.1.0\npaths:\n  /x:\n    put: {operationId: yes, responses: {}}\n",
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"","inputSchema":true}]}}`,
	} {
		f.Add([]byte(seed))
	}
	files, _ := filepath.Glob("../cli/testdata/import/*") // without them, the seeds above remain
	for _, path := range files {
		if b, err := os.ReadFile(path); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := toolimport.Read(data)
		if err != nil {
			return
		}
		names := map[string]string{}
		for _, d := range found.Tools {
			names[d.Name] = d.Hash
		}
		text, leftOut, err := found.Write(toolimport.Options{Source: "fuzz", Placement: toolcall.PlaceRemote, LeaveOut: true})
		if err != nil {
			return
		}
		tools, err := toolfile.Parse("fuzz", text)
		if err != nil || len(tools)+len(leftOut) != len(found.Tools) {
			t.Fatalf("%d tools and %d left out of %d, %v:\n%s", len(tools), len(leftOut), len(found.Tools), err, text)
		}
		for _, tool := range tools {
			hash, known := names[tool.Name]
			if !known || tool.Definition != hash || tool.ReadOnly || tool.Idempotent || len(tool.Command) > 0 || tool.Placement != toolcall.PlaceRemote {
				t.Errorf("the file declares %+v:\n%s", tool, text)
			}
		}
		if strings.ContainsAny(string(text), "\x1b\u202e\r") {
			t.Errorf("the file contains misleading characters: %q", text)
		}
	})
}
