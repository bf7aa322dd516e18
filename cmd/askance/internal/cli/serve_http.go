package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
)

// noHTTP turns the gateway off.
const noHTTP = "off"

// serveHTTPFlags adds the flags of the gateway.
func serveHTTPFlags(c *cobra.Command, s *serving) {
	f, w := c.Flags(), &s.web
	f.StringVar(&w.Address, "http", "", "address of the web inbox and the HTTP interfaces; off opens none (default "+web.DefaultAddress+", or a free port if that is taken)")
	f.StringVar(&w.Cert, "http-cert", "", "file with the certificate chain for TLS")
	f.StringVar(&w.Key, "http-key", "", "file with its private key")
	f.BoolVar(&s.demoAgent, "demo-agent", false, "let frontends talk to an agent without a model, named "+web.DemoAgent+", that does what the lines of a message say: \"call TOOL {…}\", \"say TEXT\"; it calls any tool that a message names")
	f.StringVar(&w.AgentID, "agent-id", "", "names the replies that agents of this process are making, so that its successor goes on with them (default gateway; with --nats the host's name)")
	f.BoolVar(&w.Insecure, "http-insecure", false, "let --http listen beyond loopback without TLS: for a proxy in front that has it")
}

// webConfig is what the gateway is told.
func (a *app) webConfig(s serving) web.Config {
	cfg := s.web
	cfg.User, cfg.Log, cfg.Version = userName(), a.log, buildInfo().Version
	if cfg.AgentID == "" && a.at.nats != "" {
		cfg.AgentID, _ = os.Hostname() // without one it is the default
	}
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
	if s.demoAgent {
		cfg.Agents = append(cfg.Agents, web.Demo(cfg.Space.Tools))
	}
	return web.Serve(ctx, cfg)
}
