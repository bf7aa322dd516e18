package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// SignalContext gives a context that ends at the first SIGINT or SIGTERM. The
// second ends the process at once: whoever sends it does not want to wait, and
// what was acknowledged is durable.
func SignalContext() (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			end(errSignal)
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(ExitInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		end(nil)
	}
}

// Process runs one command as this process: on its own streams, until it ends or
// is told to stop. It returns the exit code.
func Process(args []string) int {
	ctx, stop := SignalContext()
	defer stop()
	return Main(ctx, IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, args)
}
