package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func greet(_ context.Context, t executor.Task) (executor.Output, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := t.Decode(&in); err != nil {
		return executor.Output{}, err
	}
	t.Progressf("looking for %s", in.Name)
	return executor.Textf("hello, %s", in.Name), nil
}

// A Registry runs Go functions in the engine's own process.
func ExampleRegistry() {
	var tools executor.Registry
	if err := tools.Register("greet", greet); err != nil {
		fmt.Println(err)
		return
	}
	run := func(input string) {
		res := tools.Run(context.Background(), toolcall.Invocation{
			Call:  &toolcall.Call{Key: toolcall.Key{Call: "call-1"}, Tool: "greet", Input: input},
			Input: message.RawJSON(input),
		}, func(line string) { fmt.Println("progress:", line) })
		fmt.Printf("%s: %s\n", res.State, res.Output)
	}
	run(`{"name":"Ann"}`)
	run(`{"Name":"Ann"}`)
	// Output:
	// progress: looking for Ann
	// success: hello, Ann
	// error: read the input of greet: decode JSON at /Name (byte 1): unknown member "Name"; remove it or correct its spelling; names are case-sensitive
}

// A Worker runs the calls of one tool that arrive over a Transport: usually that of package bus,
// here one in memory.
func ExampleWorker() {
	engine := executortest.NewEngine("greet")
	w, err := executor.NewWorker(engine, "greet", greet, engine.Keys(), executor.WithLogger(slog.New(slog.DiscardHandler)), executor.WithDrainTimeout(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan error)
	go func() { ran <- w.Run(context.Background()) }()

	call := engine.Record("call-1", `{"name":"Ann"}`)
	engine.Offer(call)
	res, err := engine.Wait(context.Background(), call.Call.Key)
	fmt.Println(res.State, res.Output, err)

	forged := engine.Record("call-2", `{"name":"Ann"}`)
	forged.Call.Input, forged.Call.Request.Input = `{"name":"Eve"}`, `{"name":"Eve"}`
	engine.Offer(forged)
	_, err = engine.Wait(context.Background(), forged.Call.Key)
	fmt.Println(err)

	fmt.Println(w.Close(), <-ran)
	// Output:
	// success hello, Ann <nil>
	// the worker refused test/session-1/reply-1/call-2: verify grant of test/session-1/reply-1/call-2: the arguments are not the ones that were approved (the task was changed on its way, or forged)
	// <nil> <nil>
}
