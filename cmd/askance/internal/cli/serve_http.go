package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
)

// noHTTP turns the gateway off.
const noHTTP = "off"

// serveHTTPFlags adds the flags of the gateway.
func serveHTTPFlags(c *cobra.Command, w *web.Config) {
	f := c.Flags()
	f.StringVar(&w.Address, "http", "", "address of the web inbox and the HTTP interfaces; off opens none (default "+web.DefaultAddress+", or a free port if that is taken)")
	f.StringVar(&w.Cert, "http-cert", "", "file with the certificate chain for TLS")
	f.StringVar(&w.Key, "http-key", "", "file with its private key")
	f.BoolVar(&w.Insecure, "http-insecure", false, "let --http listen beyond loopback without TLS: for a proxy in front that has it")
}

// webConfig is what the gateway is told.
func (a *app) webConfig(s serving) web.Config {
	cfg := s.web
	cfg.User, cfg.Log = userName(), a.log
	return cfg
}

// checkHTTP refuses a gateway that would let strangers in.
func (a *app) checkHTTP(s serving) error {
	if s.web.Address == noHTTP {
		return nil
	}
	err := a.webConfig(s).Check()
	if bad, ok := errors.AsType[*web.Error](err); ok {
		return usagef("%s", bad.What)
	}
	return err
}

// openHTTP starts the gateway; nil if there is to be none.
func (a *app) openHTTP(ctx context.Context, n *node.Node, s serving) (*web.Web, error) {
	if s.web.Address == noHTTP {
		return nil, nil //nolint:nilnil // documented: none
	}
	cfg := a.webConfig(s)
	cfg.Space = n.Gateway()
	return web.Serve(ctx, cfg)
}
