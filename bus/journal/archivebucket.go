package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/internal/sleep"
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
// have are read from a folder. It is safe for concurrent use.
type ArchiveBucket struct {
	nc     *nats.Conn
	space  toolcall.SpaceID
	folder ArchiveStore // nil: none
	// leftAfter is the age at which a file is no longer that of an archiver at work.
	leftAfter time.Duration

	mu   sync.Mutex     // guards kept
	kept []*fetchedFile // the files that were read last, oldest first: records are read in many small parts
}

// NewArchiveBucket returns the object store of a space. folder may be nil.
func NewArchiveBucket(nc *nats.Conn, space toolcall.SpaceID, folder ArchiveStore) *ArchiveBucket {
	return &ArchiveBucket{nc: nc, space: space, folder: folder, leftAfter: 24 * time.Hour}
}

// fetchedFile is a file of an object store, copied into a temporary file without a name.
type fetchedFile struct {
	*os.File
	nuid string // of the stored file: another one of the same name has another
	uses int    // guarded by the mu of the bucket; the bucket itself is one
}

// open returns the object store and its stream, or fs.ErrNotExist.
func (b *ArchiveBucket) open(ctx context.Context, op string) (store jetstream.ObjectStore, st jetstream.Stream, err error) {
	js, err := jetstream.New(b.nc)
	if err == nil {
		store, err = js.ObjectStore(ctx, ArchiveBucketName(b.space))
	}
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil, fs.ErrNotExist
	}
	if err == nil {
		st, err = js.Stream(ctx, archiveStream(b.space))
	}
	if err != nil {
		return nil, nil, b.apiError(op, err)
	}
	return store, st, checkKept(op, "bucket "+ArchiveBucketName(b.space), st.CachedInfo().Config)
}

func (b *ArchiveBucket) create(ctx context.Context, op string) (store jetstream.ObjectStore, err error) {
	js, err := jetstream.New(b.nc)
	if err != nil {
		return nil, b.apiError(op, err)
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
	return jsapi.Error(op, "bucket "+ArchiveBucketName(b.space), err)
}

// Put implements ArchiveStore. It writes the file again if the bucket, which another archiver may
// have created just now, has no leader.
func (b *ArchiveBucket) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	for began := time.Now(); ; {
		err := b.putOnce(ctx, name, write)
		if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrNoStreamResponse) || time.Since(began) > jsapi.GiveUpAfter || sleep.For(ctx, jsapi.RandomPause(jsapi.FirstPause)) != nil {
			return err
		}
	}
}

func (b *ArchiveBucket) putOnce(ctx context.Context, name string, write func(io.Writer) error) error {
	const op = "write archive"
	store, _, err := b.open(ctx, op)
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
	files, err := b.listObjects(ctx)
	if err != nil || b.folder == nil {
		return files, err
	}
	more, err := b.folder.Files(ctx)
	for _, f := range more { // other journals may have files there
		files = append(files, StoredFile{Name: f.Name, Keep: true})
	}
	return files, err
}

// listObjects lists files, and parts of files without an end: a killed archiver leaves them.
func (b *ArchiveBucket) listObjects(ctx context.Context) ([]StoredFile, error) {
	const op = "list archives"
	store, st, err := b.open(ctx, op)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(b.partsOf("*"))) // before the files: an end may follow
	if err != nil {
		return nil, b.apiError(op, err)
	}
	found, err := store.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, b.apiError(op, err)
	}
	var files []StoredFile
	list := func(name string, stored time.Time) { // both times are the server's
		files = append(files, StoredFile{name, info.TimeStamp.Sub(stored) < b.leftAfter})
	}
	parts := info.State.Subjects
	for _, x := range found {
		delete(parts, b.partsOf(x.NUID))
		list(x.Name, x.ModTime)
	}
	for subject := range parts {
		last, err := st.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // its archiver has failed and removed it
			continue
		}
		if err != nil {
			return nil, b.apiError(op, err)
		}
		list(partsPrefix+strings.TrimPrefix(subject, b.partsOf(""))+secretfile.Unfinished, last.Time)
	}
	return files, nil
}

// partsPrefix begins the name of an unfinished file, whose own name is not stored yet.
const partsPrefix = "parts-"

// partsOf is the subject of the parts of a file.
func (b *ArchiveBucket) partsOf(nuid string) string {
	return "$O." + ArchiveBucketName(b.space) + ".C." + nuid
}

// Remove implements ArchiveStore.
func (b *ArchiveBucket) Remove(ctx context.Context, name string) error {
	store, st, err := b.open(ctx, "remove archive")
	if err != nil {
		return err
	}
	if nuid, ok := strings.CutSuffix(name, secretfile.Unfinished); ok {
		err = st.Purge(ctx, jetstream.WithPurgeSubject(b.partsOf(strings.TrimPrefix(nuid, partsPrefix))))
	} else {
		err = store.Delete(ctx, name)
	}
	if err != nil {
		return b.apiError("remove archive", err)
	}
	return nil
}

// Open implements ArchiveStore. A server that goes down leaves requests without an answer, so the
// first attempt is short; a large file may need a longer one.
func (b *ArchiveBucket) Open(ctx context.Context, name string) (ArchiveFile, error) {
	ctx, cancel := context.WithTimeout(ctx, archiveTransfer)
	defer cancel()
	for limit := jsapi.GiveUpAfter; ; limit *= 4 {
		one, end := context.WithTimeout(ctx, limit)
		f, err := b.openOnce(one, name)
		silent := one.Err() != nil || errors.Is(err, context.DeadlineExceeded)
		if end(); err == nil || !silent || ctx.Err() != nil {
			return f, err
		}
	}
}

func (b *ArchiveBucket) openOnce(ctx context.Context, name string) (ArchiveFile, error) {
	store, info, err := b.findFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) && b.folder != nil {
		return b.folder.Open(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	if use := b.useKept(info.NUID, nil); use != nil {
		return use, nil
	}
	f, err := b.fetchFile(ctx, store, info) // without the lock: a large file takes long
	if err != nil {
		return nil, err
	}
	return b.useKept(info.NUID, f), nil
}

// useKept begins a use of the file, which is fetched unless it is kept already. It returns nil
// if neither is there.
func (b *ArchiveBucket) useKept(nuid string, fetched *fetchedFile) ArchiveFile {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := fetched
	i := slices.IndexFunc(b.kept, func(f *fetchedFile) bool { return f.nuid == nuid })
	switch {
	case i < 0 && fetched == nil:
		return nil
	case i < 0:
		f.uses = 1 // that of the bucket
		if len(b.kept) == keptFiles {
			b.releaseFile(b.kept[0])
			b.kept = b.kept[1:]
		}
	default:
		f = b.kept[i]
		b.kept = slices.Delete(b.kept, i, i+1)
		if fetched != nil { // another goroutine was first
			_ = fetched.Close() // it is not used
		}
	}
	f.uses++
	b.kept = append(b.kept, f)
	return &archiveUse{b: b, f: f}
}

// findFile returns fs.ErrNotExist if the object store or the file does not exist.
func (b *ArchiveBucket) findFile(ctx context.Context, name string) (jetstream.ObjectStore, *jetstream.ObjectInfo, error) {
	store, _, err := b.open(ctx, opReadArchive)
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
		return nil, fmt.Errorf(opReadArchive+": make a temporary file: %w", err)
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

// archiveUse is one use of a fetched file.
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
