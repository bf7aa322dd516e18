// Package textfile reads the small files that operators write: tools, webhooks,
// people, settings. They are regular files, read whole and bounded. YAML is read strictly, and
// of exactly one document, so that nothing in a file is passed over; a fault is
// an [Error] with file, line and column.
package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"

	"github.com/askance-dev/askance/internal/plainfile"
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

// Read reads a regular file of at most so many bytes. Errors are those of the
// system, which name the file, and an [Error] of a longer one and of what is no
// regular file.
func Read(kind, path string, most int) ([]byte, error) {
	data, _, err := plainfile.Read(path, most)
	return checked(kind, path, most, data, err)
}

// ReadHanded is Read for a command that reads the file once: it takes the pipe
// that a shell hands over as <(…), too.
func ReadHanded(kind, path string, most int) ([]byte, error) {
	data, err := plainfile.ReadHanded(path, most)
	return checked(kind, path, most, data, err)
}

func checked(kind, path string, most int, data []byte, err error) ([]byte, error) {
	if odd, ok := errors.AsType[*plainfile.KindError](err); ok {
		return nil, &Error{Kind: kind, File: path, Err: errors.New("is " + odd.Kind + ", not a file")}
	}
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
	if err := noDirective(data); err != nil {
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

// noDirective refuses lines such as %YAML 1.2 before the document, which the
// library takes for one of their own.
func noDirective(data []byte) error {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		switch {
		case len(text) == 0 || text[0] == '#':
		case line[0] == '%':
			return &FaultError{Line: n, Col: 1, Msg: "contains a YAML directive", Hint: fmt.Sprintf("leave out the line %.40q", text)}
		default:
			return nil
		}
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
