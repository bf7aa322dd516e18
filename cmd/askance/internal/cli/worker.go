package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/directory"
	"github.com/askance-dev/askance/cmd/askance/internal/telemetry"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/executor"
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

With CMD: CMD gets the arguments as JSON on standard input.
Its standard output is the result, each line of its standard error is progress, and an
exit status other than zero is an error.

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
	env.notef("%s runs %s for %s, %s %s.\n", who, w.runs.what, queuesText(w), reach, w.door.address)
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
			executor.WithName(env.cfg.As), executor.WithSlots(env.cfg.Slots), executor.WithRoute(queue.Route), executor.WithLogger(env.log),
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

// runAll runs the workers until ctx ends or one of them fails.
func runAll(ctx context.Context, workers []*executor.Worker) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			if errs[i] = w.Run(ctx); errs[i] != nil {
				stop(fmt.Errorf("the worker of another tool failed: %w", errs[i]))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
