package agentscope

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/shell"
)

type places struct {
	cwd, home string   // where the tool runs
	dirs      []string // the working directories; contents of rules begin at the first
	links     Links
	posix     bool
}

func (c Config) places(call permission.Call) places {
	return places{cwd: cmp.Or(call.Folder, call.Cwd), home: c.Home, dirs: append([]string{call.Cwd}, call.WorkingDirs...), links: c.Links, posix: c.isPOSIX()}
}

// dangerousFiles and dangerousFolders contain credentials, or what other programs run.
// Upstream compares them with base names, so the two with a slash never match. They are
// here because the checks for sed and globs also use the list.
var dangerousFiles = []string{
	".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".zshrc", ".zprofile", ".profile", ".ssh/config",
	".ssh/authorized_keys", ".netrc", ".npmrc", ".pypirc", ".env", ".envrc", ".env.local", ".env.development",
	".env.development.local", ".env.test", ".env.test.local", ".env.staging", ".env.production", ".env.production.local",
}

var dangerousFolders = []string{".git", ".vscode", ".idea", ".ssh"}

func (p places) expandHome(name string) string {
	home := p.home
	rest, ok := strings.CutPrefix(name, "~")
	switch {
	case !ok || home == "":
		return name
	case strings.HasPrefix(rest, "root/") || rest == "root":
		home, rest = "/root", strings.TrimPrefix(rest, "root")
	case rest != "" && rest[0] != '/':
		return name // another user; the text is an ordinary name
	}
	return cmp.Or(strings.TrimRight(home, "/")+rest, "/")
}

func (p places) absolute(name string) string {
	if !strings.HasPrefix(name, "/") {
		name = p.cwd + "/" + name
	}
	clean := path.Clean(name)
	if strings.HasPrefix(name, "//") && !strings.HasPrefix(name, "///") {
		return "/" + clean // two slashes are a separate root
	}
	return clean
}

// isDangerous reports whether a path is a file, or is in a folder, that a person must
// be asked about.
func (p places) isDangerous(name string) bool {
	parts := strings.Split(strings.ToLower(p.absolute(p.expandHome(name))), "/")
	if slices.Contains(dangerousFiles, parts[len(parts)-1]) {
		return true
	}
	return slices.ContainsFunc(parts, func(s string) bool { return slices.Contains(dangerousFolders, s) })
}

// isInside reports whether a path is a working directory or is in one, after ~ and
// symbolic links are resolved.
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

// followLinks returns where a path leads. Without Links it looks at no file, and does not know
// where a link of a process leads.
func (p places) followLinks(name string) (string, bool) {
	name = p.expandHome(name)
	if p.links == nil {
		clean := path.Clean("/" + p.absolute(name))
		file, known := shell.Follow(name, p.cwd)
		return clean, known && clean == path.Clean("/"+file)
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

// This code compares the file that a path means with the contents of rules. Upstream
// compares the text of the path.

// isOtherHome reports whether a path begins with the home of another user, which is not
// known.
func isOtherHome(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return strings.HasPrefix(first, "~") && first != "~" && first != "~root"
}

// isProvenInside is isEditable for programs that may or may not expand a leading ~.
func (p places) isProvenInside(name string) bool {
	if isOtherHome(name) {
		return false
	}
	if strings.HasPrefix(name, "~") && (p.home == "" || !p.isInside("./"+name)) {
		return false
	}
	return p.isEditable(name)
}

// leadsToDanger reports whether a link leads to a sensitive file, or some file system
// reads the name as that of one.
func (p places) leadsToDanger(name string) bool {
	target, ok := p.followLinks(name)
	return !ok || p.isDangerous(target) || p.readsAsDanger(name) || p.readsAsDanger(target)
}

// spellings returns the ways to write the file that a path means, cleaned, with ~
// expanded or not, and with links followed: absolute, and relative to each working
// directory.
func (p places) spellings(name string) (abs, rel []string) {
	for _, n := range []string{name, p.expandHome(name)} {
		file, _ := shell.Follow(n, p.cwd)
		abs = append(abs, path.Clean("/"+file))
	}
	if target, ok := p.followLinks(name); ok {
		abs = append(abs, target)
	}
	for _, d := range p.dirs {
		for _, a := range abs {
			if r, ok := relativeTo(a, d); ok {
				rel = append(rel, r)
			}
		}
	}
	return abs, rel
}

func relativeTo(abs, dir string) (string, bool) {
	dir = path.Clean("/" + dir)
	if abs == dir {
		return ".", true
	}
	return strings.CutPrefix(abs, strings.TrimRight(dir, "/")+"/")
}

// isNamed reports whether a deny or ask rule with that content is about a path, in any
// way of writing either of them.
func (p places) isNamed(content, name string) bool {
	if matchName(content, name) {
		return true
	}
	abs, rel := p.spellings(name)
	clean := path.Clean(p.expandHome(content))
	switch {
	case strings.HasPrefix(clean, "/"):
		return matchAny(abs, content, clean)
	case leadsOut(clean): // and does not lead back in
		abs = slices.DeleteFunc(abs, func(a string) bool {
			_, below := relativeTo(a, p.dirs[0])
			return below
		})
		return matchAny(abs, p.fromRoot(content))
	case strings.ContainsAny(content, "*?["): // this is never about the directory itself
		rel = slices.DeleteFunc(rel, func(r string) bool { return r == "." })
	}
	return matchAny(abs, content, p.fromRoot(content)) || matchAny(rel, content, clean, strings.TrimPrefix(content, "./"))
}

func matchAny(names []string, contents ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		return slices.ContainsFunc(contents, func(c string) bool { return matchName(c, n) })
	})
}

func (p places) fromRoot(content string) string { return path.Clean("/" + p.dirs[0] + "/" + content) }

func leadsOut(clean string) bool { return clean == ".." || strings.HasPrefix(clean, "../") }

// isAllowed reports whether an allow rule with that content, which matches the text of
// a path, also means the file. A content that does not say where it begins is about
// files in the working directories.
func (p places) isAllowed(content, name string) bool {
	literal, expanded := path.Clean("/"+p.absolute(name)), path.Clean("/"+p.absolute(p.expandHome(name)))
	if strings.HasPrefix(name, "~") && p.home == "" || isOtherHome(name) {
		return false
	}
	target, ok := p.followLinks(name)
	if !ok {
		return false
	}
	if strings.HasSuffix(name, "/") && literal != "/" {
		literal, expanded, target = literal+"/", strings.TrimRight(expanded, "/")+"/", strings.TrimRight(target, "/")+"/"
	}
	full := p.expandHome(content)
	switch {
	case strings.HasPrefix(content, "~/") && full != content:
		// For a program that does not expand ~ the rule names a folder of that name.
		rel, below := relativeTo(literal, p.dirs[0])
		return below && matchName(content, rel) && p.isMeant(full, expanded, target)
	case strings.HasPrefix(content, "/"):
		return matchName(content, literal) && p.isMeant(content, expanded, target)
	case strings.HasPrefix(content, "../"):
		return matchName(p.fromRoot(content), literal) && p.isMeant(p.fromRoot(content), expanded, target)
	}
	return p.isAllowedBelow(content, literal) && p.isAllowedBelow(content, expanded) && p.isAllowedBelow(content, target)
}

// isMeant reports whether an absolute content is about a file and about the place where
// its link leads.
func (p places) isMeant(content, file, target string) bool {
	return matchName(content, file) && (matchName(content, target) || matchName(p.realContent(content), target))
}

func (p places) isAllowedBelow(content, abs string) bool {
	content = strings.TrimPrefix(content, "./")
	return slices.ContainsFunc(p.dirs, func(d string) bool {
		dir, ok := p.followLinks(d)
		for _, from := range []string{d, dir} {
			rel, below := relativeTo(abs, from)
			if ok && d != "" && below && (matchName(content, rel) || matchName(content, "/"+rel)) { // **/*.go is also about a.go
				return true
			}
		}
		return false
	})
}

// realContent returns a content with the links in its folders before the first pattern
// followed.
func (p places) realContent(content string) string {
	fixed := content
	if i := strings.IndexAny(content, "*?["); i >= 0 {
		fixed = content[:i]
	}
	cut := strings.LastIndexByte(fixed, '/')
	folder, ok := p.followLinks(content[:cut+1])
	if !ok {
		return content
	}
	return strings.TrimRight(folder, "/") + content[cut:]
}
