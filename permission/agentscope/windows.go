package agentscope

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/shell"
)

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

// macPath returns the usual spelling of a folded path or content on macOS, whose file systems also
// take composed and decomposed letters for the same.
func macPath(p string) string {
	p = onData.ReplaceAllString(norm.NFC.String(p), "/$1")
	return inPrivate.ReplaceAllString(p, "$1")
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
