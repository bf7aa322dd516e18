package hookfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/askance-dev/askance/gateway/webhook"
)

// Bounds of what is read.
const (
	MaxBytes  = 1 << 20
	maxSecret = 4096
)

// Error says what is wrong with a webhooks file, and where.
type Error struct {
	File        string
	Destination string // "" where it is not about one
	Err         error
}

// Error names the file and the destination.
func (e *Error) Error() string {
	s := "webhooks file " + e.File
	if e.Destination != "" {
		s += ": destination " + e.Destination
	}
	return s + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// source is where a secret stands.
type source struct {
	File string `yaml:"file"`
	Env  string `yaml:"env"`
}

// entry is a destination as the file spells it.
type entry struct {
	Name     string          `yaml:"name"`
	URL      string          `yaml:"url"`
	URLFile  string          `yaml:"url_file"`
	URLEnv   string          `yaml:"url_env"`
	Secrets  []source        `yaml:"secrets"`
	Events   []webhook.Event `yaml:"events"`
	Tools    []string        `yaml:"tools"`
	Format   webhook.Format  `yaml:"format"`
	Timeout  string          `yaml:"timeout"`
	Attempts *int            `yaml:"attempts"`
}

type file struct {
	Version      int     `yaml:"version"`
	Destinations []entry `yaml:"destinations"`
}

// Load reads a webhooks file, and the secrets that it names.
func Load(path string) ([]webhook.Destination, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("webhooks file: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("webhooks file: %w", err)
	}
	return Parse(path, data)
}

// Parse reads the text of a webhooks file; name is for messages.
func Parse(name string, data []byte) (out []webhook.Destination, err error) {
	// The YAML library has had panics on odd input; no file may end the program.
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, &Error{File: name, Err: fmt.Errorf("cannot be read as YAML: %v", r)}
		}
	}()
	if len(data) > MaxBytes {
		return nil, &Error{File: name, Err: errors.New("is longer than 1 MiB")}
	}
	var f file
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, &Error{File: name, Err: errors.New(yaml.FormatError(err, false, false))}
	}
	if f.Version != 1 {
		return nil, &Error{File: name, Err: fmt.Errorf("version: %d is not known, write 1", f.Version)}
	}
	for _, e := range f.Destinations {
		d, err := e.destination()
		if err != nil {
			return nil, &Error{File: name, Destination: fmt.Sprintf("%.80q", e.Name), Err: err}
		}
		out = append(out, d)
	}
	if err := webhook.Check(out); err != nil {
		return nil, &Error{File: name, Err: err}
	}
	return out, nil
}

func (e entry) destination() (webhook.Destination, error) {
	d := webhook.Destination{Name: e.Name, Events: e.Events, Tools: e.Tools, Format: e.Format}
	var err error
	if d.URL, err = e.address(); err != nil {
		return d, err
	}
	for _, s := range e.Secrets {
		text, err := s.read("secrets")
		if err != nil {
			return d, err
		}
		secret, err := webhook.ParseSecret(text)
		if err != nil {
			return d, fmt.Errorf("secrets: %s: %w", s, err)
		}
		d.Secrets = append(d.Secrets, secret)
	}
	if e.Timeout != "" {
		if d.Timeout, err = time.ParseDuration(e.Timeout); err != nil || d.Timeout <= 0 {
			return d, fmt.Errorf("timeout: %.40q is no time above 0, write for example 15s", e.Timeout)
		}
	}
	if e.Attempts != nil {
		if d.Attempts = *e.Attempts; d.Attempts < 1 {
			return d, fmt.Errorf("attempts: %d is below 1", d.Attempts)
		}
	}
	return d, nil
}

// address is that of the receiver, wherever it stands.
func (e entry) address() (string, error) {
	given := 0
	for _, s := range []string{e.URL, e.URLFile, e.URLEnv} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		return "", errors.New("give one of url, url_file and url_env")
	}
	if e.URL != "" {
		return e.URL, nil
	}
	return source{e.URLFile, e.URLEnv}.read("url")
}

// String says where it stands, not what.
func (s source) String() string {
	if s.File != "" {
		return s.File
	}
	return "$" + s.Env
}

func (s source) read(key string) (string, error) {
	if (s.File == "") == (s.Env == "") {
		return "", fmt.Errorf("%s: give one of file and env", key)
	}
	if s.Env != "" {
		text := strings.TrimSpace(os.Getenv(s.Env))
		if text == "" {
			return "", fmt.Errorf("%s: the environment variable %s is not set", key, s.Env)
		}
		return text, nil
	}
	f, err := os.Open(s.File)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	if len(b) > maxSecret {
		return "", fmt.Errorf("%s: %s is longer than a secret", key, s.File)
	}
	return strings.TrimSpace(string(b)), nil
}
