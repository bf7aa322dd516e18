package bus

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/internal/plainfile"
)

// ArchiveStore keeps the files of archives.
type ArchiveStore interface {
	// Put stores what write writes under a new name. It is durable when Put returns.
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Files are the names of all files that it keeps, unfinished ones included.
	Files(ctx context.Context) ([]string, error)
	// Remove removes a file.
	Remove(ctx context.Context, name string) error
	// Open opens a file; fs.ErrNotExist: it is not there.
	Open(ctx context.Context, name string) (ArchiveFile, error)
}

// ArchiveFile is an open file of an archive.
type ArchiveFile interface {
	io.ReaderAt
	io.Closer
}

// ArchiveFolder keeps archives in a folder, which is made when it is needed.
type ArchiveFolder string

// Put implements ArchiveStore.
func (d ArchiveFolder) Put(_ context.Context, name string, write func(io.Writer) error) error {
	return secretfile.Write("write archive", filepath.Join(string(d), name), write)
}

// Files implements ArchiveStore.
func (d ArchiveFolder) Files(context.Context) ([]string, error) {
	found, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, secretfile.Error("list archives", string(d), err)
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.Name()
	}
	return names, nil
}

// Remove implements ArchiveStore.
func (d ArchiveFolder) Remove(_ context.Context, name string) error {
	path := filepath.Join(string(d), name)
	if err := os.Remove(path); err != nil {
		return secretfile.Error("remove archive", path, err)
	}
	return nil
}

// Open implements ArchiveStore.
func (d ArchiveFolder) Open(_ context.Context, name string) (ArchiveFile, error) {
	f, _, err := plainfile.Open(filepath.Join(string(d), name))
	if err != nil {
		return nil, err
	}
	return f, nil
}
