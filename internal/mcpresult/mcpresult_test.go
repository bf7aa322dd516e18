package mcpresult_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/mcpresult"
)

// What is no result of a tool leaves its outcome unknown.
func TestRead(t *testing.T) {
	for answer, want := range map[string]string{
		`{}`:                        "result",
		`{"content":[],"later":1}`:  "result",
		`{"structuredContent":{}}`:  "result",
		`{"isError":true}`:          "result",
		`{"resultType":"complete"}`: "result",
		`{"content":[{"type":"text","text":"cut \ud83d"}]}`: "result",
		`{"content":[],"task":{}}`:                          "result",
		`{"resultType":"input_required"}`:                   "question",
		`{"content":null,"resultType":"input_required"}`:    "question",
		`null`:             "unknown",
		`[]`:               "unknown",
		`{"content":"x"}`:  "unknown",
		`{"content":null}`: "result",
		`{"isError":true,"content":null,"task":null}`:      "result",
		`{"content":[],"content":[]}`:                      "unknown",
		`{"content":[],"isError":"true"}`:                  "unknown",
		`{"task":{"taskId":"1","status":"working"}}`:       "unknown",
		`{"resultType":"task","taskId":"1"}`:               "unknown",
		`{"content":["` + strings.Repeat("x", 100) + `"]}`: "unknown",
	} {
		r, err := mcpresult.Read([]byte(answer), 100)
		got := "result"
		switch {
		case err != nil:
			got = "unknown"
		case r.NeedsInput():
			got = "question"
		}
		if got != want {
			t.Errorf("%s: %s, %v; want %s", answer, got, err, want)
		}
	}
}
