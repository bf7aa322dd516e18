package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// config holds every setting of the command. The tags of a field are the only
// place that defines its setting:
//
//	flag     name of the flag; ASKANCE_ with the name in capitals is the variable,
//	         the name with underscores is the key in the settings file
//	help     what the setting is, for --help and for the reference
//	default  value without a flag, a variable or a key
//	absent   what a command does without a value
//	path     the value is a file, or rule files that LAYER= may precede
//	choices  every value that the setting takes
//
// A command selects its settings with bind.
type config struct {
	Data          string        `flag:"data" path:"file" absent:"{data}" help:"data folder: keys, and the journal of an embedded server"`
	Context       string        `flag:"context" absent:"the current context, if there is one" help:"context to use, a server with your login: see askance context"`
	NATS          string        `flag:"nats" help:"URL of an existing NATS server or cluster, instead of the data folder's own"`
	Server        string        `flag:"server" help:"URL of askance serve, to reach it over HTTP with a token instead of NATS, or unix://PATH of its Unix socket"`
	TokenFile     string        `flag:"token-file" path:"file" absent:"the token in $ASKANCE_TOKEN" help:"file with the token for --server"`
	Creds         string        `flag:"creds" path:"file" help:"NATS credentials file"`
	SystemCreds   string        `flag:"nats-system-creds" path:"file" help:"NATS credentials file of the system account, so that the engine can ask the server of --nats when it syncs to disk"`
	CA            string        `flag:"nats-ca" path:"file" absent:"the authorities that the system trusts" help:"PEM file with the certificates of the authorities trusted for the NATS server"`
	Cert          string        `flag:"nats-cert" path:"file" help:"PEM file with the certificate chain of the embedded NATS server, which then encrypts its connections"`
	CertKey       string        `flag:"nats-key" path:"file" help:"file with the private key of --nats-cert"`
	PlainText     bool          `flag:"nats-insecure" help:"allow logins and calls to cross the network in plain text"`
	CredsDir      string        `flag:"creds-dir" path:"file" absent:"creds in the data folder, if it exists" help:"credentials folder: who can log in to the embedded server"`
	Space         string        `flag:"space" default:"default" help:"space: one journal, one set of keys and people"`
	Spaces        string        `flag:"spaces" path:"file" help:"file with more spaces that this process serves, each with its own journal, keys, policy, tools and people; --space and the other flags apply to the first one"`
	As            string        `flag:"as" default:"{user}" help:"your name, or that of the worker, as the journal records it"`
	Listen        string        `flag:"listen" default:"127.0.0.1:4222" help:"address of the embedded server; port 0 picks a free port"`
	Durability    string        `flag:"durability" choices:"fsynced,cached,quorum" absent:"fsynced; with --nats, what the server reports, else cached" help:"what an acknowledgement means: fsynced (on the disk) or cached; with --nats, what you state about that server: fsynced, cached or quorum"`
	Replicas      int           `flag:"replicas" absent:"3 on a cluster, else 1" help:"servers of the cluster of --nats that hold the journal, the checkpoints and the buckets: 1, 3 or 5; an existing journal with fewer is refused"`
	Keys          string        `flag:"keys" path:"file" absent:"engine.key in the data folder" help:"key file of the engines of the space; askance serve creates it if it does not exist"`
	Anchor        string        `flag:"anchor-file" path:"file" absent:"anchors/SPACE in the data folder" help:"file that records the last sequence of the journal, to detect lost records; put it on another disk"`
	LogFormat     string        `flag:"log-format" default:"text" choices:"text,json" help:"format of log lines on standard error: text or json"`
	LogLevel      string        `flag:"log-level" default:"warn" choices:"debug,info,warn,error" help:"lowest level that is logged on standard error: debug, info, warn or error"`
	Metrics       string        `flag:"metrics" absent:"none" help:"address at which Prometheus can scrape /metrics; :9464 listens on loopback"`
	MetricsWindow time.Duration `flag:"metrics-window" default:"1h" help:"how far back the metrics askance_reviewer_recent_* reach"`
	MetricsPeople bool          `flag:"metrics-people" help:"export the metrics askance_reviewer_* for each person, with names as labels; without it, only for groups"`

	Policy            []string      `flag:"policy" path:"rules" help:"rule file, or folder of rule files, prefixed with LAYER= if the layer is not project"`
	PolicyBucket      bool          `flag:"policy-bucket" help:"also read rule files from the NATS key-value bucket ASKANCE_POLICY_<space>, which is created if it does not exist"`
	Shadow            []string      `flag:"shadow" path:"rules" help:"rule file, or folder of rule files, of a policy that decides nothing: the engine logs where it would decide differently"`
	Directory         []string      `flag:"directory" path:"file" help:"file that says which groups people are in"`
	DirectoryBucket   bool          `flag:"directory-bucket" help:"also read directory files from the NATS key-value bucket ASKANCE_DIRECTORY_<space>, which is created if it does not exist"`
	Tools             string        `flag:"tools" path:"file" help:"file that declares the tools"`
	Mode              string        `flag:"mode" choices:"default,accept_edits,explore,bypass,dont_ask" help:"permission mode, which overrides that of the policy: default, accept_edits, explore, bypass or dont_ask"`
	Cwd               string        `flag:"cwd" path:"file" absent:"the current folder" help:"folder in which the tools run, for rules about paths"`
	WorkingDirs       []string      `flag:"working-dir" path:"file" help:"another folder in which tools can edit files if the mode permits it"`
	Remind            time.Duration `flag:"remind" help:"remind inboxes of an open approval request after this time without a change; 0: never"`
	ReviewerPerMinute int           `flag:"reviewer-per-minute" help:"most responses that one reviewer can give within a minute; 0: no limit"`
	ReviewerPerHour   int           `flag:"reviewer-per-hour" help:"most responses that one reviewer can give within an hour; 0: no limit"`
	MaxOpen           int           `flag:"max-open" default:"250000" help:"most open calls in the space: above it new ones are refused as overloaded; 0: no limit; several engines together can exceed it by the calls that they are recording"`
	MaxRunning        int           `flag:"max-running" default:"4096" help:"most local calls that run in this process: above it new ones are refused as overloaded; 0: no limit"`
	ArchiveOlderThan  time.Duration `flag:"archive-older-than" help:"once a day, archive finished replies that had no record for this time, as askance journal archive does; 0: never"`
	ArchiveKeep       int           `flag:"archive-keep" help:"with --archive-older-than, keep this many of these calls, the newest"`
	ArchiveMaxBytes   int           `flag:"archive-max-bytes" help:"with --archive-older-than, archive no more once the journal has at most this many bytes; 0: no limit"`
	ReviewerMaxOpen   int           `flag:"reviewer-max-open" help:"most open approval requests of one reviewer: above it they get none by delegation, and a call that only such people could approve is refused; 0: no limit"`

	HTTP            string        `flag:"http" absent:"{http}, or a free port if that is taken" help:"address of the web inbox and the HTTP interfaces; off opens no port"`
	HTTPSocket      string        `flag:"http-socket" path:"file" help:"Unix socket of the web inbox and the HTTP interfaces: the kernel identifies the user who connects, and only you can open it; --http then needs tokens or a provider"`
	HTTPSocketGroup string        `flag:"http-socket-group" help:"group that can also open the Unix socket"`
	HTTPSocketRoles []string      `flag:"http-socket-role" help:"role of another user at the Unix socket, as USER=ROLE with a name or a uid; * is every user who can open it"`
	HTTPCert        string        `flag:"http-cert" path:"file" help:"file with the certificate chain for TLS over HTTP"`
	HTTPKey         string        `flag:"http-key" path:"file" help:"file with the private key of --http-cert"`
	HTTPInsecure    bool          `flag:"http-insecure" help:"allow --http to listen beyond loopback without TLS, behind a proxy that has it"`
	HTTPTokens      string        `flag:"http-tokens" path:"file" login:"true" absent:"tokens.json in the data folder, if it exists" help:"token file: who can use HTTP"`
	HTTPURL         string        `flag:"http-url" help:"URL at which browsers reach the gateway, if it is behind a proxy"`
	HTTPOrigins     []string      `flag:"http-origin" help:"origin of pages of another site that can use the gateway, as https://app.example; needs tokens or a provider"`
	HTTPSession     time.Duration `flag:"http-session" default:"12h" help:"how long a browser stays logged in"`

	OIDCIssuer      string   `flag:"oidc-issuer" login:"true" help:"OpenID Connect provider at which people log in, and whose JWTs programs can send"`
	OIDCClient      string   `flag:"oidc-client" help:"client id at the provider"`
	OIDCSecretFile  string   `flag:"oidc-secret-file" path:"file" help:"file with the client's secret, if it has one"`
	OIDCAudience    string   `flag:"oidc-audience" absent:"the client id" help:"audience that JWTs of programs must name"`
	OIDCNameClaim   string   `flag:"oidc-name-claim" default:"email" help:"claim that names people; email counts only if it is verified"`
	OIDCGroupsClaim string   `flag:"oidc-groups-claim" default:"groups" help:"claim with the groups of people"`
	OIDCScopes      []string `flag:"oidc-scope" help:"scope to request at logins, in addition to openid, profile and email; some providers send groups only for the scope groups"`
	OIDCRoles       []string `flag:"oidc-role" help:"role of a group at the provider, as GROUP=ROLE; * is every user of the provider"`

	EngineKeys       []string `flag:"engine-key" path:"file" absent:"engine.pub in the data folder" help:"public key file of the engines, or folder of such files, with which a worker checks grants"`
	ApproverKeys     []string `flag:"approver-keys" path:"file" help:"directory file with the keys of the approvers that a worker trusts, and groups if it has any"`
	RequireSignature bool     `flag:"require-approver-signature" help:"run only calls that everyone who must agree, and at least one person, signed with a key of --approver-keys"`
	SignKey          string   `flag:"sign-key" path:"file" help:"file with your key, to sign approvals (askance keys approver creates one)"`
	Slots            int      `flag:"slots" default:"1" help:"calls of each tool that a worker runs at the same time"`
}

type setting struct {
	index       int
	flag        string
	help        string
	def, absent string // with placeholders, see expand
	path        string // "", "file" or "rules"
	list        bool
	login       bool // without it the server has no logins, so that an empty value is not a choice
	choices     []string
}

var settings = readTags()

func readTags() []setting {
	t := reflect.TypeFor[config]()
	out := make([]setting, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		s := setting{index: i, flag: f.Tag.Get("flag"), help: f.Tag.Get("help"), def: f.Tag.Get("default"), absent: f.Tag.Get("absent"), path: f.Tag.Get("path"), login: f.Tag.Get("login") != "", list: f.Type.Kind() == reflect.Slice}
		if c := f.Tag.Get("choices"); c != "" {
			s.choices = strings.Split(c, ",")
		}
		out = append(out, s)
	}
	return out
}

// expand replaces the placeholders of a default with the values of this machine.
func expand(text string) string {
	return strings.NewReplacer("{data}", defaultData("$HOME"), "{user}", userName(), "{http}", web.DefaultAddress).Replace(text)
}

// usage returns the help of the flag; pflag adds a default of the tag itself.
func (s setting) usage() string {
	text := s.help
	if s.list {
		text += "; may be repeated"
	}
	if s.absent != "" {
		text += " (default " + expand(s.absent) + ")"
	}
	return text
}

func (s setting) reference() string {
	text := fmt.Sprintf("  --%s, %s, %s\n      %s", s.flag, s.key(), s.env(), s.usage())
	if s.def != "" {
		text += fmt.Sprintf(" (default %q)", expand(s.def))
	}
	return text + "\n"
}

func (s setting) key() string { return strings.ReplaceAll(s.flag, "-", "_") }
func (s setting) env() string { return "ASKANCE_" + strings.ToUpper(s.key()) }

// bind gives a command the flags of some settings. Each field is the address of a field of cfg.
func (cfg *config) bind(c *cobra.Command, fields ...any) {
	for _, p := range fields {
		cfg.bindFlag(c, c.Flags(), p, "")
	}
}

// bindAs is bind for one setting that means something different in this command.
func (cfg *config) bindAs(c *cobra.Command, field any, help string) {
	cfg.bindFlag(c, c.Flags(), field, help)
}

// bindClient adds the flags of a command with which a person talks to an engine.
func (cfg *config) bindClient(c *cobra.Command) {
	cfg.bindService(c)
	cfg.bind(c, &cfg.Context, &cfg.Server, &cfg.TokenFile)
	_ = c.RegisterFlagCompletionFunc("context", completeContexts)
}

// bindService adds the flags of a program that talks to an engine. It uses no context,
// because a context has the login of a person.
func (cfg *config) bindService(c *cobra.Command) {
	cfg.bindJournal(c)
	cfg.bind(c, &cfg.As)
}

// bindJournal adds the flags that locate the journal.
func (cfg *config) bindJournal(c *cobra.Command) {
	cfg.bind(c, &cfg.Data, &cfg.NATS, &cfg.Creds, &cfg.CA, &cfg.PlainText, &cfg.Space)
}

// ofSpace returns the settings that each space of a server has.
func (cfg *config) ofSpace() []any {
	return []any{
		&cfg.Policy, &cfg.PolicyBucket, &cfg.Shadow, &cfg.Directory, &cfg.DirectoryBucket, &cfg.Tools, &cfg.Mode, &cfg.Cwd, &cfg.WorkingDirs,
		&cfg.Remind, &cfg.MaxOpen, &cfg.MaxRunning, &cfg.ReviewerPerMinute, &cfg.ReviewerPerHour, &cfg.ReviewerMaxOpen, &cfg.Keys, &cfg.Anchor,
		&cfg.ArchiveOlderThan, &cfg.ArchiveKeep, &cfg.ArchiveMaxBytes,
	}
}

// bindFlag adds the flag of a field, and completes its choices.
func (cfg *config) bindFlag(c *cobra.Command, f *pflag.FlagSet, field any, help string) {
	s := cfg.settingAt(field)
	if help == "" {
		help = s.usage()
	}
	s.define(f, field, help)
	_ = f.SetAnnotation(s.flag, ofSetting, nil) // the flag is there: it was just defined
	if s.choices != nil && c != nil {
		_ = c.RegisterFlagCompletionFunc(s.flag, cobra.FixedCompletions(s.choices, cobra.ShellCompDirectiveNoFileComp))
	}
}

func (cfg *config) settingAt(field any) setting {
	v := reflect.ValueOf(cfg).Elem()
	for _, s := range settings {
		if v.Field(s.index).Addr().Interface() == field {
			return s
		}
	}
	panic(fmt.Sprintf("cli: %T is not the address of a setting", field))
}

// define adds the flag. An invalid default in a tag is a programming error.
func (s setting) define(f *pflag.FlagSet, field any, help string) {
	var err error
	switch p := field.(type) {
	case *string:
		f.StringVar(p, s.flag, expand(s.def), help)
	case *[]string:
		f.StringArrayVar(p, s.flag, nil, help)
	case *bool:
		f.BoolVar(p, s.flag, false, help)
	case *int:
		n := 0
		if s.def != "" {
			n, err = strconv.Atoi(s.def)
		}
		f.IntVar(p, s.flag, n, help)
		onlyDecimal(f.Lookup(s.flag))
	case *time.Duration:
		var d time.Duration
		if s.def != "" {
			d, err = permission.ParseDuration(s.def)
		}
		durationVar(f, p, s.flag, d, help)
	default:
		err = fmt.Errorf("a setting cannot be a %T", field)
	}
	if err != nil {
		panic(fmt.Sprintf("cli: setting %s: %v", s.flag, err))
	}
}

func (s setting) texts(v reflect.Value) []string {
	f := v.Field(s.index)
	switch {
	case f.IsZero():
		return nil
	case s.list:
		return f.Interface().([]string)
	}
	return []string{fmt.Sprint(f.Interface())}
}

func (cfg *config) dir() string {
	if cfg.Data != "" {
		return cfg.Data
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return defaultData(home)
}

func (cfg *config) spaceID() toolcall.SpaceID { return toolcall.SpaceID(cfg.Space) }

func (cfg *config) reviewerLimits() toolcall.ReviewerLimits {
	return toolcall.ReviewerLimits{PerMinute: cfg.ReviewerPerMinute, PerHour: cfg.ReviewerPerHour, MaxOpen: cfg.ReviewerMaxOpen}
}

// defaultData follows the XDG base directories.
func defaultData(home string) string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "askance")
	}
	if runtime.GOOS == "windows" {
		if dir := os.Getenv("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, "askance")
		}
	}
	return filepath.Join(home, ".local", "share", "askance")
}

func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return filepath.Base(u.Username) // on Windows the domain comes before it
	}
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "unknown"
}
