package journal

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus/internal/archive"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// ArchiveStore keeps the files of archives.
type ArchiveStore interface {
	// Put stores the output of write under a new name. It is durable when Put returns. If it fails
	// on the way, it may call write again.
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Files lists all stored files, including unfinished ones.
	Files(ctx context.Context) ([]StoredFile, error)
	// Remove removes a file.
	Remove(ctx context.Context, name string) error
	// Open opens a file. It returns fs.ErrNotExist if there is none.
	Open(ctx context.Context, name string) (ArchiveFile, error)
}

// StoredFile is a file of an ArchiveStore.
type StoredFile struct {
	Name string
	Keep bool // another archiver or another journal may need it
}

func (f StoredFile) isUnfinished() bool { return strings.HasSuffix(f.Name, secretfile.Unfinished) }

// ArchiveFile is an open file of an archive.
type ArchiveFile interface {
	io.ReaderAt
	io.Closer
}

// ArchiveFolder keeps archives in a folder, which it creates when needed.
type ArchiveFolder string

// Put implements ArchiveStore.
func (a ArchiveFolder) Put(_ context.Context, name string, write func(io.Writer) error) error {
	return secretfile.Write("write archive", filepath.Join(string(a), name), write)
}

// Files implements ArchiveStore.
func (a ArchiveFolder) Files(context.Context) ([]StoredFile, error) {
	found, err := os.ReadDir(string(a))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, secretfile.Error("list archives", string(a), err)
	}
	files := make([]StoredFile, len(found))
	for i, f := range found {
		files[i].Name = f.Name()
	}
	return files, nil
}

// Remove implements ArchiveStore.
func (a ArchiveFolder) Remove(_ context.Context, name string) error {
	path := filepath.Join(string(a), name)
	if err := os.Remove(path); err != nil {
		return secretfile.Error("remove archive", path, err)
	}
	return nil
}

// Open implements ArchiveStore.
func (a ArchiveFolder) Open(_ context.Context, name string) (ArchiveFile, error) {
	f, _, err := plainfile.Open(filepath.Join(string(a), name))
	if err != nil {
		return nil, err
	}
	return f, nil
}

var errNotThere = errors.New("it is not in the folder of archives")

// copyFile copies a file of an archive, and fails if the file differs from want.
func copyFile(ctx context.Context, name string, want proof.Sum, from, to ArchiveStore) error {
	switch {
	case from == nil || to == nil:
		return errNoStore
	case name != filepath.Base(name):
		return errChanged
	}
	f, err := from.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return errNotThere
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return to.Put(ctx, name, func(w io.Writer) error {
		sum := &summed{w: w, sum: sha256.New()}
		if _, err := io.Copy(sum, io.NewSectionReader(f, 0, want.Bytes+1)); err != nil {
			return err
		}
		if sum.result() != want {
			return errChanged
		}
		return nil
	})
}

var errMisread = &message.Error{Code: message.CodeInternal, Op: "archive", What: "the written file does not have the records of the archive", Hint: "check the disk; nothing was deleted"}

// The archives of a copy are files in a folder, next to a list of them.
const (
	archivesFolder = "archive"
	archivesList   = "archives.json"
)

// copiedArchive is an archive as its checkpoint announces it.
type copiedArchive struct {
	Name  string    `json:"name"`
	Index proof.Sum `json:"index"`
	File  proof.Sum `json:"file,omitzero"` // zero: it was stored elsewhere
}

// announcedArchives reads the archives that verified checkpoints announce.
func announcedArchives(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, space toolcall.SpaceID, keys *keyfile.Keys) ([]*archived, error) {
	ledger := checkpoints{store: reader{nc: nc, js: js, stream: LedgerName(space)}, space: space, signing: func() *keyfile.Keys { return keys }, optional: true, before: &atomic.Pointer[proof.Hash]{}}
	last, err := ledger.readNewest(ctx)
	if err != nil {
		return nil, err
	}
	all := archives{space: space}
	err = all.update(ctx, ledger, last)
	return all.allArchives(), err
}

// backUpArchives copies the files of archives and lists them.
func backUpArchives(ctx context.Context, all []*archived, from ArchiveStore, folder string, out *Copied) error {
	const op = "back up"
	if len(all) == 0 {
		return nil
	}
	to := ArchiveFolder(filepath.Join(folder, archivesFolder))
	var list []copiedArchive
	for _, a := range all {
		c := copiedArchive{a.Name, a.Index, a.File}
		if err := copyFile(ctx, a.Name+archive.IndexSuffix, a.Index, from, to); secretfile.IsDiskFull(err) {
			return secretfile.Error(op, folder, err)
		} else if err != nil {
			return &message.Error{Code: message.CodeNotFound, Op: op, What: "cannot copy the index of the archive " + a.Name + ", without which a restored journal refuses all new calls", Hint: "name the data folder that has the archives with --data", Err: err}
		}
		switch err := copyFile(ctx, a.Name+archive.FileSuffix, a.File, from, to); {
		case errors.Is(err, errNotThere):
			c.File, out.Missing = proof.Sum{}, append(out.Missing, a.Name+archive.FileSuffix)
		case errors.Is(err, errChanged):
			return &message.Error{Code: message.CodeDamaged, Op: op, What: "the file " + a.Name + archive.FileSuffix + " differs from what was signed", Hint: "put the original file back, or move this file away: the backup can then prove its records but does not contain them", Err: err}
		case secretfile.IsDiskFull(err):
			return secretfile.Error(op, folder, err)
		case err != nil:
			return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the file " + a.Name + archive.FileSuffix + " cannot be copied", Hint: "check its permissions and the free space for the backup, remove the folder and try again", Err: err}
		}
		list, out.Archives = append(list, c), append(out.Archives, a.Name)
	}
	text, err := strictjson.Marshal(list)
	if err != nil {
		return err
	}
	return secretfile.Replace(filepath.Join(folder, archivesList), text, 0o600)
}

// restoreArchives puts the files of a copy's archives back.
func restoreArchives(ctx context.Context, folder string, names []string, to ArchiveStore, out *Copied) error {
	if len(names) == 0 {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(folder, archivesList))
	var all []copiedArchive
	if err == nil {
		err = strictjson.UnmarshalOpen(text, &all)
	}
	if err != nil || !slices.EqualFunc(all, names, func(a copiedArchive, name string) bool { return a.Name == name }) {
		return &message.Error{Code: message.CodeDamaged, Op: "restore", What: "the list of the archives in the copy, " + archivesList + ", is missing or was changed after the backup", Hint: "use another backup", Err: err}
	}
	from := ArchiveFolder(filepath.Join(folder, archivesFolder))
	for _, a := range all {
		for name, sum := range map[string]proof.Sum{a.Name + archive.IndexSuffix: a.Index, a.Name + archive.FileSuffix: a.File} {
			if sum == (proof.Sum{}) {
				out.Missing = append(out.Missing, name)
				continue
			}
			err := copyFile(ctx, name, sum, from, to)
			if errors.Is(err, errNoStore) {
				return &message.Error{Code: message.CodeInvalid, Op: "restore", What: "the copy has archives, and there is no store for them", Hint: "pass one", Err: err}
			}
			if err != nil && !errors.Is(err, errChanged) && !errors.Is(err, errNotThere) {
				return err
			}
			if err != nil {
				return &message.Error{Code: message.CodeDamaged, Op: "restore", What: "the copy of the archive " + a.Name + " was changed after the backup", Hint: "use another backup; only files of archives were restored", Err: err}
			}
		}
		out.Archives = append(out.Archives, a.Name)
	}
	return nil
}
