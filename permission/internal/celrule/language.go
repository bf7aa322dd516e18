package celrule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Overloads lists everything that conditions can call, with its forms, such as
// "string.startsWith(string) -> bool", by name: CEL's own functions and
// operators, those of its libraries, and ours.
func Overloads() (map[string][]string, error) {
	env, err := ToolEnv(nil)
	if err != nil {
		return nil, fmt.Errorf("list functions: %w", err)
	}
	out := map[string][]string{}
	for name, decl := range env.Functions() {
		var forms []string
		for _, o := range decl.OverloadDecls() {
			forms = append(forms, signature(name, o.IsMemberFunction(), o.ArgTypes(), o.ResultType()))
		}
		slices.Sort(forms)
		out[name] = forms
	}
	return out, nil
}

func signature(name string, member bool, args []*cel.Type, result *cel.Type) string {
	names := make([]string, len(args))
	for i, t := range args {
		names[i] = typeText(t)
	}
	if member && len(names) > 0 {
		name, names = names[0]+"."+name, names[1:]
	}
	return name + "(" + strings.Join(names, ", ") + ") -> " + typeText(result)
}

// Variables lists what is the same for every tool: the members of tool, caller
// and ctx, and those of cmd, which rules about shell tools have; by path, with
// their types.
func Variables() map[string]string {
	out := map[string]string{}
	var walk func(path, structType string)
	walk = func(path, structType string) {
		for name, t := range fixedTypes[structType] {
			if _, ok := fixedTypes[t.TypeName()]; ok {
				walk(path+"."+name, t.TypeName())
				continue
			}
			if t.Kind() == types.ListKind && fixedTypes[t.Parameters()[0].TypeName()] != nil {
				walk(path+"."+name+"[i]", t.Parameters()[0].TypeName())
				continue
			}
			out[path+"."+name] = typeText(t)
		}
	}
	walk("tool", ToolType)
	walk("caller", CallerType)
	walk("ctx", ContextType)
	walk("cmd", CommandType)
	return out
}

// typeText is a type as rules know it.
func typeText(t *cel.Type) string {
	return strings.NewReplacer("google.protobuf.Timestamp", "timestamp", "google.protobuf.Duration", "duration").Replace(t.String())
}

// LanguageHash names what conditions mean: it changes with every function,
// overload and variable, so that a policy whose tests passed under another one
// should be tested again. "" if there is no language at all.
func LanguageHash() string {
	overloads, err := Overloads()
	if err != nil {
		return ""
	}
	h := sha256.New()
	line := func(s string) { _, _ = h.Write([]byte(s + "\n")) } // a hash never fails
	line(LanguageVersion)
	for _, name := range slices.Sorted(maps.Keys(overloads)) {
		for _, form := range overloads[name] {
			line(form)
		}
	}
	vars := Variables()
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		line(name + " " + vars[name])
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// unknownVariables are absent where the request does not say what they are.
var unknownVariables = []string{"caller.parent_agent", "caller.roles", "caller.run_id", "caller.tenant", "ctx.attempt", "ctx.calls_this_run"}

// MayBeMissing reports whether a variable, by its path in Variables, is absent
// where the request does not know it. A rule guards it as an optional field of
// args, or fails.
func MayBeMissing(path string) bool { return slices.Contains(unknownVariables, path) }
