// Package hookfile reads the YAML file with the destinations of messages about approval
// requests and outcomes; gateway/webhook/WEBHOOKS.md has an example. A secret is whsec_ and the
// base64 of 24 to 64 random bytes. It is in a file or in an environment variable, never in this
// file. Unknown keys are refused; an error has file, line and column.
package hookfile

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/gateway/webhook"
)

const maxSecret = 4096

// source says where a secret is.
type source struct {
	File string `yaml:"file"`
	Env  string `yaml:"env"`
}

type entry struct {
	Name     string            `yaml:"name"`
	URL      string            `yaml:"url"`
	URLFile  string            `yaml:"url_file"`
	URLEnv   string            `yaml:"url_env"`
	Secrets  []source          `yaml:"secrets"`
	Events   []webhook.Event   `yaml:"events"`
	Tools    []string          `yaml:"tools"`
	Format   webhook.Format    `yaml:"format"`
	Timeout  string            `yaml:"timeout"`
	Attempts *textfile.Integer `yaml:"attempts"`
}

type file struct {
	Version      textfile.Integer `yaml:"version"`
	Destinations []entry          `yaml:"destinations"`
}

// kind is what the file is called in errors.
const kind = "webhooks file"

// Load reads a webhooks file, and the secrets that it names.
func Load(path string) ([]webhook.Destination, error) {
	data, err := textfile.Read(kind, path, textfile.MaxBytes)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Names returns the names of the destinations in a file as far as it can be read, without their
// secrets.
func Names(path string) (names []string) {
	var f file
	data, err := textfile.Read(kind, path, textfile.MaxBytes)
	if err == nil && textfile.DecodeYAML(data, &f) == nil {
		for _, e := range f.Destinations {
			names = append(names, e.Name)
		}
	}
	return names
}

// Parse reads the text of a webhooks file; name is for messages. Errors are
// *textfile.Error.
func Parse(name string, data []byte) ([]webhook.Destination, error) {
	fault := func(part string, err error) error {
		return &textfile.Error{Kind: kind, File: name, Part: part, Err: err}
	}
	var f file
	if err := textfile.DecodeYAML(data, &f); err != nil {
		return nil, fault("", err)
	}
	if err := textfile.CheckVersion(f.Version); err != nil {
		return nil, fault("", err)
	}
	var out []webhook.Destination
	for _, e := range f.Destinations {
		d, err := e.destination()
		if err != nil {
			return nil, fault(fmt.Sprintf("destination %.80q", e.Name), err)
		}
		out = append(out, d)
	}
	if err := webhook.Check(out); err != nil {
		return nil, fault("", err)
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
			return d, fmt.Errorf("timeout: %.40q is not a time above 0, write for example 15s", e.Timeout)
		}
	}
	if e.Attempts != nil {
		if d.Attempts = int(*e.Attempts); d.Attempts < 1 {
			return d, fmt.Errorf("attempts: %d is below 1", d.Attempts)
		}
	}
	return d, nil
}

func (e entry) address() (string, error) {
	given := 0
	for _, s := range []string{e.URL, e.URLFile, e.URLEnv} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		return "", errors.New("pass exactly one of url, url_file and url_env")
	}
	if e.URL != "" {
		return e.URL, nil
	}
	if strings.Contains(e.URLFile+e.URLEnv, "://") { // do not show what may be a secret
		return "", errors.New("url_file and url_env name a file and a variable that contain the URL; write the URL itself as url")
	}
	return source{e.URLFile, e.URLEnv}.read("url")
}

// String says where the secret is, not what it is.
func (s source) String() string {
	if s.File != "" {
		return s.File
	}
	return "$" + s.Env
}

func (s source) read(key string) (string, error) {
	if (s.File == "") == (s.Env == "") {
		return "", fmt.Errorf("%s: pass exactly one of file and env", key)
	}
	if s.Env != "" {
		text := strings.TrimSpace(os.Getenv(s.Env))
		if text == "" {
			return "", fmt.Errorf("%s: the environment variable %s is not set", key, s.Env)
		}
		return text, nil
	}
	b, err := textfile.Read(key, s.File, maxSecret)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}
