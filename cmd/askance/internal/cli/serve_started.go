package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/internal/asked"
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
	DurabilityWhy string `json:"durability_why,omitzero"`
	Policy        string `json:"policy"`
	Rules         int    `json:"rules"`
	// PolicyFiles and PolicySince say where the policy in force comes from; none without rule files.
	PolicyFiles []string  `json:"policy_files,omitzero"`
	PolicySince time.Time `json:"policy_since,omitzero"`
	Tools       []string  `json:"tools"`
	PID         int       `json:"pid"`
	// Auth is how clients are authenticated.
	Auth string `json:"auth"`
	// HTTP is where the gateway is.
	HTTP string `json:"http,omitzero"`
	// HTTPAuth says who can use it; "" means every process on this machine.
	HTTPAuth string `json:"http_auth,omitzero"`
	// HTTPSocket is the path of its Unix socket.
	HTTPSocket string `json:"http_socket,omitzero"`
	// Metrics is where Prometheus can scrape.
	Metrics string `json:"metrics,omitzero"`
	// Spaces are those of --spaces.
	Spaces []startedSpace `json:"spaces,omitzero"`
	// Open reports whether other machines can reach the embedded server under any name.
	Open bool `json:"open_beyond_loopback,omitzero"`
}

type startedSpace struct {
	Space  string `json:"space"`
	KeyID  string `json:"key_id"`
	Engine string `json:"engine"`
	Policy string `json:"policy"`
	Rules  int    `json:"rules"`
	// HTTP is the address of its gateway for the local user; a login names its space itself.
	HTTP string `json:"http,omitzero"`
}

// httpAt says where the gateway listens and who can log in; "" means none.
type httpAt struct{ url, socket, logins string }

func printServing(env *environment, spaces servedSpaces, scrape string, over httpAt) error {
	n, cfg := spaces[0].node, spaces[0].cfg
	claim, policy := n.Journal().Claim(), n.PolicyStatus()
	st := started{
		URL: n.URL(), Data: string(cfg.Dir), PublicKey: n.Files().PublicKeys(), KeyID: n.KeyID(), Space: string(cfg.Space),
		Engine: n.Engine().ID(), Durability: string(claim.Durability), Policy: policy.Bundle, Rules: policy.Rules, PolicySince: policy.Loaded, PID: os.Getpid(),
		Open: openBeyondLoopback(cfg), Auth: n.Auth(), Metrics: scrape, HTTP: over.url, HTTPAuth: over.logins, HTTPSocket: over.socket,
	}
	for _, t := range cfg.Tools {
		st.Tools = append(st.Tools, t.Name)
	}
	for _, s := range spaces[1:] {
		at := ""
		if over.url != "" && over.logins == "" {
			at = web.OfSpace(over.url, s.cfg.Space)
		}
		own := s.node.PolicyStatus()
		st.Spaces = append(st.Spaces, startedSpace{Space: string(s.cfg.Space), KeyID: s.node.KeyID(), Engine: s.node.Engine().ID(), Policy: own.Bundle, Rules: own.Rules, HTTP: at})
	}
	if cfg.NATS != "" {
		st.DurabilityWhy = claim.Why
	}
	for _, f := range policy.Files {
		st.PolicyFiles = append(st.PolicyFiles, f.Name)
	}
	if env.json {
		return writeJSON(env.out, st)
	}
	text := newSheet(env.out, 8, env.out.Bold("askance is running"))
	console := env.cfg.HTTPURL
	if over.url != "" {
		if console = cmp.Or(console, over.url); console != over.url {
			console += " (listens at " + over.url + ")"
		}
		console += "  " + cmp.Or(over.logins, env.out.Ask("no login: every process on this machine can approve as "+term.SafeLine(userName())))
	}
	text.row("console", console)
	if over.socket != "" {
		text.row("socket", over.socket+"  the kernel identifies the user")
	}
	text.row("nats", st.URL+"  "+loginsText(env.out, cfg, st.Auth))
	text.row("metrics", scrape)
	journal := st.Data
	if cfg.NATS != "" {
		journal = "on that server, keys in " + journal
	}
	text.row("journal", journal+", space "+st.Space+", "+durabilityText(env.out, cfg, claim))
	text.row("policy", st.policyText(env.out))
	text.row("tools", cmp.Or(shortList(st.Tools), "none: only tools that runtimes, coding agents and MCP gateways declare; --tools FILE adds others"))
	for _, s := range st.Spaces {
		text.row("space", strings.TrimSpace(s.Space+", "+asked.Count(s.Rules, "rule")+"  "+s.HTTP))
	}
	if st.Open {
		text.line(env.out.Bold("  open beyond loopback: every connection can act under any name"))
	}
	text.line("\nNext: " + st.next())
	_, err := io.WriteString(env.out, text.String())
	return err
}

// policyText says what is in force, where it comes from and since when.
func (st *started) policyText(out *term.Out) string {
	if st.PolicySince.IsZero() {
		return out.Ask("none: every call needs an approval")
	}
	return fmt.Sprintf("%s in %s, in force since %s", asked.Count(st.Rules, "rule"), shortList(st.PolicyFiles), st.PolicySince.Local().Format(time.DateTime))
}

// next returns the next step: first what is missing, then where people decide.
func (st *started) next() string {
	switch {
	case st.PolicySince.IsZero():
		return "write a policy with " + programName() + " init, then start again with --policy FILE"
	case st.HTTP != "":
		return "see and decide requests with " + commandLine("open", st.Data)
	}
	return "see and decide requests with " + commandLine("inbox", st.Data)
}

// shortList names at most five.
func shortList(names []string) string {
	const most = 4
	if more := len(names) - most; more > 1 {
		return term.SafeLine(strings.Join(names[:most], ", ")) + fmt.Sprintf(" and %d more", more)
	}
	return term.SafeLine(strings.Join(names, ", "))
}

// durabilityText says what an acknowledgement means, and why the engine states that.
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
		return "logins required, from " + cfg.CredsDir
	case cfg.NATS != "" && auth == bus.AuthJWT:
		return "logins required, by the server of --nats"
	case cfg.NATS != "":
		return out.Ask("logins as configured on the server of --nats")
	}
	return out.Ask("no login: every connection can use any name")
}
