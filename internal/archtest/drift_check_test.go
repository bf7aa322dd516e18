package archtest_test

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestDrift(t *testing.T) {
	module := fstest.MapFS{
		"message/testdata/agentscope/a.jsonl": {Data: []byte("{}\n")},
		"message/testdata/agentscope/b.jsonl": {Data: []byte("{}")},
		"message/testdata/agentscope/c.jsonl": {Data: []byte("{}\n")},
	}
	origin := fstest.MapFS{
		"agentscope/a.jsonl": {Data: []byte("{}\n")},
		"agentscope/b.jsonl": {Data: []byte("{}\n")},
	}
	for file, want := range map[string]string{
		"message/testdata/agentscope/a.jsonl": "",
		"message/testdata/agentscope/b.jsonl": "differs",
		"message/testdata/agentscope/c.jsonl": "no original",
		"message/testdata/agentscope/d.jsonl": "no original",
	} {
		if got := drift(module, origin, file); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("drift(%s) = %q, want %q", file, got, want)
		}
	}
}

func TestCopiedVector(t *testing.T) {
	for file, want := range map[string]bool{
		"message/testdata/agentscope/a.jsonl":   true,
		"gateway/testdata/ag-ui/README.md":      true,
		"message/testdata/urls/urls.jsonl":      false,
		"message/agentscope/a.jsonl":            false,
		"permission/testdata/policy/x/a.jsonl":  false,
		"permission/testdata/policy/bash.jsonl": true,
	} {
		if got := copiedVector(file); got != want {
			t.Errorf("copiedVector(%s) = %t, want %t", file, got, want)
		}
	}
}
