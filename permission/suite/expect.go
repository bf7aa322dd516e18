package suite

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/permission"
)

// faults compares a decision with what is expected of it.
func faults(want permission.Expect, got permission.Decision) []Fault {
	var out []Fault
	differ := func(what, want, got string) {
		if want != got {
			out = append(out, Fault{what, want, got})
		}
	}
	if want.Behavior != "" {
		differ("behavior", string(want.Behavior), string(got.Behavior))
	}
	if want.Rule != nil {
		differ("rule", ruleName(*want.Rule), ruleName(got.Rule))
	}
	if want.Step != "" {
		differ("step", string(want.Step), string(got.Step))
	}
	if want.Message != nil {
		differ("message", strconv.Quote(*want.Message), strconv.Quote(got.Message))
	}
	if want.Errors != nil && *want.Errors != (len(got.Errors) > 0) {
		differ("errors", strconv.FormatBool(*want.Errors), errorsText(got))
	}
	need := got.Requirement
	if want.Quorum != nil {
		differ("quorum", strconv.Itoa(*want.Quorum), strconv.Itoa(max(1, need.Quorum)))
	}
	if want.Expiry != nil {
		differ("expiry", duration(*want.Expiry), duration(need.Expiry))
	}
	if want.OnExpiry != "" {
		differ("on_expiry", string(want.OnExpiry), string(need.OnExpiry))
	}
	users, groups := slices.Clone(need.Users), []string{}
	for _, set := range need.Approvers {
		users, groups = append(users, set.Users...), append(groups, set.Groups...)
	}
	for _, l := range []struct {
		what      string
		want, got []string
	}{{"users", want.Users, users}, {"groups", want.Groups, groups}, {"redact", want.Redact, got.Redact}} {
		if l.want != nil {
			differ(l.what, list(l.want), list(l.got))
		}
	}
	return out
}

func ruleName(name string) string {
	if name == "" {
		return "none"
	}
	return name
}

func errorsText(d permission.Decision) string {
	if len(d.Errors) == 0 {
		return "false"
	}
	texts := make([]string, len(d.Errors))
	for i, e := range d.Errors {
		texts[i] = e.Error()
	}
	return "true: " + strings.Join(texts, "; ")
}

func duration(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}

func list(items []string) string {
	sorted := slices.Sorted(slices.Values(items))
	return "[" + strings.Join(slices.Compact(sorted), ", ") + "]"
}
