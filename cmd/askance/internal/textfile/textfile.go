package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml"
)

// MaxBytes is the longest accepted file, where nothing else is said.
const MaxBytes = 1 << 20

// Error says what is wrong with a file, and where.
type Error struct {
	Kind string // what the file is, such as "tools file"
	File string
	Part string // what of it, such as "tool refund"; "" where it is the whole
	Err  error
}

// Error names the file, the place where it is known, and the part.
func (e *Error) Error() string {
	s := e.Kind + " " + e.File
	if f, ok := errors.AsType[*FaultError](e.Err); ok {
		if f.Line > 0 {
			s += fmt.Sprintf(":%d:%d", f.Line, f.Col)
		}
		if e.Part != "" {
			s += ": " + e.Part
		}
		return s + ": " + f.text()
	}
	if e.Part != "" {
		s += ": " + e.Part
	}
	return s + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Read reads a file of at most so many bytes. Errors are those of the system,
// which name the file, and an [Error] of a longer one.
func Read(kind, path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	if err := bounded(data, most); err != nil {
		return nil, &Error{Kind: kind, File: path, Err: err}
	}
	return data, nil
}

// DecodeYAML reads the one document of a YAML text of at most [MaxBytes] into
// what to points at. A key that to does not have is an error, and so is a key
// that is there twice. The empty text is a document without keys.
func DecodeYAML(data []byte, to any) (err error) {
	// The YAML library has had panics on odd input; no file may end the program.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be read as YAML: %v", r)
		}
	}()
	if err := bounded(data, MaxBytes); err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	switch err := d.Decode(to); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return faultOf(err)
	}
	var more any
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("has more than one document")
	}
	return nil
}

// CheckVersion refuses a file of another version than the one there is.
func CheckVersion(v int) error {
	if v != 1 {
		return fmt.Errorf("version is %d, write version: 1", v)
	}
	return nil
}

func bounded(data []byte, most int) error {
	switch {
	case len(data) <= most:
		return nil
	case most%(1<<20) == 0:
		return fmt.Errorf("is longer than %d MiB", most>>20)
	case most%(1<<10) == 0:
		return fmt.Errorf("is longer than %d KiB", most>>10)
	}
	return fmt.Errorf("is longer than %d bytes", most)
}
