package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/temporaltest"
)

// keep is how long results are kept.
const keep = time.Hour

func runAsynq(appendfsync string) func(context.Context, load, measureFunc) error {
	return func(ctx context.Context, l load, measure measureFunc) (err error) {
		s, err := newServer("")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		socket := filepath.Join(s.dir, "redis.sock")
		ready := func(ctx context.Context) error {
			c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if err == nil {
				err = c.Close()
			}
			return err
		}
		err = s.start(ctx, ready, "redis-server", "--port", "0", "--unixsocket", socket, "--dir", s.dir, "--appendonly", "yes", "--appendfsync", appendfsync, "--save", "")
		if err != nil {
			return err
		}
		redis := asynq.RedisClientOpt{Network: "unix", Addr: socket, PoolSize: 2 * l.concurrency}
		c := asynq.NewClient(redis)
		defer func() { err = errors.Join(err, c.Close()) }()
		var w waiting
		// By default an empty queue is checked every second.
		workers := asynq.NewServer(redis, asynq.Config{Concurrency: l.concurrency, LogLevel: asynq.FatalLevel, TaskCheckInterval: time.Millisecond})
		err = workers.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
			_, err := t.ResultWriter().Write(t.Payload())
			w.end(t.Payload())
			return err
		}))
		if err != nil {
			return err
		}
		defer workers.Shutdown()
		return measure(s.cmd.Process.Pid, func(ctx context.Context, payload []byte) error {
			ended := w.add(payload)
			if _, err := c.EnqueueContext(ctx, asynq.NewTask("echo", payload), asynq.Retention(keep)); err != nil {
				return err
			}
			return await(ctx, ended)
		})
	}
}

// echoArgs is a job of River.
type echoArgs struct {
	N int64 `json:"n"`
}

// Kind implements river.JobArgs.
func (echoArgs) Kind() string { return "echo" }

type echoWorker struct {
	river.WorkerDefaults[echoArgs]

	pool  *pgxpool.Pool
	ended func(payload []byte)
}

// Work implements river.Worker. It completes the job itself: River would collect completed jobs
// for up to 250 ms, and callers that wait for them would measure only that.
func (w echoWorker) Work(ctx context.Context, j *river.Job[echoArgs]) error {
	if err := river.RecordOutput(ctx, j.Args); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j)
		return err
	})
	if err != nil {
		return err
	}
	w.ended(fmt.Appendf(nil, `{"n":%d}`, j.Args.N))
	return nil
}

func runRiver(synchronousCommit string) func(context.Context, load, measureFunc) error {
	return func(ctx context.Context, l load, measure measureFunc) (err error) {
		s, err := newServer("postgres")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		pool, err := startPostgres(ctx, s, synchronousCommit, 2*l.concurrency+8)
		if err != nil {
			return err
		}
		defer pool.Close()
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
		workers := river.NewWorkers()
		var w waiting
		river.AddWorker(workers, echoWorker{pool: pool, ended: w.end})
		// By default there are 100 ms between two fetches, and a second where no notice of a job came.
		c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
			Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: l.concurrency, FetchCooldown: time.Millisecond, FetchPollInterval: time.Millisecond}},
			Workers: workers, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		if err := c.Start(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Stop(ctx)) }()
		return measure(s.cmd.Process.Pid, func(ctx context.Context, payload []byte) error {
			var args echoArgs
			if err := json.Unmarshal(payload, &args); err != nil {
				return err
			}
			ended := w.add(payload)
			if _, err := c.Insert(ctx, args, nil); err != nil {
				return err
			}
			return await(ctx, ended)
		})
	}
}

func startPostgres(ctx context.Context, s *server, synchronousCommit string, connections int) (*pgxpool.Pool, error) {
	data := filepath.Join(s.dir, "data")
	if out, err := s.command("initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	config, err := pgxpool.ParseConfig("host=" + s.dir + " user=postgres dbname=postgres sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	err = s.start(ctx, pool.Ping, "postgres", "-D", data, "-k", s.dir, "-c", "listen_addresses=", "-c", "synchronous_commit="+synchronousCommit)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

func runTemporal(ctx context.Context, l load, measure measureFunc) (err error) {
	defer func() {
		if r := recover(); r != nil { // its test server panics where others return an error
			err = errors.Join(err, fmt.Errorf("the server failed: %v", r))
		}
	}()
	const queue = "echo"
	quiet := sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	s := temporaltest.NewServer(
		temporaltest.WithBaseClientOptions(client.Options{Logger: quiet}),
		temporaltest.WithBaseWorkerOptions(worker.Options{MaxConcurrentActivityExecutionSize: l.concurrency}),
	)
	defer s.Stop()
	echo := func(_ context.Context, payload []byte) ([]byte, error) { return payload, nil }
	flow := func(ctx workflow.Context, payload []byte) (out []byte, err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		err = workflow.ExecuteActivity(ctx, echo, payload).Get(ctx, &out)
		return out, err
	}
	s.NewWorker(queue, func(r worker.Registry) {
		r.RegisterActivity(echo)
		r.RegisterWorkflow(flow)
	})
	return measure(0, func(ctx context.Context, payload []byte) error {
		run, err := s.GetDefaultClient().ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue}, flow, payload)
		if err != nil {
			return err
		}
		return run.Get(ctx, nil)
	})
}
