package permission

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// Source supplies the rule files of a policy. Live calls Read from one goroutine at a time. On an
// error the last good policy stays.
type Source interface {
	Read(ctx context.Context) ([]File, error)
}

const (
	opRead     = "read rule files"
	opReadFile = "read rule file"
)

// Paths is a Source of files and folders. In a folder it reads the files that end in .yaml or .yml,
// except hidden ones; a subfolder is an error. A path can begin with its layer, as in
// managed=/etc/askance/policy.yaml. Every file must be regular, because it is read repeatedly.
//
// A file that may be half written is an error, which keeps the last good policy: one that ends
// within a line, one that is the beginning of its previous version, and one that lost the line "..."
// at its end. A file that ends with "..." is complete.
func Paths(paths ...string) *PathSource { return &PathSource{paths: slices.Clone(paths)} }

// PathSource is what [Paths] returns.
type PathSource struct {
	paths []string

	mu      sync.Mutex        // guards what follows
	known   map[string][]byte // what Read last returned, including files that are gone
	ignored []Notice
}

// Ignored returns the files in folders that the last Read found but did not read.
func (s *PathSource) Ignored() []Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ignored)
}

// Read implements Source.
func (s *PathSource) Read(ctx context.Context) ([]File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.paths) == 0 {
		return nil, &message.Error{Code: message.CodeInvalid, Op: opRead, What: "no paths are given", Hint: "name rule files, or the folder that they are in"}
	}
	names, err := s.listNames()
	if err != nil {
		return nil, err
	}
	known := map[string][]byte{}
	maps.Copy(known, s.known)
	files := make([]File, 0, len(names))
	for _, named := range names {
		name := named.Name
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", opRead, context.Cause(ctx))
		}
		if !utf8.ValidString(name) { // no record or reply can name it
			return nil, &message.Error{Code: message.CodeInvalid, Op: opReadFile, What: fmt.Sprintf("the name %q is not UTF-8", name), Hint: "rename the file"}
		}
		if known[name], err = readRuleFile(name, s.known[name]); err != nil {
			return nil, err
		}
		files = append(files, File{Name: name, Data: known[name], Layer: named.Layer})
	}
	s.known = known
	return files, nil
}

// CutLayer splits the layer off a path as [Paths] accepts it, such as managed=rules.yaml; "" if the
// path has none.
func CutLayer(path string) (Layer, string) {
	word, rest, ok := strings.Cut(path, "=")
	if l := Layer(word); ok && word != "" && l.rank() >= 0 {
		return l, rest
	}
	return "", path
}

// listNames lists the files in a fixed order, each once, without reading them.
func (s *PathSource) listNames() ([]File, error) {
	var names []File
	s.ignored = nil
	for _, path := range s.paths {
		layer, path := CutLayer(path)
		info, err := os.Stat(path)
		if word, _, ok := strings.Cut(path, "="); ok && err != nil {
			return nil, &message.Error{Code: message.CodeInvalid, Op: opRead, What: display.Quoted(word) + " is not a layer; layers are managed, project, user and run", Hint: "name one of them, or leave it out", Err: err}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", opRead, err)
		}
		if !info.IsDir() {
			names = append(names, File{Name: path, Layer: layer})
			continue
		}
		inside, err := s.listFolder(path)
		if err != nil {
			return nil, err
		}
		for _, name := range inside {
			names = append(names, File{Name: name, Layer: layer})
		}
	}
	slices.SortFunc(names, func(a, b File) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Layer, b.Layer)) })
	names = slices.CompactFunc(names, func(a, b File) bool { return a.Name == b.Name && a.Layer == b.Layer })
	for i := range names[1:] {
		if names[i].Name == names[i+1].Name {
			return nil, &message.Error{Code: message.CodeInvalid, Op: opRead, What: names[i].Name + " is given with two layers", Hint: "name it once"}
		}
	}
	return names, nil
}

func (s *PathSource) listFolder(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opRead, err)
	}
	var names []string
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		shown := Place{File: strings.ToValidUTF8(name, "\uFFFD")}
		ext := strings.ToLower(filepath.Ext(name))
		switch {
		case strings.HasPrefix(e.Name(), ".."): // versions of a folder that Kubernetes keeps
		case e.Name()[0] == '.':
			s.ignored = append(s.ignored, Notice{Place: shown, Text: "is ignored because it is hidden"})
		case leadsToFolder(name, e):
			return nil, &message.Error{Code: message.CodeInvalid, Op: opRead, What: name + " is a folder, not a file, and subfolders of the policy folder " + path + " are not read", Hint: "pass it as a separate path, or move it elsewhere"}
		case ext == ".yaml" || ext == ".yml":
			names = append(names, name)
		default:
			s.ignored = append(s.ignored, Notice{Place: shown, Text: "is ignored because it does not end in .yaml or .yml"})
		}
	}
	if len(names) == 0 {
		return nil, &message.Error{Code: message.CodeInvalid, Op: opRead, What: path + " contains no .yaml or .yml file", Hint: "name rule files, or the folder that they are in"}
	}
	return names, nil
}

func leadsToFolder(name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// readRuleFile reads a file of which before is the previous version, nil for none.
func readRuleFile(name string, before []byte) ([]byte, error) {
	data, _, err := plainfile.Read(name, MaxFileBytes) // the parser refuses a longer file
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opReadFile, err)
	}
	if why, hint := halfWritten(data, before); why != "" {
		return nil, &message.Error{Code: message.CodeInvalid, Op: opReadFile, What: name + " may be half written: it " + why, Hint: hint}
	}
	return data, nil
}

// halfWritten says why data may be only part of a rule file; before is the previous version, nil
// for none.
func halfWritten(data, before []byte) (why, hint string) {
	const end = "end the complete file with the line ..."
	switch {
	case hasEnd(data) || len(data) > MaxFileBytes || !utf8.Valid(data): // the reader says what is wrong with it
		return "", ""
	case len(data) > 0 && data[len(data)-1] != '\n':
		return "ends within a line", "end the file with a newline"
	case hasEnd(before):
		return "does not end with the line ... as its previous version does", end
	case len(data) < len(before) && bytes.HasPrefix(before, data):
		return "is the beginning of its previous version", end
	}
	return "", ""
}

// hasEnd reports whether a file ends with the YAML document end marker.
func hasEnd(data []byte) bool {
	data = bytes.TrimRight(data, "\r\n")
	return bytes.HasSuffix(data, []byte("\n...")) || bytes.HasSuffix(data, []byte("\r..."))
}
