package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// MaxPolicyBytes is the maximum size of a rule file, which must fit into one message
// of a NATS server with default limits.
const MaxPolicyBytes = 1<<20 - 4<<10

// policyHistory is how many versions of each rule file a bucket keeps.
const policyHistory = 32

// PolicyFile is a rule file in a bucket.
type PolicyFile struct {
	Name string
	Data []byte
	// Revision grows with every change in the bucket.
	Revision uint64
}

// PolicyBucketOptions configure a new bucket.
type PolicyBucketOptions struct {
	Replicas int // on a cluster: 1, 3 or 5; 0 means 3 on a cluster, else 1
}

// PolicyBucket keeps the rule files of a space in a NATS key-value bucket, one key
// per file, for all engines of the space. Everyone who can write to $KV.<bucket>.> decides
// what may run: give write access only to the people responsible for the policy.
//
// All methods are safe for concurrent use.
type PolicyBucket struct {
	js   jetstream.JetStream
	kv   jetstream.KeyValue
	name string
	what string // what to call one of its files in errors

	mu    sync.Mutex // guards what follows
	state bucketState
	files []PolicyFile
}

// bucketState changes with every change of the bucket.
type bucketState struct {
	made              int64
	first, last, msgs uint64
}

// PolicyBucketName returns the name of a space's bucket of rule files.
func PolicyBucketName(space toolcall.SpaceID) string { return "ASKANCE_POLICY_" + string(space) }

// OpenPolicyBucket opens a space's bucket and creates it if there is none. It refuses a
// bucket that could lose rules, such as one with a TTL or one in memory.
func OpenPolicyBucket(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, o PolicyBucketOptions) (*PolicyBucket, error) {
	return openFiles(ctx, nc, space, PolicyBucketName(space), "rule file", o)
}

// DirectoryBucketName returns the name of a space's bucket of directory files.
func DirectoryBucketName(space toolcall.SpaceID) string { return "ASKANCE_DIRECTORY_" + string(space) }

// OpenDirectoryBucket is OpenPolicyBucket for the bucket that says which groups people
// are in. Write access to it decides who can approve.
func OpenDirectoryBucket(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, o PolicyBucketOptions) (*PolicyBucket, error) {
	return openFiles(ctx, nc, space, DirectoryBucketName(space), "directory file", o)
}

func openFiles(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, name, what string, o PolicyBucketOptions) (*PolicyBucket, error) {
	op := "open bucket of " + what + "s"
	if err := bus.CheckSpace(space); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: op, What: "cannot use JetStream", Err: err}
	}
	kv, err := js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		err = createReplicated(o.Replicas, func(n int) (err error) {
			kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
				Bucket: name, Description: "askance " + what + "s of the space " + string(space), History: policyHistory,
				MaxValueSize: MaxPolicyBytes, Storage: jetstream.FileStorage, Replicas: n,
			})
			return err
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another engine was first
			kv, err = js.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return nil, jsapi.Error(op, "bucket "+name, err)
	}
	b := &PolicyBucket{js: js, kv: kv, name: name, what: what}
	return b, b.check(ctx, op)
}

// check refuses a bucket that can lose rules.
func (b *PolicyBucket) check(ctx context.Context, op string) error {
	st, err := b.js.Stream(ctx, "KV_"+b.name)
	if err != nil {
		return jsapi.Error(op, "bucket "+b.name, err)
	}
	return checkKept(op, "bucket "+b.name, st.CachedInfo().Config)
}

// checkKept refuses the stream of a bucket that can lose its files.
func checkKept(op, what string, c jetstream.StreamConfig) error {
	switch {
	case c.MaxAge > 0:
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: fmt.Sprintf("%s deletes its files after %s", what, c.MaxAge), Hint: "create it without a TTL"}
	case c.Storage != jetstream.FileStorage:
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: what + " is stored only in memory", Hint: "create it with file storage"}
	case c.Mirror != nil || len(c.Sources) > 0:
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: what + " copies from other streams", Hint: "write its files yourself"}
	}
	return nil
}

// Name returns the bucket's name, for the nats command and for messages.
func (b *PolicyBucket) Name() string { return b.name }

// Put stores or replaces a rule file, such as main.yaml, and returns its revision.
// Engines check the content: they refuse a bad policy and keep the last good one.
func (b *PolicyBucket) Put(ctx context.Context, name string, data []byte) (uint64, error) {
	if err := b.Check(name, data); err != nil {
		return 0, err
	}
	rev, err := b.kv.Put(ctx, name, data)
	if err != nil {
		return 0, jsapi.Error("put "+b.what, "bucket "+b.name, err)
	}
	return rev, nil
}

// Check returns why Put would refuse a file, without asking the server.
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

// Delete removes a rule file. Without any file there is no policy, and engines refuse
// that.
func (b *PolicyBucket) Delete(ctx context.Context, name string) error {
	op := "delete " + b.what
	if err := b.checkName(op, name); err != nil {
		return err
	}
	if err := b.kv.Delete(ctx, name); err != nil {
		return jsapi.Error(op, "bucket "+b.name, err)
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
	return &message.Error{Code: message.CodeInvalid, Op: op, What: errtext.Quote(name) + " is not the name of a " + b.what, Hint: "use letters, digits, _, - and dots, and end it in .yaml"}
}

// Read returns all rule files sorted by name. If nothing changed, it costs one short
// request. A key that is not a file name is an error, because its rules would be
// missed.
func (b *PolicyBucket) Read(ctx context.Context) ([]PolicyFile, error) {
	op := "read " + b.what + "s"
	b.mu.Lock()
	defer b.mu.Unlock()
	st, err := b.js.Stream(ctx, "KV_"+b.name)
	if err != nil {
		return nil, jsapi.Error(op, "bucket "+b.name, err)
	}
	info := st.CachedInfo()
	state := bucketState{info.Created.UnixNano(), info.State.FirstSeq, info.State.LastSeq, info.State.Msgs}
	if state != b.state {
		files, through, err := b.list(ctx)
		if err != nil {
			return nil, err
		}
		b.files = files
		if through < state.last && !b.hasNothingAfter(ctx, through) {
			state = bucketState{} // another server listed it, which does not have the last change yet
		}
		b.state = state
	}
	out := make([]PolicyFile, len(b.files))
	for i, f := range b.files {
		out[i] = PolicyFile{Name: f.Name, Data: bytes.Clone(f.Data), Revision: f.Revision}
	}
	return out, nil
}

// hasNothingAfter reports whether the last changes were removed, such as old deletions.
func (b *PolicyBucket) hasNothingAfter(ctx context.Context, revision uint64) bool {
	m, err := reader{nc: b.js.Conn(), js: b.js, stream: "KV_" + b.name}.get(ctx, getRequest{LastFor: ">"})
	return m.seq <= revision && (err == nil || errors.Is(err, errNone))
}

// list returns the files and the revision of the last change that it saw.
func (b *PolicyBucket) list(ctx context.Context) (files []PolicyFile, through uint64, err error) {
	op := "read " + b.what + "s"
	err = readBucket(ctx, op, b.kv, ">", func(e jetstream.KeyValueEntry) error {
		through = max(through, e.Revision())
		if e.Operation() != jetstream.KeyValuePut {
			return nil
		}
		files = append(files, PolicyFile{Name: e.Key(), Data: e.Value(), Revision: e.Revision()})
		return b.checkName(op, e.Key())
	})
	slices.SortFunc(files, func(x, y PolicyFile) int { return strings.Compare(x.Name, y.Name) })
	return files, through, err
}

// readBucket visits every entry of a bucket that matches the filter, with those of deletions.
func readBucket(ctx context.Context, op string, kv jetstream.KeyValue, filter string, visit func(jetstream.KeyValueEntry) error) error {
	w, err := kv.Watch(ctx, filter)
	if err != nil {
		return jsapi.Error(op, "bucket "+kv.Bucket(), err)
	}
	defer func() { // the listing is complete or failed
		_ = w.Stop()
		go drainUpdates(w)
	}()
	for {
		select {
		case <-ctx.Done():
			return jsapi.Error(op, "bucket "+kv.Bucket(), context.Cause(ctx))
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return jsapi.Error(op, "bucket "+kv.Bucket(), nats.ErrDisconnected)
			case e == nil:
				return nil // the listing is complete
			}
			if err := visit(e); err != nil {
				return err
			}
		}
	}
}

// drainTime bounds the wait for a watcher to end: it never does if the connection closes while it begins.
const drainTime = 10 * time.Second

// drainUpdates takes what a stopped watcher has received, because the client of NATS waits for that.
func drainUpdates(w jetstream.KeyWatcher) {
	over := time.After(drainTime)
	for {
		select {
		case _, ok := <-w.Updates():
			if !ok {
				return
			}
		case <-over:
			return
		}
	}
}

// Followed reports whether an engine follows the bucket now.
func (b *PolicyBucket) Followed(ctx context.Context) (bool, error) {
	const op = "list engines of a bucket"
	st, err := b.js.Stream(ctx, "KV_"+b.name)
	if err != nil {
		return false, jsapi.Error(op, "bucket "+b.name, err)
	}
	all := st.ListConsumers(ctx)
	for c := range all.Info() {
		if c.Config.HeadersOnly { // as Follow makes it
			return true, nil
		}
	}
	if all.Err() != nil {
		return false, jsapi.Error(op, "bucket "+b.name, all.Err())
	}
	return false, nil
}

// Follow calls changed after changes in the bucket, including those during a lost
// connection, until ctx ends, and returns the cause. It calls changed on this goroutine,
// and may call it once for several changes.
func (b *PolicyBucket) Follow(ctx context.Context, changed func()) error {
	const op = "follow a bucket"
	w, err := b.kv.WatchAll(ctx, jetstream.UpdatesOnly(), jetstream.MetaOnly())
	if err != nil {
		return jsapi.Error(op, "bucket "+b.name, err)
	}
	defer func() { _ = w.Stop() }() // its result no longer matters
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, ok := <-w.Updates():
			if !ok {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return &message.Error{Code: message.CodeUnavailable, Op: op, What: "bucket " + b.name + " can no longer be watched"}
			}
			if e != nil {
				changed()
			}
		}
	}
}
