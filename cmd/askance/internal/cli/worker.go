package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/directory"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/toolcall"
)

type working struct {
	tools    []string
	subjects []string
	passEnv  []string
	lifeline bool
	argv     []string
	door     door
}

func newWorkerCommand(env *environment) *cobra.Command {
	var w working
	c := &cobra.Command{
		Use:   "worker --tool NAME -- CMD [ARG…]",
		Short: "Run the allowed calls of a tool with any command",
		Long: `Takes allowed calls of a tool, verifies the engine's signed grant for exactly the bytes
to run, and runs CMD for each call. CMD gets the arguments as JSON on standard input.
Its standard output is the result, each line of its standard error is progress, and an
exit status other than zero is an error.

Standard input is a complete file before CMD starts, so that CMD gets all arguments or
does not run. A CMD with pipes inside, such as sh -c 'cat | act', should compare the
number of bytes that it read with ASKANCE_INPUT_BYTES before it acts.

CMD gets only a few variables of this environment (PATH, HOME and similar ones; more
with --pass-env), and these about its call: ASKANCE_IDEMPOTENCY_KEY, ASKANCE_TOOL,
ASKANCE_ATTEMPT, ASKANCE_INPUT_BYTES, ASKANCE_SPACE, ASKANCE_SESSION_ID,
ASKANCE_REPLY_ID, ASKANCE_CALL_ID. Pass the idempotency key to the system that has the
effect.

A policy rule can route calls (executor: {subject: …}). Only workers with that
--subject get such calls, and they get no others.

With --server the worker needs no NATS: it takes the calls over HTTP with a token, from
--token-file, which it reads again for each request, or from ASKANCE_TOKEN. Pin an engine's
key with --engine-key, or pass --trust-server-keys.`,
		Example: `  askance worker --tool refund -- ./refund.py
  askance worker --tool search --slots 8 --nats nats://10.0.0.5:4222 --engine-key engine.pub -- ./search
  askance worker --tool refund --server https://askance.example --token-file token --engine-key engine.pub -- ./refund.py
  askance worker --tool refund --subject exec.payments -- ./refund.py
  askance worker --tool build --tool test --pass-env GOCACHE -- ./ci.sh`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("want a command after --, for instance: askance worker --tool refund -- ./refund.py")
			}
			if len(w.tools) == 0 {
				return usagef("--tool is missing: pass the tool whose calls %s runs", args[0])
			}
			for _, s := range w.subjects {
				if err := toolcall.CheckRoute(s); err != nil {
					return usageError{err}
				}
			}
			w.argv = args
			return w.door.check(env)
		},
		RunE: func(c *cobra.Command, _ []string) error { return runWorker(c.Context(), env, w) },
	}
	env.cfg.bindClient(c)
	f := c.Flags()
	f.StringArrayVar(&w.tools, "tool", nil, "tool whose calls this worker runs; may be repeated")
	f.StringArrayVar(&w.subjects, "subject", nil, "subject to which rules route calls: run only those; may be repeated")
	env.cfg.bind(c, &env.cfg.Slots, &env.cfg.EngineKeys, &env.cfg.ApproverKeys, &env.cfg.RequireSignature)
	f.StringArrayVar(&w.passEnv, "pass-env", nil, "variable of this environment to pass to CMD; may be repeated")
	f.BoolVar(&w.lifeline, "until-stdin-closes", false, "stop when standard input ends; for programs that start workers")
	_ = f.MarkHidden("until-stdin-closes") // the flag is there: it was defined above
	w.door.bind(f)
	return c
}

func runWorker(ctx context.Context, env *environment, w working) error {
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
	handler, err := executor.Command{Argv: w.argv, PassEnv: w.passEnv}.Handler()
	if err != nil {
		return usageError{err}
	}
	if err := w.door.open(ctx, env); err != nil {
		return err
	}
	defer w.door.close()
	workers, err := newWorkers(ctx, env, handler, w)
	if err != nil {
		return err
	}
	env.notef("worker %s runs %q for %s at %s\n", env.cfg.As, w.argv, queuesText(w), w.door.address)
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
	if len(w.subjects) == 0 {
		return fmt.Sprintf("%q", w.tools)
	}
	return fmt.Sprintf("%q on %q", w.tools, w.subjects)
}

func newWorkers(ctx context.Context, env *environment, handler executor.Handler, w working) ([]*executor.Worker, error) {
	var out []*executor.Worker
	for _, queue := range toolcall.Queues(w.tools, w.subjects) {
		way, err := w.door.transport(ctx, env, queue)
		if err != nil {
			return nil, err
		}
		opts := []executor.WorkerOption{
			executor.WithName(env.cfg.As), executor.WithCommand(), executor.WithSlots(env.cfg.Slots), executor.WithRoute(queue.Route), executor.WithLogger(env.log),
			executor.WithKeySource(way.source),
		}
		if env.cfg.RequireSignature {
			opts = append(opts, executor.WithApprovers(func() (toolcall.ApproverList, error) { return approverList(env.cfg.ApproverKeys) }))
		}
		worker, err := executor.NewWorker(way, queue.Tool, handler, way.keys, opts...)
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
