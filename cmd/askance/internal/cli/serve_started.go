package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
)

// started is the result of serve with --json once the engine runs.
type started struct {
	URL        string `json:"url"`
	Data       string `json:"data"`
	PublicKey  string `json:"public_key_file"`
	KeyID      string `json:"key_id"`
	Space      string `json:"space"`
	Engine     string `json:"engine"`
	Durability string `json:"durability"`
	// DurabilityWhy names the source of the durability of an existing server.
	DurabilityWhy string   `json:"durability_why,omitzero"`
	Policy        string   `json:"policy"`
	Rules         int      `json:"rules"`
	Tools         []string `json:"tools"`
	PID           int      `json:"pid"`
	// Auth is how clients are authenticated.
	Auth string `json:"auth"`
	// HTTP is where the gateway is.
	HTTP string `json:"http,omitzero"`
	// HTTPAuth says who can use it; "" is every process on this machine.
	HTTPAuth string `json:"http_auth,omitzero"`
	// HTTPSocket is the path of its Unix socket.
	HTTPSocket string `json:"http_socket,omitzero"`
	// Metrics is where Prometheus can scrape.
	Metrics string `json:"metrics,omitzero"`
	// Open: other machines can reach the embedded server under any name.
	Open bool `json:"open_beyond_loopback,omitzero"`
}

// httpAt is where the gateway is; "" where it is not.
type httpAt struct{ url, socket, logins string }

func printServing(env *environment, n *node.Node, cfg node.Config, scrape string, over httpAt) error {
	claim := n.Journal().Claim()
	st := started{
		URL: n.URL(), Data: string(cfg.Dir), PublicKey: cfg.Dir.PublicKeys(), KeyID: n.KeyID(), Space: string(cfg.Space),
		Engine: n.Engine().ID(), Durability: string(claim.Durability), Policy: n.PolicyHash(), Rules: max(0, n.Rules()), PID: os.Getpid(),
		Open: openBeyondLoopback(cfg), Auth: n.Auth(), Metrics: scrape, HTTP: over.url, HTTPAuth: over.logins, HTTPSocket: over.socket,
	}
	for _, t := range cfg.Tools {
		st.Tools = append(st.Tools, t.Name)
	}
	if cfg.NATS != "" {
		st.DurabilityWhy = claim.Why
	}
	if env.json {
		return writeJSON(env.out, st)
	}
	policy := fmt.Sprintf("%d rules, %s", st.Rules, st.Policy)
	if n.Rules() < 0 {
		policy = env.out.Ask("none: every call needs an approval (pass rule files with --policy)")
	}
	tools := strings.Join(st.Tools, ", ")
	if tools == "" {
		tools = env.out.Ask("none: calls of tools that no runtime declares are refused (pass a tools file with --tools)")
	}
	text := newSheet(env.out, 8, env.out.Bold("askance is running"))
	text.row("nats", st.URL)
	text.row("journal", st.Data+", "+durabilityText(env.out, cfg, claim))
	text.row("engine", st.Engine+", space "+st.Space)
	text.row("key", st.PublicKey+" ("+st.KeyID+")")
	text.row("policy", policy)
	text.row("tools", tools)
	text.row("logins", loginsText(env.out, cfg, st.Auth))
	if over.url != "" {
		logins := over.logins
		if logins == "" {
			logins = env.out.Ask("no authentication: every process on this machine acts as " + term.SafeLine(userName()) + " and can approve (create tokens with askance token create)")
		}
		text.row("http", over.url+"  "+logins)
	}
	if over.socket != "" {
		text.row("socket", over.socket+"  the kernel names the user")
	}
	text.row("metrics", scrape)
	if st.Open {
		text.line(env.out.Bold("  open beyond loopback: every connection can act under any name"))
	}
	_, err := io.WriteString(env.out, text.String())
	return err
}

// durabilityText says what an acknowledgement means, and how the engine knows it.
func durabilityText(out *term.Out, cfg node.Config, c bus.DurabilityClaim) string {
	switch {
	case cfg.NATS == "":
		return string(c.Durability)
	case c.Assumed:
		return out.Ask(string(c.Durability) + " (" + term.SafeLine(c.Why) + "; set it with --durability, or let the engine ask with --nats-system-creds)")
	}
	return string(c.Durability) + " (" + term.SafeLine(c.Why) + ")"
}

func loginsText(out *term.Out, cfg node.Config, auth string) string {
	switch {
	case cfg.CredsDir != "":
		return "required, from " + cfg.CredsDir
	case cfg.NATS != "" && auth == bus.AuthJWT:
		return "required, by the server of --nats"
	case cfg.NATS != "":
		return out.Ask("as configured on the server of --nats; make sure that it distinguishes people")
	}
	return out.Ask("not required: every connection can use any name (create logins with askance creds init)")
}
