package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// MaxPolicyBytes is the longest rule file that a bucket takes: what fits into
// one message of a NATS server with its usual limits.
const MaxPolicyBytes = 1<<20 - 4<<10

// policyHistory is how many versions of each rule file a bucket keeps, to go
// back to.
const policyHistory = 32

// PolicyFile is a rule file in a bucket.
type PolicyFile struct {
	Name string
	Data []byte
	// Revision grows with every change in the bucket.
	Revision uint64
}

// PolicyBucketOptions shape a bucket when it is made.
type PolicyBucketOptions struct {
	Replicas int // on a cluster; 0 means 1
}

// PolicyBucket keeps the rule files of a space in a NATS key-value bucket, one
// key for each file, so that all engines of the space read the same. Whoever may
// write the subjects $KV.<bucket>.> decides what may run: give it to nobody but
// those who answer for the policy.
//
// All methods may be called from several goroutines at once.
type PolicyBucket struct {
	js   jetstream.JetStream
	kv   jetstream.KeyValue
	name string
	what string // what a file in it is called

	mu    sync.Mutex // guards what follows
	state bucketState
	files []PolicyFile
}

// bucketState changes with every change of the bucket.
type bucketState struct {
	made              int64
	first, last, msgs uint64
}

// PolicyBucketName is the name of a space's bucket.
func PolicyBucketName(space toolcall.SpaceID) string { return "ASKANCE_POLICY_" + string(space) }

// OpenPolicyBucket opens a space's bucket and makes it if it is not there. One
// whose files expire, or are kept in memory alone, is refused: rules would
// vanish from it.
func OpenPolicyBucket(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, o PolicyBucketOptions) (*PolicyBucket, error) {
	return openFiles(ctx, nc, space, PolicyBucketName(space), "rule file", o)
}

// DirectoryBucketName is the name of a space's bucket of directory files.
func DirectoryBucketName(space toolcall.SpaceID) string { return "ASKANCE_DIRECTORY_" + string(space) }

// OpenDirectoryBucket opens the bucket that says which groups people are in. It
// is made, kept and refused like one of rule files: whoever may write to it
// decides who may approve.
func OpenDirectoryBucket(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, o PolicyBucketOptions) (*PolicyBucket, error) {
	return openFiles(ctx, nc, space, DirectoryBucketName(space), "directory file", o)
}

func openFiles(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, name, what string, o PolicyBucketOptions) (*PolicyBucket, error) {
	op := "open bucket of " + what + "s"
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: op, What: "cannot use JetStream", Err: err}
	}
	kv, err := js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, Description: "askance " + what + "s of the space " + string(space), History: policyHistory,
			MaxValueSize: MaxPolicyBytes, Storage: jetstream.FileStorage, Replicas: max(1, o.Replicas),
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another engine was first
			kv, err = js.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return nil, apiError(op, "bucket "+name, err)
	}
	b := &PolicyBucket{js: js, kv: kv, name: name, what: what}
	return b, b.check(ctx, op)
}

// check refuses a bucket that would lose rules by itself.
func (b *PolicyBucket) check(ctx context.Context, op string) error {
	st, err := b.js.Stream(ctx, "KV_"+b.name)
	if err != nil {
		return apiError(op, "bucket "+b.name, err)
	}
	c := st.CachedInfo().Config
	switch {
	case c.MaxAge > 0:
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: fmt.Sprintf("bucket %s forgets its files after %s", b.name, c.MaxAge), Hint: "make it without a TTL"}
	case c.Storage != jetstream.FileStorage:
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "bucket " + b.name + " is kept in memory alone", Hint: "make it with file storage"}
	case c.Mirror != nil || len(c.Sources) > 0:
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "bucket " + b.name + " copies from other streams", Hint: "write its files yourself"}
	}
	return nil
}

// Name is the bucket's name, for the nats command and for messages.
func (b *PolicyBucket) Name() string { return b.name }

// Put stores a rule file under its name, such as main.yaml, over what was there
// and gives its revision. What the file says is not looked at here: engines
// refuse a bad policy and keep their last good one.
func (b *PolicyBucket) Put(ctx context.Context, name string, data []byte) (uint64, error) {
	if err := b.Check(name, data); err != nil {
		return 0, err
	}
	rev, err := b.kv.Put(ctx, name, data)
	if err != nil {
		return 0, apiError("put "+b.what, "bucket "+b.name, err)
	}
	return rev, nil
}

// Check says why Put would refuse a file without asking the server; nil if it
// would not.
func (b *PolicyBucket) Check(name string, data []byte) error {
	op := "put " + b.what
	if err := b.checkName(op, name); err != nil {
		return err
	}
	if len(data) > MaxPolicyBytes {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: fmt.Sprintf("%s is longer than %d bytes", name, MaxPolicyBytes), Hint: "split it"}
	}
	return nil
}

// Delete takes a rule file out. Taking out the last one leaves no policy, which
// engines refuse.
func (b *PolicyBucket) Delete(ctx context.Context, name string) error {
	op := "delete " + b.what
	if err := b.checkName(op, name); err != nil {
		return err
	}
	if err := b.kv.Delete(ctx, name); err != nil {
		return apiError(op, "bucket "+b.name, err)
	}
	return nil
}

func (b *PolicyBucket) checkName(op, name string) error {
	ok := len(name) <= 128 && (strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"))
	for part := range strings.SplitSeq(name, ".") {
		ok = ok && part != "" && strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	}
	if ok {
		return nil
	}
	return &message.Error{Code: message.CodeInvalid, Op: op, What: errtext.Quote(name) + " is no name of a " + b.what, Hint: "use letters, digits, _, - and dots, and end it in .yaml"}
}

// Read gives all rule files, sorted by name. Where nothing has changed since the
// last time one short request finds that out. A key that is no name of a rule
// file is an error: its rules would be missed.
func (b *PolicyBucket) Read(ctx context.Context) ([]PolicyFile, error) {
	op := "read " + b.what + "s"
	b.mu.Lock()
	defer b.mu.Unlock()
	st, err := b.js.Stream(ctx, "KV_"+b.name)
	if err != nil {
		return nil, apiError(op, "bucket "+b.name, err)
	}
	info := st.CachedInfo()
	state := bucketState{info.Created.UnixNano(), info.State.FirstSeq, info.State.LastSeq, info.State.Msgs}
	if state != b.state {
		files, err := b.list(ctx)
		if err != nil {
			return nil, err
		}
		b.state, b.files = state, files
	}
	out := make([]PolicyFile, len(b.files))
	for i, f := range b.files {
		out[i] = PolicyFile{Name: f.Name, Data: bytes.Clone(f.Data), Revision: f.Revision}
	}
	return out, nil
}

func (b *PolicyBucket) list(ctx context.Context) ([]PolicyFile, error) {
	op := "read " + b.what + "s"
	w, err := b.kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, apiError(op, "bucket "+b.name, err)
	}
	defer func() { _ = w.Stop() }() // the files have been read, or an error says why not
	var files []PolicyFile
	for {
		select {
		case <-ctx.Done():
			return nil, apiError(op, "bucket "+b.name, context.Cause(ctx))
		case e, ok := <-w.Updates():
			if !ok {
				return nil, &message.Error{Code: message.CodeUnavailable, Op: op, What: "bucket " + b.name + " stopped answering"}
			}
			if e == nil { // all that is there has come
				slices.SortFunc(files, func(x, y PolicyFile) int { return strings.Compare(x.Name, y.Name) })
				return files, nil
			}
			if err := b.checkName(op, e.Key()); err != nil {
				return nil, err
			}
			files = append(files, PolicyFile{Name: e.Key(), Data: e.Value(), Revision: e.Revision()})
		}
	}
}

// Follow calls changed after every change in the bucket, until ctx ends; it then
// returns the cause. changed runs on this goroutine; several changes may have
// happened by the time it is called. A lost connection is taken up again.
func (b *PolicyBucket) Follow(ctx context.Context, changed func()) error {
	const op = "follow a bucket"
	w, err := b.kv.WatchAll(ctx, jetstream.UpdatesOnly(), jetstream.MetaOnly())
	if err != nil {
		return apiError(op, "bucket "+b.name, err)
	}
	defer func() { _ = w.Stop() }() // nothing more is wanted from it
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, ok := <-w.Updates():
			if !ok {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return &message.Error{Code: message.CodeUnavailable, Op: op, What: "bucket " + b.name + " is not watched any more"}
			}
			if e != nil {
				changed()
			}
		}
	}
}
