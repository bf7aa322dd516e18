// Package directory reads who is in which group, and with which keys approvers
// sign, from files and from a NATS key-value bucket:
//
//	version: 1
//	groups:
//	  finance: [ann, bob]
//	approvers:
//	  ann: {keys: ["ed25519:…"]}
//
// Files are parsed strictly: an unknown key or an invalid name makes the whole file
// invalid. [Live] reads them again and again; if that fails, the last good state stays
// in force. A person who is removed from a group stays out, because there is no state
// between two good ones: a file that is being written is left alone.
package directory

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/toolcall"
)

// Directory is the combined content of files. It is immutable.
type Directory struct {
	groups  map[string][]string
	grouped bool // a file names a group, even an empty one
	keys    toolcall.ApproverKeys
}

// Groups returns the groups of a person, sorted.
func (d *Directory) Groups(name string) []string { return slices.Clone(d.groups[name]) }

// Members returns the groups of each person by name; nil if no file names a group.
func (d *Directory) Members() map[string][]string {
	if !d.grouped {
		return nil
	}
	return maps.Clone(d.groups)
}

// Keys returns the keys with which approvers sign, by their names.
func (d *Directory) Keys() toolcall.ApproverKeys { return d.keys }

// People returns how many people are in some group.
func (d *Directory) People() int { return len(d.groups) }

type file struct {
	Version   textfile.Integer    `yaml:"version"`
	Groups    map[string][]string `yaml:"groups"`
	Approvers map[string]approver `yaml:"approvers"`
}

type approver struct {
	Keys []string `yaml:"keys"`
}

// Named is a file's text; the name is for messages.
type Named struct {
	Name string
	Data []byte
}

// Load reads files.
func Load(paths ...string) (*Directory, error) {
	files, err := read(paths)
	if err != nil {
		return nil, err
	}
	return Parse(files...)
}

func read(paths []string) ([]Named, error) {
	var out []Named
	for _, path := range paths {
		data, err := textfile.Read("directory", path, textfile.MaxBytes)
		if err != nil {
			return nil, err
		}
		if err := CheckEnd(path, data); err != nil {
			return nil, err
		}
		out = append(out, Named{path, data})
	}
	return out, nil
}

// CheckEnd refuses a file that ends within a line: a name may be cut off, and be that of another person.
func CheckEnd(path string, data []byte) error {
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return &textfile.Error{Kind: "directory", File: path, Err: &textfile.FaultError{Msg: "may be half written: it ends within a line", Hint: "end the file with a newline"}}
	}
	return nil
}

// Parse combines files: people are in the groups that any of them names. Errors are
// *textfile.Error.
func Parse(files ...Named) (*Directory, error) {
	d := &Directory{groups: map[string][]string{}, keys: toolcall.ApproverKeys{}}
	for _, f := range files {
		if err := d.add(f); err != nil {
			return nil, &textfile.Error{Kind: "directory", File: f.Name, Err: err}
		}
	}
	for name, groups := range d.groups {
		slices.Sort(groups)
		d.groups[name] = slices.Compact(groups)
	}
	return d, nil
}

func (d *Directory) add(named Named) error {
	var f file
	if err := textfile.DecodeYAML(named.Data, &f); err != nil {
		return err
	}
	if err := textfile.CheckVersion(f.Version); err != nil {
		return err
	}
	for _, group := range slices.Sorted(maps.Keys(f.Groups)) {
		if err := d.addGroup(group, f.Groups[group]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Approvers)) {
		if err := d.addKeys(name, f.Approvers[name].Keys); err != nil {
			return fmt.Errorf("approvers: %w", err)
		}
	}
	return nil
}

func (d *Directory) addGroup(group string, names []string) error {
	if err := checkName("group", group); err != nil {
		return err
	}
	d.grouped = true
	for _, name := range names {
		if err := checkName("member", name); err != nil {
			return fmt.Errorf("groups: %s: %w", group, err)
		}
		d.groups[name] = append(d.groups[name], group)
	}
	return nil
}

func (d *Directory) addKeys(name string, texts []string) error {
	if err := checkName("approver", name); err != nil {
		return err
	}
	keys := d.keys[name]
	if keys == nil {
		keys = toolcall.KeySet{}
	}
	for _, text := range texts {
		key, err := toolcall.ParsePublicKey(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if owner := d.owner(key); owner != "" && owner != name {
			return fmt.Errorf("%s: the key %s already belongs to %s", name, toolcall.KeyID(key), owner)
		}
		keys[toolcall.KeyID(key)] = key
	}
	d.keys[name] = keys
	return nil
}

// owner returns who has the key so far: with one key for two names, one person would count as two.
func (d *Directory) owner(key ed25519.PublicKey) string {
	for name, keys := range d.keys {
		if keys[toolcall.KeyID(key)] != nil {
			return name
		}
	}
	return ""
}

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a %s has no name", what)
	case len(name) > toolcall.MaxIDBytes:
		return fmt.Errorf("a %s has a name of %d bytes, the limit is %d", what, len(name), toolcall.MaxIDBytes)
	}
	return nil
}

// Live is a directory that follows its files and its bucket. Its methods may be
// called from several goroutines; Watch runs once.
type Live struct {
	paths  []string
	bucket *journal.PolicyBucket
	log    *slog.Logger
	now    atomic.Pointer[state]
	files  plainfile.Reloader
}

type state struct {
	files  []Named
	dir    *Directory
	source string
}

// Open reads files and, unless it is nil, a bucket. Invalid files are an error.
func Open(ctx context.Context, paths []string, bucket *journal.PolicyBucket, log *slog.Logger) (*Live, error) {
	l := &Live{paths: paths, bucket: bucket, log: log}
	l.files.Report = func(err error) {
		if err != nil {
			log.Error("the directory is refused; the last good one stays in force", "error", err)
			return
		}
		log.Warn("the directory is valid again")
	}
	_, err := l.Reload(ctx)
	return l, err
}

// IsRefused reports whether the files are refused now, and an older state is in force.
func (l *Live) IsRefused() bool {
	_, err := l.files.Fault()
	return err != nil
}

// Groups implements engine.Directory.
func (l *Live) Groups(_ context.Context, by toolcall.Principal) (engine.Membership, error) {
	s := l.now.Load()
	return engine.Membership{Groups: s.dir.Groups(by.Name), Source: s.source}, nil
}

// Now returns the directory in force.
func (l *Live) Now() *Directory { return l.now.Load().dir }

// ApproverKeys returns the keys of approvers in force.
func (l *Live) ApproverKeys() toolcall.ApproverKeys { return l.Now().Keys() }

// Reload reads everything again and reports whether it has changed. After an error,
// the old state stays in force.
func (l *Live) Reload(ctx context.Context) (changed bool, err error) {
	files, err := l.read(ctx)
	if err != nil {
		return false, err
	}
	return l.load(files)
}

func (l *Live) read(ctx context.Context) ([]Named, error) {
	files, err := read(l.paths)
	if err != nil || l.bucket == nil {
		return files, err
	}
	found, err := l.bucket.Read(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		files = append(files, Named{l.bucket.Name() + "/" + f.Name, f.Data})
	}
	return files, nil
}

func (l *Live) load(files []Named) (changed bool, err error) {
	if before := l.now.Load(); before != nil && slices.EqualFunc(before.files, files, isSame) {
		return false, nil
	}
	d, err := Parse(files...)
	if err != nil {
		return false, err
	}
	source := "file"
	if l.bucket != nil {
		source = "nats-kv"
		if len(l.paths) > 0 {
			source = "file+nats-kv"
		}
	}
	l.now.Store(&state{files: files, dir: d, source: source})
	return true, nil
}

func isSame(a, b Named) bool { return a.Name == b.Name && string(a.Data) == string(b.Data) }

// Watch reloads until ctx ends, and logs changes and errors. A change counts at the second look that
// finds it, so a file that is being written is left alone.
func (l *Live) Watch(ctx context.Context, every time.Duration) {
	seen := l.now.Load().files
	l.files.Watch(ctx, every, func(ctx context.Context) error {
		found, err := l.read(ctx)
		before := seen
		if seen = found; err != nil {
			return err
		}
		if !slices.EqualFunc(before, found, isSame) {
			_, err := l.files.Fault()
			return err
		}
		changed, err := l.load(found)
		if changed {
			l.log.Warn("the directory has changed and is in force", "people", l.Now().People())
		}
		return err
	})
}
