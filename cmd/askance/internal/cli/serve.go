package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// serving is what askance serve is told.
type serving struct {
	listen, durability, tools, mode, keys, cwd string
	credsDir                                   string
	policy, shadow, dirs, people               []string
	bucket, peopleBucket, insecure             bool
	remind                                     time.Duration
	reviewers                                  message.ReviewerLimits
	metrics                                    string
	pace                                       bus.Pace
}

func (a *app) serve() *cobra.Command {
	var s serving
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run an engine with its own NATS server, or on an existing cluster",
		Long: `Runs an engine until it is stopped. Without --nats it brings a NATS server of its
own, whose journal is in the data folder. Rule files are looked at every second; a
policy that cannot be read is refused as a whole and the last good one stays.
Without --policy every call asks a person.

With credentials (askance creds init) the embedded server lets in those who have a
login, and nobody else. Without, it lets in whoever reaches its address, under any
name: it stays on loopback then, and another address needs --insecure.

SIGINT or SIGTERM stops it: running local calls get ten seconds to end. A second
signal stops it at once; nothing acknowledged is lost by that either.`,
		Example: `  askance serve --policy rules.yaml --tools tools.yaml
  askance serve --data /var/lib/askance --listen 127.0.0.1:4222 --durability cached
  askance serve --nats nats://nats.internal:4222 --creds engine.creds --keys space.key`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runServe(c.Context(), s) },
	}
	a.at.whereFlags(c)
	f := c.Flags()
	f.StringVar(&s.listen, "listen", "127.0.0.1:4222", "address of the embedded server; port 0 takes a free one")
	f.StringVar(&s.credsDir, "creds-dir", "", "credentials folder: who may log in to the embedded server (default creds in the data folder, if it is there)")
	f.BoolVar(&s.insecure, "insecure", false, "use no credentials, and let the embedded server listen anywhere: whoever reaches it may act as anybody")
	f.StringVar(&s.durability, "durability", "fsynced", "what an acknowledgement means: fsynced (on the disk) or cached; with --nats, what that server gives")
	f.StringArrayVar(&s.policy, "policy", nil, "rule file, or folder of rule files, with its LAYER= before it if that is not project; may be repeated")
	f.BoolVar(&s.bucket, "policy-bucket", false, "take rule files from the NATS key-value bucket ASKANCE_POLICY_<space> too; it is made if it is not there")
	f.StringArrayVar(&s.people, "directory", nil, "file that says which groups people are in; may be repeated")
	f.BoolVar(&s.peopleBucket, "directory-bucket", false, "take directory files from the NATS key-value bucket ASKANCE_DIRECTORY_<space> too; it is made if it is not there")
	f.StringArrayVar(&s.shadow, "shadow", nil, "rule file, or folder of rule files, of a policy that decides nothing: what it would decide otherwise is logged; may be repeated")
	f.StringVar(&s.tools, "tools", "", "file that declares the tools")
	f.StringVar(&s.mode, "mode", "", "permission mode, over that of the policy: default, accept_edits, explore, bypass or dont_ask")
	f.StringVar(&s.cwd, "cwd", "", "folder in which the tools run, for rules about paths (default the current one)")
	f.StringArrayVar(&s.dirs, "working-dir", nil, "further folder in which tools may edit where the mode lets them; may be repeated")
	f.DurationVar(&s.remind, "remind", 0, "tell inboxes of an open question again whenever nothing was said about it for so long; 0 never does")
	f.IntVar(&s.reviewers.PerMinute, "reviewer-per-minute", 0, "refuse answers of one reviewer beyond so many within a minute; 0: no limit")
	f.IntVar(&s.reviewers.MaxOpen, "reviewer-max-open", 0, "hand nothing more over to a reviewer with so many open questions; 0: no limit")
	f.DurationVar(&s.pace.Every, "checkpoint-every", time.Minute, "sign the journal at least so often, if there is anything new")
	f.IntVar(&s.pace.Records, "checkpoint-records", 1024, "sign the journal after so many records all the same")
	f.StringVar(&s.metrics, "metrics", "", "address at which Prometheus may scrape /metrics, the names of reviewers included; :9464 is on loopback (default none)")
	f.StringVar(&s.keys, "keys", "", "key file of the space's engines (default engine.key in the data folder; made if it is not there)")
	_ = c.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"fsynced", "cached"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"default", "accept_edits", "explore", "bypass", "dont_ask"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// config checks what was said.
func (a *app) serveConfig(s serving) (node.Config, error) {
	cfg := node.Config{
		Dir: node.Dir(a.at.dir()), Space: a.at.spaceID(), Listen: s.listen, NATS: a.at.nats, Creds: a.at.creds,
		CredsDir: s.credsDir, Reopen: s.insecure, Durability: bus.Durability(s.durability), Keys: s.keys, Policy: s.policy, PolicyBucket: s.bucket, Directory: s.people, DirectoryBucket: s.peopleBucket, Shadow: s.shadow, Version: buildInfo().Version, Log: a.log,
	}
	if cfg.Dir == "" {
		return cfg, usagef("no data folder is known: name one with --data")
	}
	if cfg.Durability != bus.DurabilityFsynced && cfg.Durability != bus.DurabilityCached {
		return cfg, usagef("--durability is %q, use fsynced or cached", s.durability)
	}
	if err := findCreds(&cfg, s.insecure); err != nil {
		return cfg, err
	}
	if openBeyondLoopback(cfg) && !s.insecure {
		return cfg, usagef("--listen %s is not a loopback address, and without credentials the embedded server asks nobody who they are: whoever reaches it may act as anybody, approve calls included; make credentials with askance creds init, listen on 127.0.0.1, use --nats with a server that has accounts, or say --insecure", cfg.Listen)
	}
	if s.remind < 0 {
		return cfg, usagef("--remind is %s, and must not be negative", s.remind)
	}
	if s.reviewers.PerMinute < 0 || s.reviewers.MaxOpen < 0 {
		return cfg, usagef("--reviewer-per-minute and --reviewer-max-open must not be negative")
	}
	if s.pace.Every <= 0 || s.pace.Records <= 0 {
		return cfg, usagef("--checkpoint-every and --checkpoint-records must be positive")
	}
	cfg.Reviewers, cfg.Pace = s.reviewers, s.pace
	cfg.Cwd, cfg.WorkingDirs, cfg.Remind = s.cwd, s.dirs, s.remind
	if cfg.Cwd == "" {
		cfg.Cwd, _ = os.Getwd() // not known: then no path counts as inside
	}
	if s.mode != "" {
		mode, err := permission.ParseMode(s.mode)
		if err != nil {
			return cfg, usagef("--mode: %w", err)
		}
		cfg.Mode = mode
	}
	if s.tools != "" {
		tools, err := toolfile.Load(s.tools)
		if err != nil {
			return cfg, err
		}
		cfg.Tools = tools
	}
	return cfg, nil
}

// findCreds uses the credentials of the data folder, unless it was said
// otherwise.
func findCreds(cfg *node.Config, insecure bool) error {
	switch {
	case cfg.CredsDir != "" && insecure:
		return usagef("--insecure means to use no credentials; leave out one of --creds-dir and --insecure")
	case cfg.CredsDir != "" && cfg.NATS != "":
		return usagef("--creds-dir is for the embedded server; the one of --nats has users of its own (askance creds config prints their configuration)")
	case cfg.CredsDir == "" && cfg.NATS == "" && !insecure:
		if _, err := os.Stat(cfg.Dir.Creds()); err == nil {
			cfg.CredsDir = cfg.Dir.Creds()
		}
	}
	return nil
}

// openBeyondLoopback reports whether other machines may reach the embedded
// server under any name. A name other than localhost may stand for any address.
func openBeyondLoopback(cfg node.Config) bool {
	if cfg.NATS != "" || cfg.Listen == "" || cfg.CredsDir != "" {
		return false
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil || host == "localhost" {
		return false // what is no address is refused by the server
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}

func (a *app) runServe(ctx context.Context, s serving) error {
	cfg, err := a.serveConfig(s)
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	err = a.serveUntilStopped(ctx, n, cfg, s)
	if errors.Is(err, errSignal) {
		a.notef("stopping; a second signal stops at once\n")
		err = nil
	}
	return errors.Join(err, n.Close())
}

func (a *app) serveUntilStopped(ctx context.Context, n *node.Node, cfg node.Config, s serving) error {
	if err := recordRun(cfg, s.policy, s.tools); err != nil {
		return err
	}
	scrape := ""
	if s.metrics != "" {
		m, err := metrics.Serve(ctx, s.metrics, n.Engine().As(message.Principal{Role: message.RoleAuditor, Name: "askance-metrics"}))
		if err != nil {
			return err
		}
		defer func() { _ = m.Close() }() // nothing is lost
		scrape = m.URL()
	}
	if err := a.printServing(n, cfg, scrape); err != nil {
		return err
	}
	select {
	case err := <-n.Failed():
		return fmt.Errorf("the engine cannot go on: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recordRun keeps what an engine runs with in its data folder.
func recordRun(cfg node.Config, policy []string, tools string) error {
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("record the settings of this run: %w", err)
	}
	values := map[string][]string{"space": {string(cfg.Space)}, "durability": {string(cfg.Durability)}}
	if cfg.PolicyBucket {
		values["policy_bucket"] = []string{"true"}
	}
	if cfg.DirectoryBucket {
		values["directory_bucket"] = []string{"true"}
	}
	if n := cfg.Reviewers.PerMinute; n > 0 {
		values["reviewer_per_minute"] = []string{strconv.Itoa(n)}
	}
	if n := cfg.Reviewers.MaxOpen; n > 0 {
		values["reviewer_max_open"] = []string{strconv.Itoa(n)}
	}
	if cfg.Mode != "" {
		values["mode"] = []string{string(cfg.Mode)}
	}
	for key, paths := range map[string][]string{"policy": policy, "tools": {tools}, "directory": cfg.Directory, "keys": {cfg.Keys}, "cwd": {cfg.Cwd}, "working_dir": cfg.WorkingDirs} {
		for _, p := range paths {
			if p == "" {
				continue
			}
			values[key] = append(values[key], inFolder(here, key, p))
		}
	}
	return writeLastRun(string(cfg.Dir), values)
}

// started is what serve prints when it serves.
type started struct {
	URL        string   `json:"url"`
	Data       string   `json:"data"`
	PublicKey  string   `json:"public_key_file"`
	KeyID      string   `json:"key_id"`
	Space      string   `json:"space"`
	Engine     string   `json:"engine"`
	Durability string   `json:"durability"`
	Policy     string   `json:"policy"`
	Rules      int      `json:"rules"`
	Tools      []string `json:"tools"`
	PID        int      `json:"pid"`
	// Auth is how the names of those who send requests are established.
	Auth string `json:"auth"`
	// Metrics is where Prometheus may scrape.
	Metrics string `json:"metrics,omitzero"`
	// Open: other machines may reach the embedded server, under any name.
	Open bool `json:"open_beyond_loopback,omitzero"`
}

func (a *app) printServing(n *node.Node, cfg node.Config, scrape string) error {
	st := started{
		URL: n.URL(), Data: string(cfg.Dir), PublicKey: cfg.Dir.PublicKeys(), KeyID: n.KeyID(), Space: string(cfg.Space),
		Engine: n.Engine().ID(), Durability: n.Journal().Durability(), Policy: n.PolicyHash(), Rules: max(0, n.Rules()), PID: os.Getpid(),
		Open: openBeyondLoopback(cfg), Auth: n.Auth(), Metrics: scrape,
	}
	for _, t := range cfg.Tools {
		st.Tools = append(st.Tools, t.Name)
	}
	if a.json {
		return writeJSON(a.out, st)
	}
	policy := fmt.Sprintf("%d rules, %s", st.Rules, st.Policy)
	if n.Rules() < 0 {
		policy = a.out.Ask("none: every call asks a person (name rule files with --policy)")
	}
	tools := strings.Join(st.Tools, ", ")
	if tools == "" {
		tools = a.out.Ask("none: every call is refused (declare them with --tools)")
	}
	var text strings.Builder
	text.WriteString(a.out.Bold("askance serves") + "\n")
	for _, row := range [][2]string{
		{"nats", st.URL}, {"journal", st.Data + ", " + st.Durability}, {"engine", st.Engine + ", space " + st.Space},
		{"key", st.PublicKey + " (" + st.KeyID + ")"}, {"policy", policy}, {"tools", tools}, {"logins", a.logins(cfg, st.Auth)},
	} {
		fmt.Fprintf(&text, "  %s %s\n", a.out.Dim(fmt.Sprintf("%-8s", row[0])), row[1])
	}
	if scrape != "" {
		fmt.Fprintf(&text, "  %s %s\n", a.out.Dim("metrics "), scrape)
	}
	if st.Open {
		text.WriteString(a.out.Bad("  open beyond loopback: whoever reaches this server may act as anybody") + "\n")
	}
	return a.printf("%s", text.String())
}

// logins says who may connect.
func (a *app) logins(cfg node.Config, auth string) string {
	switch {
	case cfg.CredsDir != "":
		return "those of " + cfg.CredsDir
	case cfg.NATS != "" && auth == bus.AuthJWT:
		return "those that the server at --nats lets in"
	case cfg.NATS != "":
		return a.out.Ask("as the server at --nats has it; make sure that it keeps people apart")
	}
	return a.out.Ask("none needed: whoever reaches the address may use any name (make some with askance creds init)")
}
