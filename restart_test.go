package askance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance"
	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const childData = "ASKANCE_TEST_DATA"

// TestMain is also the program that the tests below kill.
func TestMain(m *testing.M) {
	data := os.Getenv(childData)
	if data == "" {
		os.Exit(m.Run())
	}
	app, err := askance.Open(context.Background(), askance.Rules(policy), durable(func(context.Context, text) (string, error) {
		fmt.Println("running")
		select {} // killed here: not idempotent
	}), askance.Data(data), askance.Approver("ann", func(context.Context, askance.Request) askance.Response {
		fmt.Println("asking")
		return askance.Response{}
	}))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, tool := range []string{"write", "read"} {
		go func() {
			_, err := app.Call(context.Background(), tool, text{Text: "it"}, askance.ID("a-"+tool))
			fmt.Println(err)
		}()
	}
	select {}
}

// durable are the tools of the policy, with a lease that a test can wait for.
func durable(read handler) []askance.Tool {
	tools := []askance.Tool{askance.Func("read", "Reads.", read), askance.Func("write", "Writes.", echo), askance.Func("drop", "Drops.", echo)}
	for i := range tools {
		tools[i].Lease = time.Second
	}
	return tools
}

// A program is killed while a person is asked about one call and another one runs.
func TestOpenCallsContinueAfterACrash(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe)
	child.Env = append(os.Environ(), childData+"="+data)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(out); !strings.Contains(said, "asking") || !strings.Contains(said, "running"); said += lines.Text() + "\n" {
		if !lines.Scan() {
			t.Errorf("the program ended early: %s", said)
			break
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // killed
	app, err := askance.Open(t.Context(), askance.Rules(policy), durable(func(context.Context, text) (string, error) {
		t.Error("a call whose outcome is unknown ran again")
		return "", nil
	}), askance.Data(data), responds(askance.Approve()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := app.Close(); err != nil {
			t.Error(err)
		}
	}()
	// The request is asked about without a caller, and the call runs.
	runtime := app.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "app"})
	if w, err := runtime.Wait(t.Context(), toolcall.WaitRequest{Session: "app", Reply: "a-write"}); err != nil || !w.Done {
		t.Fatalf("the open call = %+v, %v; want it finished", w, err)
	}
	if r, err := app.Call(t.Context(), "write", text{Text: "it"}, askance.ID("a-write")); err != nil || r.Output != "echo it" {
		t.Errorf("the same call again = %+v, %v", r, err)
	}
	_, err = app.Call(t.Context(), "read", text{Text: "it"}, askance.ID("a-read"))
	e, _ := errors.AsType[*askance.CallError](err)
	if !errors.Is(err, askance.ErrUnknownOutcome) || !e.Call.Open() || !strings.Contains(e.Reason, "Do not repeat it") {
		t.Fatalf("the call that was cut off = %v, want ErrUnknownOutcome", err)
	}
	operator := app.As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "ops"})
	if _, err := operator.Resolve(t.Context(), toolcall.ResolveRequest{Key: e.Call.Key, Attempt: e.Call.Attempt.Number, Outcome: toolcall.OutcomeHappened, Output: "it was read"}); err != nil {
		t.Fatal(err)
	}
	if r, err := app.Call(t.Context(), "read", text{Text: "it"}, askance.ID("a-read")); err != nil || r.Output != "it was read" {
		t.Errorf("the resolved call = %+v, %v", r, err)
	}
}

// restarting is an engine that is away for a while during a wait, and whose replies to
// proposals are lost.
type restarting struct {
	engine.Client
	away, lost int
}

// Propose implements engine.Client.
func (r *restarting) Propose(ctx context.Context, p toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	out, err := r.Client.Propose(ctx, p)
	switch r.lost--; r.lost {
	case 1:
		return toolcall.ProposeReply{}, &message.Error{Code: message.CodeUnknownOutcome, What: "no engine replied; the request may have been executed"}
	case 0:
		return toolcall.ProposeReply{}, &message.Error{Code: message.CodeUnavailable, What: "no engine replied"}
	}
	return out, err
}

// Wait implements engine.Client.
func (r *restarting) Wait(ctx context.Context, w toolcall.WaitRequest) (toolcall.WaitReply, error) {
	if r.away--; r.away >= 0 {
		return toolcall.WaitReply{}, &message.Error{Code: message.CodeUnavailable, What: "no engine replied"}
	}
	return r.Client.Wait(ctx, w)
}

func TestCallOutlivesTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := open(t, echo, echo, askance.Approver("ann", func(context.Context, askance.Request) askance.Response {
			time.Sleep(time.Minute)
			return askance.Approve()
		}))
		client := app.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
		r, err := askance.NewCaller(&restarting{client, 10, 2}, "s").Call(t.Context(), "write", text{Text: "it"})
		if err != nil || r.Output != "echo it" {
			t.Errorf("Call = %+v, %v", r, err)
		}
		_ = app.Close()
	})
}

// A caller in another process uses the engine of an app over NATS, and outlives it.
func TestCallerOverNATS(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	opts := []askance.Option{askance.Data(data), askance.Listen("127.0.0.1:0"), askance.Name("shop")}
	app := open(t, echo, echo, opts...)
	endpoint := filepath.Join(data, "endpoint")
	url, err := os.ReadFile(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := bus.Connect(t.Context(), strings.TrimSpace(string(url)), bus.ConnectOptions{Principal: "bot"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	client, err := bus.NewClient(nc, "default", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	if err != nil {
		t.Fatal(err)
	}
	caller := askance.NewCaller(client, "s1")
	if r, err := caller.Call(t.Context(), "read", text{Text: "it"}); err != nil || r.Output != "echo it" {
		t.Fatalf("Call = %+v, %v", r, err)
	}
	if _, err := caller.Call(t.Context(), "drop", text{Text: "it"}); !errors.Is(err, askance.ErrDenied) {
		t.Fatalf("Call = %v, want ErrDenied", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := make(chan error, 1)
	go func() { _, err := caller.Call(ctx, "write", text{Text: "it"}, askance.ID("a")); stop <- err }()
	ann := app.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
	for open := 0; open == 0; {
		r, err := ann.List(t.Context(), toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseAsking}})
		if err != nil {
			t.Fatal(err)
		}
		open = len(r.Calls)
	}
	cancel()
	if err := <-stop; !errors.Is(err, askance.ErrInterrupted) || !errors.Is(err, context.Canceled) {
		t.Errorf("Call = %v, want an interrupted one", err)
	}
	if err := app.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(endpoint); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the endpoint file is left: %v", err)
	}
	if err := os.WriteFile(endpoint, url, 0o600); err != nil { // as a killed process leaves it
		t.Fatal(err)
	}
	open(t, echo, echo, askance.Data(data))
	if _, err := os.Stat(endpoint); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the endpoint file of a killed process is left: %v", err)
	}
}

// linker puts a link in the place of a file whenever something is logged.
type linker struct{ from, to string }

func (l linker) Enabled(context.Context, slog.Level) bool  { _ = os.Symlink(l.to, l.from); return true }
func (l linker) Handle(context.Context, slog.Record) error { return nil }
func (l linker) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l linker) WithGroup(string) slog.Handler             { return l }

// The address of the server is not written through a link that another user puts in its place.
func TestEndpointFollowsNoLink(t *testing.T) {
	t.Parallel()
	data, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	endpoint := filepath.Join(data, "endpoint")
	open(t, echo, echo, askance.Data(data), askance.Listen("127.0.0.1:0"), askance.Logger(slog.New(linker{endpoint, victim})))
	if _, err := os.Stat(victim); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other file: %v", err)
	}
	if info, err := os.Lstat(endpoint); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the address is %v, %v", info, err)
	}
}
