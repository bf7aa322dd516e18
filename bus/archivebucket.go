package bus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	// archiveTransfer limits the time to store or read one file.
	archiveTransfer = 10 * time.Minute
	archiveChunk    = 128 << 10
	// keptFiles is how many files are kept in temporary files.
	keptFiles = 16
)

// ArchiveBucketName returns the name of a space's object store of archives.
func ArchiveBucketName(space toolcall.SpaceID) string { return "ASKANCE_ARCHIVE_" + string(space) }

func archiveStream(space toolcall.SpaceID) string { return "OBJ_" + ArchiveBucketName(space) }

// ArchiveBucket keeps archives in a NATS object store, where all engines of a space find
// them. The first Put creates it, with three replicas on a cluster. Files that it does not
// have are looked for in a folder. It is safe for concurrent use.
type ArchiveBucket struct {
	nc     *nats.Conn
	space  toolcall.SpaceID
	folder ArchiveStore // nil: none

	mu   sync.Mutex     // guards kept
	kept []*fetchedFile // the files that were read last, oldest first: records are read in many small parts
}

// NewArchiveBucket returns the object store of a space. folder may be nil.
func NewArchiveBucket(nc *nats.Conn, space toolcall.SpaceID, folder ArchiveStore) *ArchiveBucket {
	return &ArchiveBucket{nc: nc, space: space, folder: folder}
}

// fetchedFile is a file of an object store, copied into a temporary file without a name.
type fetchedFile struct {
	*os.File
	nuid string // of the stored file: another one of the same name has another
	uses int    // guarded by the mu of the bucket; the bucket itself is one
}

// open returns the object store, or fs.ErrNotExist.
func (b *ArchiveBucket) open(ctx context.Context, op string) (jetstream.ObjectStore, error) {
	js, err := jetstream.New(b.nc)
	if err != nil {
		return nil, apiError(op, "JetStream of this connection", err)
	}
	store, err := js.ObjectStore(ctx, ArchiveBucketName(b.space))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, b.apiError(op, err)
	}
	st, err := js.Stream(ctx, archiveStream(b.space))
	if err != nil {
		return nil, b.apiError(op, err)
	}
	return store, checkKept(op, "bucket "+ArchiveBucketName(b.space), st.CachedInfo().Config)
}

func (b *ArchiveBucket) create(ctx context.Context, op string) (store jetstream.ObjectStore, err error) {
	js, err := jetstream.New(b.nc)
	if err != nil {
		return nil, apiError(op, "JetStream of this connection", err)
	}
	err = createReplicated(0, func(n int) (err error) {
		store, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: ArchiveBucketName(b.space), Description: "askance archives of the space " + string(b.space), Storage: jetstream.FileStorage, Replicas: n,
		})
		return err
	})
	if err != nil {
		return nil, b.apiError(op, err)
	}
	return store, nil
}

func (b *ArchiveBucket) apiError(op string, err error) error {
	return apiError(op, "bucket "+ArchiveBucketName(b.space), err)
}

// Put implements ArchiveStore.
func (b *ArchiveBucket) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	const op = "write archive"
	store, err := b.open(ctx, op)
	if errors.Is(err, fs.ErrNotExist) {
		store, err = b.create(ctx, op)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, archiveTransfer)
	defer cancel()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		to := bufio.NewWriterSize(w, archiveChunk)
		err := errors.Join(write(to), to.Flush())
		_ = w.CloseWithError(err) // never fails; nil is the end
		written <- err
	}()
	_, err = store.Put(ctx, jetstream.ObjectMeta{Name: name}, r)
	if err != nil {
		err = b.apiError(op, err)
	}
	_ = r.CloseWithError(io.ErrClosedPipe) // never fails, and ends a write that is not read
	if failed := <-written; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return failed
	}
	return err
}

// Files implements ArchiveStore.
func (b *ArchiveBucket) Files(ctx context.Context) ([]StoredFile, error) {
	const op = "list archives"
	store, err := b.open(ctx, op)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := store.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, b.apiError(op, err)
	}
	var files []StoredFile
	for _, x := range found {
		files = append(files, StoredFile{x.Name, x.ModTime})
	}
	return files, nil
}

// Remove implements ArchiveStore.
func (b *ArchiveBucket) Remove(ctx context.Context, name string) error {
	const op = "remove archive"
	store, err := b.open(ctx, op)
	if err == nil {
		err = store.Delete(ctx, name)
	}
	if err != nil {
		return b.apiError(op, err)
	}
	return nil
}

// Open implements ArchiveStore.
func (b *ArchiveBucket) Open(ctx context.Context, name string) (ArchiveFile, error) {
	ctx, cancel := context.WithTimeout(ctx, archiveTransfer)
	defer cancel()
	store, info, err := b.findFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) && b.folder != nil {
		return b.folder.Open(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.kept, func(f *fetchedFile) bool { return f.nuid == info.NUID }); i >= 0 {
		f := b.kept[i]
		b.kept = append(slices.Delete(b.kept, i, i+1), f)
		f.uses++
		return &archiveUse{b: b, f: f}, nil
	}
	f, err := b.fetchFile(ctx, store, info)
	if err != nil {
		return nil, err
	}
	if len(b.kept) == keptFiles {
		b.releaseFile(b.kept[0])
		b.kept = b.kept[1:]
	}
	b.kept, f.uses = append(b.kept, f), 2
	return &archiveUse{b: b, f: f}, nil
}

// findFile returns fs.ErrNotExist if the object store or the file does not exist.
func (b *ArchiveBucket) findFile(ctx context.Context, name string) (jetstream.ObjectStore, *jetstream.ObjectInfo, error) {
	store, err := b.open(ctx, opReadArchive)
	if err != nil {
		return nil, nil, err
	}
	info, err := store.GetInfo(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, nil, b.apiError(opReadArchive, err)
	}
	return store, info, nil
}

const opReadArchive = "read archive"

// fetchFile copies a file into a temporary one, whose name is removed at once.
func (b *ArchiveBucket) fetchFile(ctx context.Context, store jetstream.ObjectStore, info *jetstream.ObjectInfo) (*fetchedFile, error) {
	from, err := store.Get(ctx, info.Name)
	if err != nil {
		return nil, b.apiError(opReadArchive, err)
	}
	defer func() { _ = from.Close() }() // it was only read
	to, err := os.CreateTemp("", "askance-archive-*")
	if err != nil {
		return nil, fmt.Errorf("read archive: make a temporary file: %w", err)
	}
	_ = os.Remove(to.Name()) // if this fails, the system removes it with other temporary files
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close() // the copy failed
		return nil, &message.Error{Code: message.CodeUnavailable, Op: opReadArchive, What: "the file " + info.Name + " in bucket " + ArchiveBucketName(b.space) + " cannot be read", Hint: "check that NATS runs with JetStream and that the folder of temporary files has room", Err: err}
	}
	return &fetchedFile{File: to, nuid: info.NUID}, nil
}

// releaseFile ends one use. b.mu is held.
func (b *ArchiveBucket) releaseFile(f *fetchedFile) {
	if f.uses--; f.uses == 0 {
		_ = f.Close() // it was only read
	}
}

// archiveUse is one use of a fetchedFile file.
type archiveUse struct {
	b *ArchiveBucket
	f *fetchedFile
}

func (u *archiveUse) ReadAt(p []byte, off int64) (int, error) { return u.f.ReadAt(p, off) }

// Close ends the use; later reads may fail.
func (u *archiveUse) Close() error {
	u.b.mu.Lock()
	defer u.b.mu.Unlock()
	u.b.releaseFile(u.f)
	return nil
}
