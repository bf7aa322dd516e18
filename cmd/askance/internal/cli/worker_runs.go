package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/mcpworker"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/cmd/askance/internal/urlworker"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/toolcall"
)

// running is what a worker runs its calls with: a command, an MCP server or an endpoint.
type running struct {
	mcp        string
	url        string
	method     string
	headerEnv  []string
	secretFile string
	timeout    time.Duration
	argv       []string

	what    string // for people
	server  *mcpworker.Server
	handler func(tool string) executor.Handler
}

func (r *running) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.mcp, "mcp", "", "MCP server whose tools to run: a command line, or a URL")
	f.StringVar(&r.url, "url", "", "HTTP endpoint to call; {tool} in its path is the name of the tool")
	f.StringVar(&r.method, "method", http.MethodPost, "with --url: method of the request: "+strings.Join(urlworker.Methods, ", "))
	f.StringArrayVar(&r.headerEnv, "header-env", nil, "header for --url or the URL of --mcp, as HEADER=VARIABLE: its value is that of the variable; may be repeated")
	f.StringVar(&r.secretFile, "sign-secret-file", "", "with --url: file with a secret (whsec_ and base64) that signs each request as webhooks are signed")
	durationVar(f, &r.timeout, "timeout", urlworker.DefaultTimeout, "with --url: how long the endpoint has for a reply")
	_ = c.RegisterFlagCompletionFunc("method", cobra.FixedCompletions(urlworker.Methods, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses flags that cannot be combined.
func (r *running) check(args []string, tools int, file string) error {
	ways := min(len(args), 1)
	for _, flag := range []string{r.mcp, r.url} {
		if flag != "" {
			ways++
		}
	}
	switch {
	case ways == 0:
		return usagef("expected a command after --, --mcp or --url, for instance: askance worker --tool refund -- ./refund.py")
	case ways > 1:
		return usagef("expected only one of a command after --, --mcp and --url")
	case r.mcp != "" && file == "":
		return usagef("--tools is missing: pass the tools file of the server, which askance tools import writes")
	case r.mcp == "" && tools == 0:
		return usagef("--tool is missing: pass the tool whose calls %s runs", slices.Concat(args, []string{r.url})[0])
	case r.url == "" && r.secretFile != "":
		return usagef("--sign-secret-file is only for --url")
	case len(r.headerEnv) > 0 && r.url == "" && !isURL(r.mcp):
		return usagef("--header-env is only for --url, and for --mcp with a URL")
	}
	r.argv = args
	return nil
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// load prepares what runs the calls, and finds the tools of an MCP server.
func (r *running) load(env *environment, w *working) error {
	header, err := r.header()
	if err != nil {
		return err
	}
	switch {
	case r.mcp != "":
		return r.loadServer(env, w, header)
	case r.url != "":
		return r.loadEndpoint(header)
	}
	h, err := executor.Command{Argv: r.argv, PassEnv: w.passEnv}.Handler()
	if err != nil {
		return usageError{err}
	}
	r.what, r.handler = term.SafeLine(strings.Join(r.argv, " ")), func(string) executor.Handler { return h }
	return nil
}

func (r *running) loadServer(env *environment, w *working, header http.Header) error {
	tools, err := toolfile.Load(env.cfg.Tools)
	if err != nil {
		return err
	}
	pins := map[string]string{}
	for _, t := range tools {
		if t.Placement == toolcall.PlaceRemote && t.Definition != "" && (len(w.tools) == 0 || slices.Contains(w.tools, t.Name)) {
			pins[t.Name] = t.Definition
		}
	}
	for _, name := range w.tools {
		if pins[name] == "" {
			return usagef("%s has no remote tool %q with a definition: import it with askance tools import", env.cfg.Tools, name)
		}
	}
	if len(pins) == 0 {
		return usagef("%s has no remote tool with a definition: import the tools of the server with askance tools import", env.cfg.Tools)
	}
	if w.tools == nil {
		for _, t := range tools { // in the order of the file
			if pins[t.Name] != "" {
				w.tools = append(w.tools, t.Name)
			}
		}
	}
	cfg := mcpworker.Config{PassEnv: w.passEnv, Header: header, Pins: pins, Log: env.log}
	if isURL(r.mcp) {
		if u, err := url.Parse(r.mcp); err != nil || u.Host == "" || u.User != nil {
			return usagef("--mcp is not a URL of the form https://HOST/PATH: pass one without a password")
		}
		cfg.URL, r.what = r.mcp, "the MCP server "+bus.RedactURL(r.mcp)
	} else if cfg.Argv, err = splitCommand(r.mcp); err != nil {
		return usageError{err}
	} else {
		r.what = "the MCP server " + term.SafeLine(cfg.Argv[0]) // its arguments can contain a secret
	}
	r.server = mcpworker.New(cfg)
	r.handler = r.server.Handler
	return nil
}

func (r *running) loadEndpoint(header http.Header) error {
	cfg := urlworker.Config{URL: r.url, Method: r.method, Header: header, Timeout: r.timeout}
	if r.secretFile != "" {
		b, err := textfile.ReadHanded("secret file", r.secretFile, maxSecret)
		if err != nil {
			return err
		}
		secret, err := webhook.ParseSecret(string(b))
		if err != nil {
			return usagef("--sign-secret-file %s: %w: write whsec_ and the base64 of 24 to 64 random bytes", r.secretFile, err)
		}
		cfg.Secrets = []webhook.Secret{secret}
	}
	h, err := urlworker.New(cfg)
	if err != nil {
		return usagef("--url: %w", err)
	}
	r.what, r.handler = bus.RedactURL(r.url), func(string) executor.Handler { return h }
	return nil
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// header reads the headers of --header-env.
func (r *running) header() (http.Header, error) {
	out := http.Header{}
	for _, pair := range r.headerEnv {
		name, variable, ok := strings.Cut(pair, "=")
		value := strings.TrimSpace(os.Getenv(variable))
		switch {
		case !ok || !headerName.MatchString(name):
			return nil, usagef("--header-env %q is not HEADER=VARIABLE", pair)
		case value == "" || strings.ContainsFunc(value, unicode.IsControl):
			return nil, usagef("--header-env %s: the variable %s has no value for a header: set it", name, variable)
		}
		out.Add(name, value)
	}
	return out, nil
}

// gate returns a transport that takes tasks only while the MCP server is ready.
func (r *running) gate(t executor.Transport) executor.Transport {
	if r.server == nil {
		return t
	}
	return r.server.Transport(t)
}

// start runs the MCP server, if there is one, until stop is called: it outlives ctx, as
// the calls that run do.
func (r *running) start(ctx context.Context) (stop func()) {
	if r.server == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { r.server.Run(ctx) })
	return func() { cancel(); wg.Wait() }
}

// splitCommand splits a command line at spaces. Quotes and backslashes protect them; no
// shell reads it.
func splitCommand(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	inWord, quote, escaped := false, rune(0), false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			inWord, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			inWord, quote = true, c
		case unicode.IsSpace(c):
			if inWord {
				out = append(out, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if inWord {
		out = append(out, word.String())
	}
	switch {
	case quote != 0 || escaped:
		return nil, errors.New("--mcp: a quote or a backslash of the command has no end: close it")
	case len(out) == 0:
		return nil, errors.New("--mcp: the command is empty: pass the program that is the server")
	}
	return out, nil
}
