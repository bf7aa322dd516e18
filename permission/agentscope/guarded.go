package agentscope

import (
	"path"
	"slices"
	"strings"
)

// This file compares paths with the contents of rules in the guarded reading,
// which looks at the file that a path means and not only at its text.

// provenInside is inside for programs that may or may not expand a leading ~.
func (p places) provenInside(name string) bool {
	if strings.HasPrefix(name, "~") && (p.home == "" || !p.inside("./"+name)) {
		return false
	}
	return p.inside(name)
}

// leadsToDanger reports whether a link leads to a sensitive file.
func (p places) leadsToDanger(name string) bool {
	target, ok := p.real(name)
	return !ok || p.dangerous(target)
}

// spellings are the ways to write the file that a path means: the text, cleaned
// and absolute, below each working directory, with ~ expanded, links followed.
func (p places) spellings(name string) []string {
	abs := []string{path.Clean("/" + p.absolute(name)), path.Clean("/" + p.absolute(p.expand(name)))}
	if target, ok := p.real(name); ok {
		abs = append(abs, target)
	}
	out := append([]string{name}, abs...)
	for _, d := range p.dirs {
		for _, a := range abs {
			if rel, ok := relative(a, d); ok {
				out = append(out, rel)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// relative is an absolute path as seen from a directory it lies in.
func relative(abs, dir string) (string, bool) {
	dir = path.Clean("/" + dir)
	if abs == dir {
		return ".", true
	}
	return strings.CutPrefix(abs, strings.TrimRight(dir, "/")+"/")
}

// named reports whether a deny or ask rule of that content is about a path,
// however either of them is written.
func (p places) named(content, name string) bool {
	contents := []string{content, strings.TrimPrefix(content, "./"), path.Clean(p.expand(content))}
	if !strings.HasPrefix(content, "/") {
		contents = append(contents, path.Clean("/"+p.cwd+"/"+content))
	}
	for _, s := range p.spellings(name) {
		if slices.ContainsFunc(contents, func(c string) bool { return matchName(c, s) }) {
			return true
		}
	}
	return false
}

// allowed reports whether an allow rule of that content, which matches the
// text of a path, means the file as well. A content that is no absolute path
// speaks of files in the working directories.
func (p places) allowed(content, name string) bool {
	literal, expanded := path.Clean("/"+p.absolute(name)), path.Clean("/"+p.absolute(p.expand(name)))
	if strings.HasPrefix(name, "~") && p.home == "" {
		return false
	}
	target, ok := p.real(name)
	if !ok {
		return false
	}
	if !strings.HasPrefix(content, "/") {
		return p.allowedBelow(content, literal) && p.allowedBelow(content, expanded) && p.allowedBelow(content, target)
	}
	return matchName(content, literal) && matchName(content, expanded) && (matchName(content, target) || matchName(p.realContent(content), target))
}

func (p places) allowedBelow(content, abs string) bool {
	content = strings.TrimPrefix(content, "./")
	return slices.ContainsFunc(p.dirs, func(d string) bool {
		dir, ok := p.real(d)
		for _, from := range []string{d, dir} {
			rel, below := relative(abs, from)
			if ok && d != "" && below && (matchName(content, rel) || matchName(content, "/"+rel)) { // **/*.go is about a.go, too
				return true
			}
		}
		return false
	})
}

// realContent is a content whose folders up to the first pattern are followed
// where they are links.
func (p places) realContent(content string) string {
	fixed := content
	if i := strings.IndexAny(content, "*?["); i >= 0 {
		fixed = content[:i]
	}
	cut := strings.LastIndexByte(fixed, '/')
	folder, ok := p.real(content[:cut+1])
	if !ok {
		return content
	}
	return strings.TrimRight(folder, "/") + content[cut:]
}
