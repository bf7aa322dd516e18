package agentscope

import (
	"path"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission"
)

// places resolve the paths of one call.
type places struct {
	cwd, home string
	dirs      []string // the working directories, cwd first
	links     Links
}

func (c Config) places(call permission.Call) places {
	return places{cwd: call.Cwd, home: c.Home, dirs: append([]string{call.Cwd}, call.WorkingDirs...), links: c.Links}
}

// dangerousFiles and dangerousFolders are those that hold credentials, or what
// other programs run. Upstream compares them with base names, so that the two
// with a slash never match; here they count as ends of paths where we read
// ourselves.
var dangerousFiles = []string{
	".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".zshrc", ".zprofile", ".profile", ".ssh/config",
	".ssh/authorized_keys", ".netrc", ".npmrc", ".pypirc", ".env", ".envrc", ".env.local", ".env.development",
	".env.development.local", ".env.test", ".env.test.local", ".env.staging", ".env.production", ".env.production.local",
}

var dangerousFolders = []string{".git", ".vscode", ".idea", ".ssh"}

// expandHome replaces a leading ~ by the home directory.
func (p places) expandHome(name string) string {
	home := p.home
	rest, ok := strings.CutPrefix(name, "~")
	switch {
	case !ok || home == "":
		return name
	case strings.HasPrefix(rest, "root/") || rest == "root":
		home, rest = "/root", strings.TrimPrefix(rest, "root")
	case rest != "" && rest[0] != '/':
		return name // another user: a name like any other
	}
	if out := strings.TrimRight(home, "/") + rest; out != "" {
		return out
	}
	return "/"
}

// absolute is the cleaned path, from the working directory on.
func (p places) absolute(name string) string {
	if !strings.HasPrefix(name, "/") {
		name = p.cwd + "/" + name
	}
	clean := path.Clean(name)
	if strings.HasPrefix(name, "//") && !strings.HasPrefix(name, "///") {
		return "/" + clean // two slashes are a root of their own
	}
	return clean
}

// isDangerous reports whether a path is a file, or lies in a folder, that a
// person has to be asked about.
func (p places) isDangerous(name string) bool {
	parts := strings.Split(strings.ToLower(p.absolute(p.expandHome(name))), "/")
	if slices.Contains(dangerousFiles, parts[len(parts)-1]) {
		return true
	}
	return slices.ContainsFunc(parts, func(s string) bool { return slices.Contains(dangerousFolders, s) })
}

// isInside reports whether a path lies in a working directory, or is one, when
// ~ and symbolic links are followed.
func (p places) isInside(name string) bool {
	file, ok := p.followLinks(name)
	if !ok {
		return false
	}
	return slices.ContainsFunc(p.dirs, func(d string) bool {
		dir, ok := p.followLinks(d)
		return ok && d != "" && (file == dir || strings.HasPrefix(file, dir+"/"))
	})
}

// followLinks is where a path leads. Without Links no file is looked at.
func (p places) followLinks(name string) (string, bool) {
	name = p.expandHome(name)
	if p.links == nil {
		return path.Clean("/" + p.absolute(name)), true
	}
	out, err := p.links(p.cwd, name)
	return out, err == nil
}

// isVital reports whether removing a path would be a disaster.
func (p places) isVital(name string) bool {
	if slices.Contains([]string{"*", "./*", "/"}, name) || strings.HasSuffix(name, "/*") || strings.HasSuffix(name, `\*`) {
		return true
	}
	abs := p.absolute(p.expandHome(name))
	parent := path.Dir(abs)
	return abs == p.expandHome("~") || parent == "/" || path.Dir(parent) == parent
}
