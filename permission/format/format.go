// Package format formats rule files and loses nothing.
//
//	out, err := format.Source("rules.yaml", data)
//
// It puts the keys of the file, of rules and of tests into their usual order, separates
// rules and tests longer than one line by an empty line, indents by two spaces, and
// removes trailing space and repeated empty lines. Comments stay with the key or rule
// that they precede. Values do not change: neither conditions nor quoting nor anything
// in braces.
//
// Source works on lines and checks its own work: the result has the same lines as before, moved and
// indented, and parses to the same policy. Anything else is an error, and the file stays unchanged.
// Formatting twice changes nothing.
package format

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
)

// ErrChanged is wrapped if the result would have a different meaning, which is a defect of this
// package. The file has not been changed.
var ErrChanged = errors.New("formatting would change the policy")

// The usual order of keys. A test compares it with the existing keys.
var (
	fileOrder = []string{"version", "name", "description", "defaults", "vocabulary", "disable", "rules", "tests"}
	ruleOrder = []string{"name", "description", "tool", "tool_name", "rule_content", "match", "behavior", "when", "message", "source",
		"on_error", "locked", "enforcement", "approvers", "quorum", "expiry", "on_expiry", "escalation", "remember", "redact",
		"executor", "audit", "options", "trust_options", "i_know"}
	testOrder = []string{"name", "description", "call", "expect"}
)

// Source formats a rule file; name is used in messages. If the file cannot be read, the error is a
// *permission.LoadError.
func Source(name string, data []byte) (out []byte, err error) {
	defer func() { // neither the YAML library nor an odd layout may crash the program
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
		return data, nil // in braces: keep the author's layout
	}
	out = []byte((&layout{lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n"), inText: map[int]bool{}}).file(top))
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

// contents returns the lines of a text without their indentation and list dashes, sorted: what
// moving lines preserves.
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

// dump writes out everything in a policy; two policies with the same meaning have the same dump.
// Unexported fields hold only positions in the file.
func dump(p permission.Policy) []byte {
	var b bytes.Buffer
	write(&b, reflect.ValueOf(p))
	return b.Bytes()
}

func write(b *bytes.Buffer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		write(b, v.Elem())
	case reflect.Struct:
		if s, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
			b.WriteString(s.String())
			return
		}
		b.WriteByte('{')
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				b.WriteString(v.Type().Field(i).Name + ":")
				write(b, v.Field(i))
				b.WriteByte(' ')
			}
		}
		b.WriteByte('}')
	case reflect.Slice, reflect.Array:
		b.WriteByte('[')
		for i := range v.Len() {
			write(b, v.Index(i))
			b.WriteByte(' ')
		}
		b.WriteByte(']')
	case reflect.Map:
		var members []string
		for _, key := range v.MapKeys() {
			var m bytes.Buffer
			write(&m, key)
			m.WriteByte('=')
			write(&m, v.MapIndex(key))
			members = append(members, m.String())
		}
		slices.Sort(members)
		fmt.Fprintf(b, "%q", members)
	default:
		fmt.Fprintf(b, "%#v", v.Interface())
	}
}

// ErrNotWritten is wrapped if a policy contains something that rule files have no key for.
var ErrNotWritten = errors.New("the policy cannot be written as a rule file")

// Policy writes a policy made in Go, such as an imported one, as a rule file with the given name.
// The file parses to the same policy; otherwise Policy returns an error.
func Policy(name, comment string, p permission.Policy) ([]byte, error) {
	var b bytes.Buffer
	for line := range strings.SplitSeq(strings.TrimSpace(comment), "\n") {
		if line != "" {
			fmt.Fprintf(&b, "# %s\n", line)
		}
	}
	fmt.Fprintf(&b, "version: 1\nname: %s\n", text(name))
	if p.Mode != "" {
		fmt.Fprintf(&b, "defaults: {mode: %s}\n", p.Mode)
	}
	if len(p.Rules) == 0 {
		b.WriteString("rules: []\n")
	} else {
		b.WriteString("rules:\n")
	}
	want := p
	want.Rules = slices.Clone(p.Rules)
	for i := range want.Rules {
		r := &want.Rules[i]
		if i > 0 {
			b.WriteString("\n")
		}
		r.Source = cmp.Or(r.Source, name) // what reading the file yields
		r.Layer = permission.LayerProject
		writeRule(&b, r, name)
	}
	got, err := permission.Parse(permission.File{Name: name, Data: b.Bytes()})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotWritten, err)
	}
	if !bytes.Equal(dump(got), dump(want)) {
		return nil, ErrNotWritten
	}
	return b.Bytes(), nil
}

func writeRule(b *bytes.Buffer, r *permission.Rule, file string) {
	lead := "  - "
	key := func(name, value string) {
		fmt.Fprintf(b, "%s%s: %s\n", lead, name, value)
		lead = "    "
	}
	key("name", text(r.Name))
	optional := func(name, value string) {
		if value != "" {
			key(name, text(value))
		}
	}
	optional("description", r.Description)
	tools := make([]string, len(r.Tools))
	for i, t := range r.Tools {
		tools[i] = text(t)
	}
	if len(tools) == 1 {
		key("tool", tools[0])
	} else {
		key("tool", "["+strings.Join(tools, ", ")+"]")
	}
	if r.RuleContent != nil {
		key("rule_content", text(*r.RuleContent))
	}
	key("behavior", string(r.Behavior))
	optional("when", r.When)
	optional("message", r.Message)
	if r.Source != file {
		optional("source", r.Source)
	}
	optional("on_error", string(r.OnError))
	if r.Locked {
		key("locked", "true")
	}
	if len(r.Approvers.Users) > 0 {
		users := make([]string, len(r.Approvers.Users))
		for i, u := range r.Approvers.Users {
			users[i] = text(u)
		}
		key("approvers", "{users: ["+strings.Join(users, ", ")+"]}")
	}
	if r.Expiry > 0 {
		key("expiry", r.Expiry.Round(time.Nanosecond).String())
	}
}

var (
	plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]*(?:[/-][A-Za-z0-9_.]+)*$`)
	words = []string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
)

// text formats a text in YAML: unquoted if every parser reads it as the same text, otherwise in
// double quotes as in JSON.
func text(s string) string {
	if plain.MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	b, err := strictjson.Marshal(s)
	if err != nil {
		return "''" // the result is parsed again and compared
	}
	return string(b)
}
