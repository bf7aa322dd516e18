package format

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/askance-dev/askance/permission"
)

// ErrChanged is wrapped when the result would not say the same: a defect of
// this package. The file has not been touched.
var ErrChanged = errors.New("formatting would change the policy")

// The usual order of keys. A test compares them with the keys that there are.
var (
	fileOrder = []string{"version", "name", "description", "defaults", "vocabulary", "disable", "rules", "tests"}
	ruleOrder = []string{"name", "description", "tool", "tool_name", "rule_content", "match", "behavior", "when", "message", "source",
		"on_error", "locked", "enforcement", "approvers", "quorum", "expiry", "on_expiry", "escalation", "remember", "redact",
		"executor", "audit", "trust_options", "i_know"}
	testOrder = []string{"name", "description", "call", "expect"}
)

// Source formats a rule file; name is for messages. A file that cannot be read
// is a *permission.LoadError.
func Source(name string, data []byte) (out []byte, err error) {
	defer func() { // neither the YAML library nor an odd layout may end the program
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("format %s: %w: %v", name, ErrChanged, r)
		}
	}()
	before, err := permission.Parse(permission.File{Name: name, Data: data})
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", name, err)
	}
	top, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok || top.IsFlowStyle {
		return data, nil // in braces: it is as its author wants it
	}
	out = []byte(newLayout(text).file(top))
	after, err := permission.Parse(permission.File{Name: name, Data: out})
	switch {
	case err != nil:
		return nil, fmt.Errorf("format %s: %w: %w", name, ErrChanged, err)
	case !slices.Equal(contents(text), contents(string(out))):
		return nil, fmt.Errorf("format %s: %w: it would lose lines", name, ErrChanged)
	case !bytes.Equal(dump(before), dump(after)):
		return nil, fmt.Errorf("format %s: %w", name, ErrChanged)
	}
	return out, nil
}

// contents are the lines of a text without their indentation and the dashes of
// list items, sorted: what moving lines keeps.
func contents(text string) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		line = strings.TrimSpace(strings.TrimPrefix(line, "- "))
		if line != "" && line != "-" {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}
