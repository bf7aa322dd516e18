package permission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// Path specifiers are written as in .gitignore; rule content is matched as
// fnmatch does, whose * crosses every /. Where the two differ an allow is
// refused, and a deny or ask becomes rules for every reading.

func pathRules(base Rule, spec string) ([]Rule, error) {
	pattern, err := workingPath(spec)
	if err != nil {
		return nil, err
	}
	if base.Behavior == message.BehaviorAllow {
		if before, _, _ := strings.Cut(pattern, "**"); strings.Contains(before, "*") {
			return nil, errors.New("its * would match across folders here; write ** for that, or a rule with when")
		}
		return []Rule{withContent(base, pattern)}, nil
	}
	var out []Rule
	for i, p := range readings(pattern) {
		r := withContent(base, p)
		if i > 0 {
			r.Name = display.Quoted(fmt.Sprintf("%s#%d", base.Name, i+1))
		}
		out = append(out, r)
	}
	return out, nil
}

// workingPath is a path specifier as an absolute path or one from the working
// directory.
func workingPath(spec string) (string, error) {
	switch {
	case strings.HasPrefix(spec, "!"):
		return "", errors.New("begins with !, which takes paths out again; write a rule with when")
	case strings.HasPrefix(spec, "//"):
		return spec[1:], nil
	case strings.HasPrefix(spec, "/"):
		return "", errors.New("/ begins a path from the folder of the settings, which is not known here; write // for an absolute path, or ./")
	case strings.HasPrefix(spec, "~"):
		return "", errors.New("~ stands for a home folder that is not known here; write the path out, with // in front")
	}
	return strings.TrimPrefix(spec, "./"), nil
}

// readings are patterns that together match whatever the pattern matches: a
// name without / stands at any depth, ** is also no folder at all, and a folder
// stands for all that is in it.
func readings(pattern string) []string {
	pattern = strings.TrimSuffix(pattern, "/")
	out := []string{pattern}
	add := func(p string) {
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if !strings.Contains(pattern, "/") {
		add("*/" + pattern)
	}
	for _, p := range slices.Clone(out) {
		add(strings.ReplaceAll(p, "/**/", "/"))
		add(strings.TrimPrefix(p, "**/"))
	}
	for _, p := range slices.Clone(out) {
		if !strings.HasSuffix(p, "*") {
			add(p + "/*")
		}
	}
	return out
}
