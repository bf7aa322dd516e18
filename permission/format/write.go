package format

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
)

// ErrNotWritten is wrapped when a policy has something that Policy has no key
// for.
var ErrNotWritten = errors.New("the policy cannot be written as a rule file")

// Policy writes a policy that was made in Go, such as an imported one, as a rule
// file of the given name. The file reads as the same policy, or there is an
// error.
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
		if r.Source == "" {
			r.Source = name // what a reader takes it for
		}
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

// text is a text in YAML: as it is where every reader takes it for the same
// text, else in double quotes as in JSON.
func text(s string) string {
	if plain.MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	b, err := strictjson.Marshal(s)
	if err != nil {
		return "''" // the result is read again and compared
	}
	return string(b)
}
