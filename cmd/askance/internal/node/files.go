package node

import (
	"context"

	"github.com/askance-dev/askance/bus/creds"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/directory"
	"github.com/askance-dev/askance/permission"
)

// readFiles reads what needs no server: the policy and the directory as they will
// be in force, or as far as they go where a bucket adds to them, the tools, and
// who may log in.
func (n *Node) readFiles(ctx context.Context) (err error) {
	if n.tools, err = n.engineTools(); err != nil {
		return err
	}
	if err := n.readPolicy(ctx); err != nil {
		return err
	}
	if err := n.readDirectory(ctx); err != nil {
		return err
	}
	if err := n.readServer(); err != nil {
		return err
	}
	if n.cfg.Checked == nil {
		return nil
	}
	return n.cfg.Checked(ctx)
}

// readServer reads who may log in to the embedded server, and its certificate.
func (n *Node) readServer() (err error) {
	if n.cfg.NATS != "" {
		return nil
	}
	if n.cfg.CredsDir != "" {
		if n.trust, err = creds.LoadTrust(n.cfg.CredsDir); err != nil {
			return err
		}
	}
	return n.serverOptions().Check()
}

// readPolicy loads the policy, unless a bucket has a part of it: then what each
// file says by itself must be in order.
func (n *Node) readPolicy(ctx context.Context) (err error) {
	if !n.cfg.PolicyBucket {
		n.policy, err = n.loadPolicy(ctx)
		return err
	}
	if len(n.cfg.Policy) == 0 {
		return nil
	}
	files, err := permission.Paths(n.cfg.Policy...).Read(ctx)
	if err != nil {
		return err
	}
	_, err = permission.Parse(files...)
	return err
}

// openPolicy loads the policy of which a bucket has a part.
func (n *Node) openPolicy(ctx context.Context) (err error) {
	if n.cfg.PolicyBucket {
		n.policy, err = n.loadPolicy(ctx)
	}
	return err
}

// readDirectory reads the files that say who is in which group. Bad ones let no
// engine start; those that become bad later change nothing.
func (n *Node) readDirectory(ctx context.Context) (err error) {
	switch {
	case len(n.cfg.Directory) == 0:
		return nil
	case n.cfg.DirectoryBucket:
		_, err = directory.Load(n.cfg.Directory...)
	default:
		n.people, err = directory.Open(ctx, n.cfg.Directory, nil, n.cfg.Log)
	}
	return err
}

// openDirectory adds what a bucket says of groups.
func (n *Node) openDirectory(ctx context.Context) error {
	if !n.cfg.DirectoryBucket {
		return nil
	}
	bucket, err := bus.OpenDirectoryBucket(ctx, n.conn, n.cfg.Space, bus.PolicyBucketOptions{})
	if err != nil {
		return err
	}
	n.people, err = directory.Open(ctx, n.cfg.Directory, bucket, n.cfg.Log)
	return err
}
