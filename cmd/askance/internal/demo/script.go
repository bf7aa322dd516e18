package demo

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/askance-dev/askance/message"
)

// scriptFile is a file of a script, and where it is copied to.
type scriptFile struct {
	to   string
	data []byte
}

// copyScript copies the files of a script that are not in dir yet. The folder may
// have other files, so everything is read before anything is written: a file with
// different content is an error, and is never replaced.
func copyScript(script fs.FS, dir string) error {
	files, err := readScript(script, dir)
	if err != nil {
		return err
	}
	var missing []scriptFile
	for _, f := range files {
		there, err := os.ReadFile(f.to)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, f)
		case err != nil:
			return err
		case !bytes.Equal(there, f.data):
			return &message.Error{
				Code: message.CodeInvalid, Op: "copy the script", What: f.to + " already exists and is not the demo's",
				Hint: "name another folder with --data, or move the file away",
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, workspace), 0o700); err != nil {
		return err
	}
	for _, f := range missing {
		if err := f.create(); err != nil {
			return err
		}
	}
	return nil
}

func readScript(script fs.FS, dir string) ([]scriptFile, error) {
	var files []scriptFile
	err := fs.WalkDir(script, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if top, _, _ := strings.Cut(name, "/"); top != workspace && name != streamFile && name != policyFile && name != toolsFile {
			return nil
		}
		data, err := fs.ReadFile(script, name)
		files = append(files, scriptFile{filepath.Join(dir, filepath.FromSlash(name)), data})
		return err
	})
	return files, err
}

// create writes the file, and fails if it exists by now.
func (f scriptFile) create() error {
	if err := os.MkdirAll(filepath.Dir(f.to), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(f.to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(f.data)
	return errors.Join(err, file.Close())
}
