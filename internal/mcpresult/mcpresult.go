// Package mcpresult reads what MCP servers answer to tools/call, so that the gateway and the
// worker take the same answers for results of a tool.
package mcpresult

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/askance-dev/askance/internal/strictjson"
)

// Result is an answer to tools/call. Its parts are the bytes that arrived. Some servers write null for
// an empty list, so a Content of null is one.
type Result struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
	Type       string            `json:"resultType"`
	Task       json.RawMessage   `json:"task"`
}

// NeedsInput reports whether the server asks for more than arguments, and has no result yet.
func (r *Result) NeedsInput() bool { return r.Type == "input_required" }

// Read reads an answer of at most limit bytes. After an error the tool may have run, or may run
// now, and its outcome is unknown.
func Read(answer []byte, limit int) (r Result, err error) {
	if strictjson.KindOf(answer) != "object" {
		return r, errors.New("it is not an object")
	}
	err = strictjson.UnmarshalOpen(answer, &r, strictjson.MaxBytes(limit))
	if err != nil { // a text that is cut within a character does not make the outcome unknown
		r = Result{}
		err = strictjson.UnmarshalOpen(strictjson.RepairText(answer), &r, strictjson.MaxBytes(limit))
	}
	switch {
	case err != nil:
		return r, err
	case r.Type != "" && r.Type != "complete" && !r.NeedsInput():
		return r, fmt.Errorf("it has the unknown type %.40q", r.Type)
	case r.Content == nil && strictjson.KindOf(r.Task) == "object":
		return r, errors.New("the server runs the tool as a task, which no one asked for")
	}
	return r, nil
}
