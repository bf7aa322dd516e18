package permission

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// Source gives the rule files of a policy. Live calls Read from one goroutine
// at a time. An error keeps the last good policy.
type Source interface {
	Read(ctx context.Context) ([]File, error)
}

// opRead is what errors of reading call it.
const opRead = "read rule files"

// Paths is a Source of files and folders. Of a folder it reads the files that
// end in .yaml or .yml, not those of its sub-folders. A path may begin with its
// layer, as in managed=/etc/askance/policy.yaml. Every file must be a regular one:
// it is read again and again.
//
// Replace a rule file by renaming a finished one over it. Watch waits until a
// change has resolved, but nothing can tell a file that is half written from
// one that is meant to be short.
func Paths(paths ...string) Source { return &pathSource{paths: slices.Clone(paths)} }

// rereadEvery is after how many reads a file is read again although its size
// and time have not changed: some file systems have coarse clocks.
const rereadEvery = 16

// pathSource keeps what it has read, to save reading files that have not
// changed.
type pathSource struct {
	paths []string

	mu    sync.Mutex // guards what follows
	reads int
	known map[string]knownFile
}

type knownFile struct {
	size    int64
	modTime time.Time
	data    []byte
}

// Read implements Source.
func (s *pathSource) Read(ctx context.Context) ([]File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.paths) == 0 {
		return nil, &message.Error{Code: message.CodeInvalid, Op: opRead, What: "no paths are given", Hint: "name rule files, or the folder that they are in"}
	}
	names, err := s.listNames()
	if err != nil {
		return nil, err
	}
	if s.reads++; s.reads%rereadEvery == 0 {
		s.known = nil
	}
	known := make(map[string]knownFile, len(names))
	files := make([]File, 0, len(names))
	for _, named := range names {
		name := named.Name
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", opRead, context.Cause(ctx))
		}
		k, err := s.readFile(name)
		if err != nil {
			return nil, fmt.Errorf("read rule file: %w", err)
		}
		known[name] = k
		files = append(files, File{Name: name, Data: k.data, Layer: named.Layer})
	}
	s.known = known
	return files, nil
}

// CutLayer takes the layer off a path as [Paths] takes it, managed=rules.yaml;
// "" if none stands there.
func CutLayer(path string) (Layer, string) {
	word, rest, ok := strings.Cut(path, "=")
	if l := Layer(word); ok && word != "" && l.rank() >= 0 {
		return l, rest
	}
	return "", path
}

// listNames lists the files in a fixed order, each once. Their data is not read.
func (s *pathSource) listNames() ([]File, error) {
	var names []File
	for _, path := range s.paths {
		layer, path := CutLayer(path)
		info, err := os.Stat(path)
		if word, _, ok := strings.Cut(path, "="); ok && err != nil {
			return nil, &message.Error{Code: message.CodeInvalid, Op: opRead, What: display.Quoted(word) + " is no layer; layers are managed, project, user and run", Hint: "name one of them, or leave it out", Err: err}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", opRead, err)
		}
		if !info.IsDir() {
			names = append(names, File{Name: path, Layer: layer})
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", opRead, err)
		}
		before := len(names)
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
				names = append(names, File{Name: filepath.Join(path, e.Name()), Layer: layer})
			}
		}
		if len(names) == before {
			return nil, &message.Error{Code: message.CodeInvalid, Op: opRead, What: path + " contains no .yaml or .yml file", Hint: "name rule files, or the folder that they are in"}
		}
	}
	slices.SortFunc(names, func(a, b File) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Layer, b.Layer)) })
	names = slices.CompactFunc(names, func(a, b File) bool { return a.Name == b.Name && a.Layer == b.Layer })
	for i := range names[1:] {
		if names[i].Name == names[i+1].Name {
			return nil, &message.Error{Code: message.CodeInvalid, Op: opRead, What: names[i].Name + " is given as of two layers", Hint: "name it once"}
		}
	}
	return names, nil
}

func (s *pathSource) readFile(name string) (knownFile, error) {
	f, info, err := plainfile.Open(name)
	if err != nil {
		return knownFile{}, err
	}
	defer func() { _ = f.Close() }() // only read: nothing can be lost
	if k, ok := s.known[name]; ok && k.size == info.Size() && k.modTime.Equal(info.ModTime()) {
		return k, nil
	}
	// One byte over the limit is enough for the parser to refuse the file.
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return knownFile{}, err
	}
	return knownFile{size: info.Size(), modTime: info.ModTime(), data: data}, nil
}
