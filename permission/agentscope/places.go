package agentscope

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/internal/paths"
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

// holdsWorkingDir reports whether a path is a working directory, or one is below it.
func (p places) holdsWorkingDir(name string) bool {
	abs := p.absolute(p.expandHome(name))
	return slices.ContainsFunc(p.dirs, func(d string) bool { return d != "" && strings.HasPrefix(path.Clean(d)+"/", abs+"/") })
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
		return anyPair(matchName, abs, content, clean)
	case leadsOut(clean): // and does not lead back in
		abs = slices.DeleteFunc(abs, func(a string) bool {
			_, below := relativeTo(a, p.dirs[0])
			return below
		})
		return anyPair(matchName, abs, p.fromRoot(content))
	case strings.ContainsAny(content, "*?["): // this is never about the directory itself
		rel = slices.DeleteFunc(rel, func(r string) bool { return r == "." })
	}
	return anyPair(matchName, abs, content, p.fromRoot(content)) || anyPair(matchName, rel, content, clean, strings.TrimPrefix(content, "./"))
}

// anyPair reports whether match accepts one of the contents with one of the names.
func anyPair(match func(content, name string) bool, names []string, contents ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		return slices.ContainsFunc(contents, func(c string) bool { return match(c, n) })
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

// The home folder tells on which system a tool runs. If it is not known, or is one of
// Windows, no rule or mode allows a path that Windows reads differently from its text,
// and deny and ask rules look at every spelling of a path. Package
// permission/internal/paths defines the spellings.

// windowsHome matches homes in the folders that shells for Windows use for drives.
var windowsHome = regexp.MustCompile(`^/(mnt/|cygdrive/)?[A-Za-z](/|$)`)

// macHomes contains the home folders of macOS, whose file systems ignore case.
const macHomes = "/Users/"

// isPOSIX reports whether tools of this configuration certainly do not run on Windows.
func (c Config) isPOSIX() bool {
	return strings.HasPrefix(c.Home, "/") && !windowsHome.MatchString(c.Home)
}

// isPlain reports whether the system of the tool reads a path as it is written, except
// for case and the ends of names.
func (c Config) isPlain(name string) bool {
	_, err := paths.Fold(name)
	return c.isPOSIX() || name == "" || err == nil && !paths.IsForeign(name)
}

// fold returns the one spelling of a path; "" for "".
func (p places) fold(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return paths.Fold(p.expandHome(strings.ReplaceAll(name, `\`, "/")))
}

// folded returns the places in their one spelling. It does not follow their links.
func (p places) folded() (places, error) {
	out := places{}
	var err error
	if out.cwd, err = p.fold(p.cwd); err != nil {
		return out, err
	}
	if out.home, err = p.fold(p.home); err != nil {
		return out, err
	}
	for _, d := range p.dirs {
		dir, err := p.fold(d)
		if err != nil {
			return out, err
		}
		out.dirs = append(out.dirs, dir)
	}
	return out, nil
}

var errOpenFile = errors.New("the path leads through an open file or another process")

// isDenied reports whether a deny or ask rule with that content is about a path in any
// spelling. An error says that the text does not determine the file.
func (p places) isDenied(content, name string) (bool, error) {
	if p.isNamed(content, name) {
		return true, nil
	}
	if _, known := shell.Follow(p.expandHome(name), p.cwd); !known {
		return false, fmt.Errorf("%w: %w: %s", permission.ErrUnclear, errOpenFile, name)
	}
	if p.posix && !strings.HasPrefix(p.home, macHomes) {
		return false, nil
	}
	denied, err := p.isDeniedFolded(content, name)
	if err == nil || p.posix {
		return denied, nil
	}
	return false, fmt.Errorf("%w: %w", permission.ErrUnclear, err)
}

func (p places) isDeniedFolded(content, name string) (bool, error) {
	all, err := p.folded()
	if err != nil {
		return false, err
	}
	mapped := all.onMac()
	names := []string{name}
	if target, ok := p.followLinks(name); ok {
		names = append(names, target)
	}
	for _, n := range names {
		folded, err := p.fold(n)
		if err != nil {
			return false, err
		}
		for _, c := range contentSpellings(p.expandHome(strings.ReplaceAll(content, `\`, "/"))) {
			if all.isNamed(c, folded) || mapped.isNamed(macPath(c), macPath(folded)) {
				return true, nil
			}
		}
	}
	return false, nil
}

// macPath returns the usual spelling of a folded path or content on macOS.
func macPath(p string) string {
	return inPrivate.ReplaceAllString(onData.ReplaceAllString(p, "/$1"), "$1")
}

var (
	onData    = regexp.MustCompile(`^/system/volumes/data/([^*?\[])`)
	inPrivate = regexp.MustCompile(`^/private(/(?:etc|tmp|var)(?:/|$))`)
)

// onMac returns folded places in their usual spelling on macOS.
func (p places) onMac() places {
	out := places{cwd: macPath(p.cwd), home: macPath(p.home)}
	for _, d := range p.dirs {
		out.dirs = append(out.dirs, macPath(d))
	}
	return out
}

// contentSpellings returns a content without its drive, and with the folders that
// shells for Windows use for the drive: /c, /mnt/c, /cygdrive/c.
func contentSpellings(content string) []string {
	folded := paths.FoldPattern(content)
	if drive := paths.Drive(content); drive != "" {
		below := path.Join("/", drive, folded)
		return []string{folded, below, "/mnt" + below, "/cygdrive" + below}
	}
	if folder := windowsHome.FindString(folded); strings.HasSuffix(folder, "/") {
		return []string{folded, folded[len(folder)-1:]}
	}
	return []string{folded}
}

// isCovered reports whether an allow rule with that content, which matches the text of
// a path, means the file as the system of the tool reads it.
func (p places) isCovered(content, name string) bool {
	if p.posix || !p.isAllowed(content, name) {
		return p.isAllowed(content, name)
	}
	all, err := p.folded()
	if err != nil {
		return false
	}
	folded, err := p.fold(name)
	return err == nil && all.isAllowed(paths.FoldPattern(content), folded)
}

// isEditable reports whether an edit of a file needs no approval if the mode allows
// edits in the working directories.
func (p places) isEditable(name string) bool {
	if !p.isInside(name) || p.isDangerous(name) {
		return false
	}
	folded, err := p.fold(name)
	return p.posix || err == nil && !paths.IsForeign(name) && !p.isDangerous(folded)
}

// readsAsDanger reports whether some system reads, or may read, a path as that of a
// sensitive file.
func (p places) readsAsDanger(name string) bool {
	folded, err := p.fold(name)
	return err != nil && !p.posix || err == nil && p.isDangerous(folded) || shortDanger.MatchString(name)
}

// shortDanger matches the short names that NTFS gives to .git and .ssh. Linux also mounts NTFS.
var shortDanger = regexp.MustCompile(`(?i)(^|[/\\])(git|ssh)~`)
