package directory

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/askance-dev/askance/message"
)

// MaxBytes bounds a directory file.
const MaxBytes = 1 << 20

// Directory is what files say together. It is not changed once it is read.
type Directory struct {
	groups  map[string][]string
	grouped bool // a file names a group, be it an empty one
	keys    message.ApproverKeys
}

// Groups of a person, sorted.
func (d *Directory) Groups(name string) []string { return slices.Clone(d.groups[name]) }

// Members are the groups of everybody by name; nil if no file names a group.
func (d *Directory) Members() map[string][]string {
	if !d.grouped {
		return nil
	}
	return maps.Clone(d.groups)
}

// Keys are those with which approvers sign, by their names.
func (d *Directory) Keys() message.ApproverKeys { return d.keys }

// People is how many people are in some group.
func (d *Directory) People() int { return len(d.groups) }

// Error says what is wrong with a file.
type Error struct {
	File string
	Err  error
}

func (e *Error) Error() string { return "directory " + e.File + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

type file struct {
	Version   int                 `yaml:"version"`
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
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("directory: %w", err)
		}
		data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
		_ = f.Close() // only read
		if err != nil {
			return nil, fmt.Errorf("directory: %w", err)
		}
		out = append(out, Named{path, data})
	}
	return out, nil
}

// Parse puts files together: people are in the groups that any of them names.
func Parse(files ...Named) (*Directory, error) {
	d := &Directory{groups: map[string][]string{}, keys: message.ApproverKeys{}}
	for _, f := range files {
		if err := d.add(f); err != nil {
			return nil, &Error{File: f.Name, Err: err}
		}
	}
	for name, groups := range d.groups {
		slices.Sort(groups)
		d.groups[name] = slices.Compact(groups)
	}
	return d, nil
}

func (d *Directory) add(named Named) (err error) {
	defer func() { // the YAML library has had panics on odd input
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be read as YAML: %v", r)
		}
	}()
	if len(named.Data) > MaxBytes {
		return errors.New("is longer than 1 MiB")
	}
	var f file
	dec := yaml.NewDecoder(bytes.NewReader(named.Data), yaml.Strict())
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return errors.New(yaml.FormatError(err, false, false))
	}
	var more any
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("has more than one document")
	}
	if f.Version != 1 {
		return fmt.Errorf("version is %d, write version: 1", f.Version)
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
	if err := plain("group", group); err != nil {
		return err
	}
	d.grouped = true
	for _, name := range names {
		if err := plain("member", name); err != nil {
			return fmt.Errorf("groups: %s: %w", group, err)
		}
		d.groups[name] = append(d.groups[name], group)
	}
	return nil
}

func (d *Directory) addKeys(name string, texts []string) error {
	if err := plain("approver", name); err != nil {
		return err
	}
	keys := d.keys[name]
	if keys == nil {
		keys = message.KeySet{}
	}
	for _, text := range texts {
		key, err := message.ParsePublicKey(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if owner := d.owner(key); owner != "" && owner != name {
			return fmt.Errorf("%s: the key %s is %s's already", name, message.KeyID(key), owner)
		}
		keys[message.KeyID(key)] = key
	}
	d.keys[name] = keys
	return nil
}

// owner is whose key it is so far: one key for two people would count one
// person's word as that of two.
func (d *Directory) owner(key ed25519.PublicKey) string {
	for name, keys := range d.keys {
		if keys[message.KeyID(key)] != nil {
			return name
		}
	}
	return ""
}

func plain(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a %s has no name", what)
	case len(name) > message.MaxIDBytes:
		return fmt.Errorf("a %s has a name of %d bytes, the limit is %d", what, len(name), message.MaxIDBytes)
	}
	return nil
}
