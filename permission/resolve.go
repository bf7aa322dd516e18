package permission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission/internal/paths"
)

// Resolve fills in Resolved from the files of this machine: for every text of
// the input that the schema calls a path, and for the working directories, the
// absolute path that a program running in Cwd opens, all symbolic links
// followed. Resolved directories join WorkingDirs, so that both spellings of
// one are inside.
//
// Call it where the request is prepared, on the machine that runs the tool, and
// never for a tool that runs elsewhere. Deciding itself looks at no file. What
// cannot be resolved is left out: rules that ask for it fail closed. Between
// the decision and the run a link can change; a tool that must not be led
// astray by one opens its files below an os.Root.
func (r *Request) Resolve(s *Schema) {
	given := s.Paths(r.Input)
	if len(given) == 0 {
		return
	}
	r.Resolved = make(map[string]string, len(given))
	for _, p := range given {
		if target, err := resolvePath(r.Cwd, p); err == nil {
			r.Resolved[p] = target
		}
	}
	dirs := slices.Clone(r.WorkingDirs) // the caller's own stay as they are
	for _, d := range r.WorkingDirs {
		if target, err := resolvePath(r.Cwd, d); err == nil && !slices.Contains(dirs, target) {
			dirs = append(dirs, target)
		}
	}
	r.WorkingDirs = dirs
}

// maxLinks is how many symbolic links are followed for one path, as Linux has it.
const maxLinks = 40

var errTooManyLinks = errors.New("too many symbolic links")

// resolvePath follows the links of a path from left to right, as the operating
// system does: ".." is the folder above where a link has led, which cleaning
// the text first would miss. What does not exist yet has no links.
func resolvePath(cwd, p string) (string, error) {
	if _, err := paths.Join(cwd, p); err != nil && !strings.HasPrefix(p, "/") {
		return "", err
	}
	if _, err := paths.Clean(p); err != nil {
		return "", err
	}
	if !strings.HasPrefix(p, "/") {
		p = cwd + "/" + p
	}
	at, todo, links := "/", strings.Split(p, "/"), 0
	for len(todo) > 0 {
		step := todo[0]
		todo = todo[1:]
		switch step {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, step)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return newFile(next, todo)
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", errTooManyLinks
		}
		if strings.HasPrefix(target, "/") {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}

// newFile is the path of something that is not there. Going up from it is no
// way that the operating system would take.
func newFile(at string, todo []string) (string, error) {
	for _, step := range todo {
		if step == ".." {
			return "", fs.ErrNotExist
		}
		at = filepath.Join(at, step)
	}
	return at, nil
}
