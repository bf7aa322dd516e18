package cli

import (
	"context"
	"net"

	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
)

// doors are the addresses that askance serve binds beside that of its server:
// after the files are checked, and before the journal is touched, so that one
// that is taken is told while nothing has happened.
type doors struct{ http, socket, metrics net.Listener }

func openListeners(ctx context.Context, env *environment, dir node.Dir, s serving, d *doors) (err error) {
	if s.metrics != "" {
		if d.metrics, err = metrics.Listen(ctx, s.metrics); err != nil {
			return err
		}
	}
	if s.web.off() {
		return nil
	}
	cfg, err := webConfig(env, dir, s)
	if err != nil {
		return err
	}
	if cfg.Address != web.Off {
		if d.http, err = web.Listen(ctx, cfg); err != nil {
			return err
		}
	}
	if cfg.Socket.Path != "" {
		d.socket, err = web.ListenSocket(ctx, cfg)
	}
	return err
}

// close closes what was opened. Whoever serves at it has done so by then, if it
// came to that.
func (d *doors) close() {
	for _, l := range []net.Listener{d.http, d.socket, d.metrics} {
		if l != nil {
			_ = l.Close() // perhaps once more
		}
	}
}
