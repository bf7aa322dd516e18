package directory

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/toolcall"
)

// Live is a directory that follows its files and its bucket. Its methods may be
// called from several goroutines; Watch runs once.
type Live struct {
	paths  []string
	bucket *bus.PolicyBucket
	log    *slog.Logger
	now    atomic.Pointer[state]
}

type state struct {
	files  []Named
	dir    *Directory
	source string
}

// Open reads files and, unless it is nil, a bucket. Invalid files are an error.
func Open(ctx context.Context, paths []string, bucket *bus.PolicyBucket, log *slog.Logger) (*Live, error) {
	l := &Live{paths: paths, bucket: bucket, log: log}
	_, err := l.Reload(ctx)
	return l, err
}

// Groups implements engine.Directory.
func (l *Live) Groups(_ context.Context, by toolcall.Principal) (engine.Membership, error) {
	s := l.now.Load()
	return engine.Membership{Groups: s.dir.Groups(by.Name), Source: s.source}, nil
}

// Now returns the directory in force.
func (l *Live) Now() *Directory { return l.now.Load().dir }

// ApproverKeys returns the keys of approvers in force.
func (l *Live) ApproverKeys() toolcall.ApproverKeys { return l.Now().Keys() }

// Reload reads everything again and reports whether it has changed. After an error,
// the old state stays in force.
func (l *Live) Reload(ctx context.Context) (changed bool, err error) {
	files, err := read(l.paths)
	if err != nil {
		return false, err
	}
	source := "file"
	if l.bucket != nil {
		found, err := l.bucket.Read(ctx)
		if err != nil {
			return false, err
		}
		for _, f := range found {
			files = append(files, Named{l.bucket.Name() + "/" + f.Name, f.Data})
		}
		source = "nats-kv"
		if len(l.paths) > 0 {
			source = "file+nats-kv"
		}
	}
	if before := l.now.Load(); before != nil && slices.EqualFunc(before.files, files, isSame) {
		return false, nil
	}
	d, err := Parse(files...)
	if err != nil {
		return false, err
	}
	l.now.Store(&state{files: files, dir: d, source: source})
	return true, nil
}

func isSame(a, b Named) bool { return a.Name == b.Name && string(a.Data) == string(b.Data) }

// Watch reloads until ctx ends, and logs changes and errors.
func (l *Live) Watch(ctx context.Context, every time.Duration) {
	files := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			l.log.Error("the directory is refused; the last good one stays in force", "error", err)
			return
		}
		l.log.Warn("the directory is valid again")
	}}
	files.Watch(ctx, every, func(ctx context.Context) error {
		changed, err := l.Reload(ctx)
		if changed {
			l.log.Info("directory loaded", "people", l.Now().People())
		}
		return err
	})
}
