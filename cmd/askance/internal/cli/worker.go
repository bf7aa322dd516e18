package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/directory"
	"github.com/askance-dev/askance/cmd/askance/internal/mcpworker"
	"github.com/askance-dev/askance/cmd/askance/internal/telemetry"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/cmd/askance/internal/urlworker"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/toolcall"
)

type working struct {
	tools    []string
	subjects []string
	passEnv  []string
	lifeline bool
	door     door
	runs     running
	tracer   *telemetry.Tracer
}

func newWorkerCommand(env *environment) *cobra.Command {
	var w working
	c := &cobra.Command{
		Use:   "worker --tool NAME -- CMD [ARG…] | --tools FILE --mcp SERVER | --tool NAME --url URL",
		Short: "Run the allowed calls of a tool with a command, an MCP server or an HTTP endpoint",
		Long: `Takes allowed calls of a tool, verifies the engine's signed grant for exactly the bytes
to run, and runs CMD for each call, asks an MCP server, or calls an HTTP endpoint.

CMD gets the arguments as JSON on standard input. Its standard output is the result,
each line of its standard error is progress, and an exit status other than zero is an
error.

Standard input is a complete file before CMD starts, so CMD gets all arguments or does
not run. A CMD with pipes inside, such as sh -c 'cat | act', should compare the
number of bytes that it read with ASKANCE_INPUT_BYTES before it acts.

CMD gets only a few variables of this environment (PATH, HOME and similar ones; more
with --pass-env), and these about its call: ASKANCE_IDEMPOTENCY_KEY, ASKANCE_TOOL,
ASKANCE_ATTEMPT, ASKANCE_INPUT_BYTES, ASKANCE_SPACE, ASKANCE_SESSION_ID,
ASKANCE_REPLY_ID, ASKANCE_CALL_ID. Pass the idempotency key to the system that has the
effect.

With --log-level info the worker logs each call that it ran.

A policy rule can route calls (executor: {subject: …}). Only workers with that
--subject get such calls, and they get no others.

With --server the worker needs no NATS: it takes the calls over HTTP with a token, from
--token-file, which it reads again for each request, or from ASKANCE_TOKEN. Pin an engine's
key with --engine-key, or pass --trust-server-keys.

With --mcp the worker runs the tools of an MCP server: a command line, or the URL of a
server over HTTP. --tools names the tools file that askance tools import wrote; the worker
runs its remote tools, or those of --tool, as long as the server's definitions match the
imported ones. It restarts a server that ended.

With --url the worker sends the arguments to an HTTP endpoint; {tool} in the path stands
for the tool's name. The endpoint gets Idempotency-Key and, with --sign-secret-file, the
webhook-signature header. 2xx is the result. 4xx is an error, and nothing ran. After 408,
5xx, a redirect with a new method or a lost connection the outcome is unknown.

A call with an unknown outcome has no result: when its lease has ended, askance runs an
idempotent tool again, and asks an operator about any other.`,
		Example: `  askance worker --tool refund -- ./refund.py
  askance worker --tool search --slots 8 --nats nats://10.0.0.5:4222 --engine-key engine.pub -- ./search
  askance worker --tool refund --server https://askance.example --token-file token --engine-key engine.pub -- ./refund.py
  askance worker --tool refund --subject exec.payments -- ./refund.py
  askance worker --tools shop.yaml --mcp 'npx -y @example/shop-server'
  askance worker --tools shop.yaml --mcp https://mcp.example.com/mcp --header-env Authorization=SHOP_AUTH
  askance worker --tool refund --url https://shop.example/refund --sign-secret-file secret
  askance worker --tool build --tool test --pass-env GOCACHE -- ./ci.sh`,
		Args: func(c *cobra.Command, args []string) error {
			if err := w.runs.check(args, len(w.tools), env.cfg.Tools); err != nil {
				return err
			}
			for _, s := range w.subjects {
				if err := toolcall.CheckRoute(s); err != nil {
					return usageError{err}
				}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return runWorker(c.Context(), env, w) },
	}
	env.cfg.bindService(c)
	f := c.Flags()
	f.StringArrayVar(&w.tools, "tool", nil, "tool whose calls this worker runs; may be repeated")
	f.StringArrayVar(&w.subjects, "subject", nil, "subject to which rules route calls: run only those; may be repeated")
	env.cfg.bind(c, &env.cfg.Tools, &env.cfg.Slots, &env.cfg.EngineKeys, &env.cfg.ApproverKeys, &env.cfg.RequireSignature)
	f.StringArrayVar(&w.passEnv, "pass-env", nil, "variable of this environment to pass to CMD; may be repeated")
	f.BoolVar(&w.lifeline, "until-stdin-closes", false, "stop when standard input ends; for programs that start workers")
	_ = f.MarkHidden("until-stdin-closes") // the flag is there: it was defined above
	w.door.bind(c, env)
	env.cfg.bindAs(c, &env.cfg.Server, "URL of askance serve, to take calls over HTTP with a token instead of NATS")
	f.BoolVar(&w.door.trust, "trust-server-keys", false, "with --server: take the engines' keys from the server instead of --engine-key: anyone who controls the server can then run calls here")
	w.runs.bind(c)
	return c
}

func runWorker(ctx context.Context, env *environment, w working) error {
	if err := w.door.check(env); err != nil {
		return err
	}
	if w.lifeline {
		var stop context.CancelCauseFunc
		ctx, stop = context.WithCancelCause(ctx)
		defer stop(nil)
		go func() {
			_, _ = io.Copy(io.Discard, env.in) // until its end
			stop(errSignal)
		}()
	}
	if env.cfg.RequireSignature != (len(env.cfg.ApproverKeys) > 0) {
		return usagef("only one of --approver-keys and --require-approver-signature is set: pass both")
	}
	if _, err := directory.Load(env.cfg.ApproverKeys...); err != nil {
		return err
	}
	if err := w.runs.load(env, &w); err != nil {
		return err
	}
	if err := w.door.open(ctx, env); err != nil {
		return err
	}
	defer w.door.close()
	tracer, err := telemetry.Open(buildInfo().Version, env.log)
	if err != nil {
		return err
	}
	defer func() { _ = tracer.Close() }() // what could not be sent is logged
	w.tracer = tracer
	workers, err := newWorkers(ctx, env, w)
	if err != nil {
		return err
	}
	defer w.runs.start(ctx)()
	who, reach := "Worker "+env.cfg.As, "connected to"
	if w.door.server != "" {
		who, reach = "A worker", "polling" // the token has its name
	}
	announcef(env, "%s runs %s for %s, %s %s.\n", who, w.runs.what, queuesText(w), reach, w.door.address)
	return runAll(ctx, workers)
}

// approverList reads the trusted approvers again for each task, so that a removed key
// no longer counts.
func approverList(paths []string) (toolcall.ApproverList, error) {
	d, err := directory.Load(paths...)
	if err != nil {
		return toolcall.ApproverList{}, err
	}
	return toolcall.ApproverList{Keys: d.Keys(), Groups: d.Members()}, nil
}

func queuesText(w working) string {
	text := "the calls of " + strings.Join(w.tools, ", ")
	if len(w.subjects) > 0 {
		text += " on " + strings.Join(w.subjects, ", ")
	}
	return term.SafeLine(text)
}

func newWorkers(ctx context.Context, env *environment, w working) ([]*executor.Worker, error) {
	var out []*executor.Worker
	for _, queue := range toolcall.Queues(w.tools, w.subjects) {
		way, err := w.door.transport(ctx, env, queue)
		if err != nil {
			return nil, err
		}
		opts := []executor.WorkerOption{
			executor.WithName(env.cfg.As), executor.WithSlots(env.cfg.Slots), executor.WithRoute(queue.Route), executor.WithSpace(w.door.space), executor.WithLogger(env.log),
			executor.WithKeySource(way.source),
		}
		if env.cfg.RequireSignature {
			opts = append(opts, executor.WithApprovers(func() (toolcall.ApproverList, error) { return approverList(env.cfg.ApproverKeys) }))
		}
		if w.runs.server == nil && w.runs.url == "" {
			opts = append(opts, executor.WithCommand())
		}
		worker, err := executor.NewWorker(w.runs.gate(way), queue.Tool, w.tracer.Handler(w.runs.handler(queue.Tool)), way.keys, opts...)
		if err != nil {
			return nil, usageError{err}
		}
		out = append(out, worker)
	}
	return out, nil
}

var errOtherWorker = errors.New("the worker of another tool failed")

// runAll runs the workers until ctx ends or one of them fails.
func runAll(ctx context.Context, workers []*executor.Worker) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			if errs[i] = w.Run(ctx); errs[i] != nil {
				stop(errOtherWorker)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

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

// header reads the headers of --header-env.
func (r *running) header() (http.Header, error) {
	out := http.Header{}
	for _, pair := range r.headerEnv {
		name, variable, ok := strings.Cut(pair, "=")
		value := strings.TrimSpace(os.Getenv(variable))
		switch {
		case !ok || !httpguts.ValidHeaderFieldName(name):
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
		return nil, errors.New("--mcp: the command ends within quotes or after a backslash: correct it")
	case len(out) == 0:
		return nil, errors.New("--mcp: the command is empty: pass the program that is the server")
	}
	return out, nil
}
