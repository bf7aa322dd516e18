package node

import (
	"context"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/directory"
)

// openDirectory reads who is in which group. A bad directory lets no engine
// start; one that becomes bad later changes nothing.
func (n *Node) openDirectory(ctx context.Context) error {
	if len(n.cfg.Directory) == 0 && !n.cfg.DirectoryBucket {
		return nil
	}
	var bucket *bus.PolicyBucket
	var err error
	if n.cfg.DirectoryBucket {
		if bucket, err = bus.OpenDirectoryBucket(ctx, n.conn, n.cfg.Space, bus.PolicyBucketOptions{}); err != nil {
			return err
		}
	}
	n.people, err = directory.Open(ctx, n.cfg.Directory, bucket, n.cfg.Log)
	return err
}
