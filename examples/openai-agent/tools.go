package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// tool is a tool that the model may call.
type tool struct {
	name, about, schema string
	run                 func(*os.Root, args) (string, error)
}

// args are the arguments of all tools.
type args struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

const (
	onlyPath   = `{"type":"object","properties":{"path":{"type":"string","minLength":1}},"required":["path"],"additionalProperties":false}`
	pathAndAll = `{"type":"object","properties":{"path":{"type":"string","minLength":1},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}`
)

// toolbox contains all tools. Paths cannot leave the folder, not even through links.
var toolbox = []tool{
	{"list_files", "Lists a folder. The folder itself is \".\".", onlyPath, list},
	{"read_file", "Reads a text file.", onlyPath, read},
	{"write_file", "Writes a text file, in place of what was there.", pathAndAll, write},
	{"delete_file", "Deletes a file.", onlyPath, remove},
}

// describeTools returns the toolbox as it is described to a model.
func describeTools() []agent.Tool {
	var out []agent.Tool
	for _, t := range toolbox {
		out = append(out, agent.Tool{Name: t.name, Description: t.about, Parameters: message.RawJSON(t.schema)})
	}
	return out
}

// tools returns the toolbox as tools of the engine.
func tools() ([]engine.Tool, error) {
	var out []engine.Tool
	for _, t := range toolbox {
		schema, err := permission.CompileSchema([]byte(t.schema))
		if err != nil {
			return nil, err
		}
		out = append(out, engine.Tool{Tool: permission.Tool{Name: t.name, Schema: schema}, Description: t.about, ConcurrencySafe: true})
	}
	return out, nil
}

// register registers the tools for a folder.
func register(r *executor.Registry, folder string) error {
	_, err := os.Stat(folder)
	errs := []error{err}
	for _, t := range toolbox {
		errs = append(errs, r.Register(t.name, func(_ context.Context, task executor.Task) (executor.Output, error) {
			var a args
			if err := task.Decode(&a); err != nil {
				return executor.Output{}, err
			}
			root, err := os.OpenRoot(folder)
			if err != nil {
				return executor.Output{}, err
			}
			defer root.Close()
			text, err := t.run(root, a)
			return executor.Text(text), err
		}))
	}
	return errors.Join(errs...)
}

// maxFile bounds how much of a file is read.
const maxFile = 128 << 10

func list(root *os.Root, a args) (string, error) {
	entries, err := fs.ReadDir(root.FS(), strings.TrimPrefix(a.Path, "./"))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, e := range entries {
		out.WriteString(e.Name())
		if e.IsDir() {
			out.WriteByte('/')
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}

func read(root *os.Root, a args) (string, error) {
	f, err := root.Open(a.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(text), err
}

func write(root *os.Root, a args) (string, error) {
	if err := root.WriteFile(a.Path, []byte(a.Content), 0o644); err != nil {
		return "", err
	}
	return "written", nil
}

func remove(root *os.Root, a args) (string, error) {
	if err := root.Remove(a.Path); err != nil {
		return "", err
	}
	return "deleted", nil
}
