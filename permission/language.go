package permission

import "github.com/askance-dev/askance/permission/internal/celrule"

// Why a rule could not be evaluated, for errors.Is on a RuleError.
var (
	ErrCostLimit = celrule.ErrCostLimit
	ErrDeadline  = celrule.ErrDeadline
)

// PathError is the cause of a RuleError where a text is no path that every
// program reads alike.
type PathError = celrule.PathError

// URLError is the cause of a RuleError where a text is no URL that every
// program reads alike. It does not repeat the URL, which may hold a password.
type URLError = celrule.URLError

// Function describes a function that rules have in addition to those of CEL.
type Function struct {
	Name      string // as rules write it, path.within
	Signature string // path.within(string, string | list(string)) -> bool
	Doc       string
}

// Functions lists them by name.
func Functions() []Function {
	var out []Function
	for _, f := range celrule.Functions() {
		out = append(out, Function(f))
	}
	return out
}

// Variables lists what is the same for every tool: the members of tool, caller
// and ctx, and those of cmd, which rules about shell tools have; by path, with
// their types.
func Variables() map[string]string { return celrule.Variables() }

// MayBeMissing reports whether a variable, by its path in Variables, is absent
// where the request does not know it. A rule guards it as an optional field of
// args, or fails.
func MayBeMissing(path string) bool { return celrule.MayBeMissing(path) }

// LanguageHash names what conditions mean: it changes with every function,
// overload and variable, so that a policy whose tests passed under another one
// should be tested again. "" if there is no language at all.
func LanguageHash() string { return celrule.LanguageHash() }
