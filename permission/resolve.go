package permission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission/internal/paths"
)

// PathFormat is the format by which a schema says that a text of the input is
// the path of a file: {"type": "string", "format": "path"}.
const PathFormat = "path"

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

// Paths are the texts of an input at the places that the schema calls paths,
// sorted, each once. An input that does not fit the schema has none.
func (s *Schema) Paths(input []byte) []string {
	if s == nil || len(s.paths) == 0 {
		return nil
	}
	in, err := s.decode(input, DefaultLimits)
	if err != nil {
		return nil
	}
	var out []string
	s.collectPaths(s.root, in, &out)
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *Schema) collectPaths(t *argType, v any, out *[]string) {
	if t == nil {
		return
	}
	switch v := v.(type) {
	case string:
		if s.paths[t] {
			*out = append(*out, v)
		}
	case []any:
		for _, item := range v {
			s.collectPaths(t.elem, item, out)
		}
	case map[string]any:
		for name, item := range v {
			if sub := t.fields[name]; sub != nil {
				s.collectPaths(sub, item, out)
			} else {
				s.collectPaths(t.elem, item, out)
			}
		}
	}
}

// pathNodes finds the nodes that the schema's text calls paths.
func pathNodes(root *argType, raw []byte) map[*argType]bool {
	doc, err := strictjson.Object(raw, strictjson.MaxBytes(maxSchemaBytes))
	if err != nil {
		return nil // it has been compiled: this cannot be
	}
	found, seen := map[*argType]bool{}, map[*argType]bool{}
	var walk func(*argType)
	walk = func(t *argType) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		if node, ok := at(doc, t.location).(map[string]any); ok && t.kind == kindString && node["format"] == PathFormat {
			found[t] = true
		}
		walk(t.elem)
		for _, f := range t.fields {
			walk(f)
		}
	}
	walk(root)
	return found
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
