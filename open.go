package askance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// App is an engine with Go functions as tools. Make one with [Open] and end it with Close. It is
// safe for concurrent use.
type App struct {
	*Caller
	engine *engine.Engine
	tools  []Tool
	asker  *asker
	end    context.CancelCauseFunc // ends the waits of Call
	wg     sync.WaitGroup
	once   sync.Once
	down   []func() error // what Close does, last first
	err    error          // of Close
}

// Option changes an [App].
type Option func(*options)

type options struct {
	name     string
	space    toolcall.SpaceID
	data     string
	listen   string
	approver string
	ask      AskFunc
	log      *slog.Logger
	engine   []engine.Option
}

// Name sets who proposes the calls, for rules and records. Default: "app".
func Name(name string) Option { return func(o *options) { o.name = name } }

// Data keeps the journal in a folder: open calls continue when the app is opened again. The
// askance command can use the same folder. Without Data, the journal is in memory.
func Data(folder string) Option { return func(o *options) { o.data = folder } }

// Listen lets people and workers connect to an app with [Data], for example
// askance inbox --data FOLDER. The address is host:port, 127.0.0.1:0 for a free
// port. Every process that reaches it can approve calls.
func Listen(address string) Option { return func(o *options) { o.listen = address } }

// Approver asks a person in this process about calls. name is who responds, for requirements
// and records.
func Approver(name string, ask AskFunc) Option {
	return func(o *options) { o.approver, o.ask = name, ask }
}

// Logger sets where the app reports; the default discards.
func Logger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// Engine adds options for the engine, such as engine.WithDirectory.
func Engine(opts ...engine.Option) Option {
	return func(o *options) { o.engine = append(o.engine, opts...) }
}

// Rules is the text of a rule file. permission.Paths reads files and folders instead.
func Rules(text string) permission.Source { return rules(text) }

type rules string

// Read implements permission.Source.
func (r rules) Read(context.Context) ([]permission.File, error) {
	return []permission.File{{Name: "rules", Data: []byte(r)}}, nil
}

// reloadEvery is how often the policy's source is read.
const reloadEvery = 2 * time.Second

// Open starts an engine that decides calls of the tools by a policy and runs them here. A
// changed policy comes into force within seconds; the app need not be opened again. A policy
// with errors is logged, and the last good one stays in force.
func Open(ctx context.Context, policy permission.Source, tools []Tool, opts ...Option) (*App, error) {
	o := options{name: "app", space: "default", log: slog.New(slog.DiscardHandler)}
	for _, f := range opts {
		f(&o)
	}
	switch {
	case o.name == "":
		return nil, errors.New("open askance: the name of the app is empty: leave Name out, or give one")
	case o.approver == "" != (o.ask == nil):
		return nil, errors.New("open askance: Approver needs a name and a function")
	case o.listen != "" && o.data == "":
		return nil, errors.New("open askance: Listen needs a journal that other processes can read: add Data")
	}
	a := &App{tools: slices.Clone(tools)}
	if err := a.open(ctx, policy, o); err != nil {
		return nil, fmt.Errorf("open askance: %w", errors.Join(err, a.Close()))
	}
	return a, nil
}

func (a *App) open(ctx context.Context, policy permission.Source, o options) error {
	closed, end := context.WithCancelCause(context.WithoutCancel(ctx))
	a.end = end
	live, registry, err := a.load(ctx, policy, o.log)
	if err != nil {
		return err
	}
	var data *folder // nil: the journal is in memory
	var journal engine.Journal = engine.NewMemory()
	var signals engine.Signals = noSignals{}
	settings := append(slices.Clone(o.engine), engine.WithLogger(o.log), engine.WithExecutor(registry))
	if o.data != "" {
		data, err = openFolder(ctx, o)
		a.down = append(a.down, data.close)
		if err != nil {
			return err
		}
		journal, signals = data.journal, data.signals()
		settings = append(settings, engine.WithSigner(data.keys))
	}
	if o.ask != nil {
		a.asker = &asker{Signals: signals, name: o.approver, ask: o.ask, log: o.log, ctx: closed, open: map[toolcall.Key]asked{}}
		signals = a.asker
	}
	known := make([]engine.Tool, len(a.tools))
	for i, t := range a.tools {
		known[i] = t.Tool
	}
	if a.engine, err = engine.New(o.space, journal, live, known, append(settings, engine.WithSignals(signals))...); err != nil {
		return err
	}
	if a.asker != nil {
		a.asker.as = a.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: o.approver})
	}
	a.down = append(a.down, a.engine.Close)
	if data != nil {
		data.journal.Reserve(a.engine.Owed)
	}
	if err := a.engine.Start(ctx); err != nil {
		return err
	}
	a.Caller = &Caller{client: a.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: o.name}), session: message.SessionID(o.name), agent: o.name, closed: closed}
	a.wg.Go(func() { a.watchEngine(closed) })
	a.wg.Go(func() { _ = live.Watch(closed, reloadEvery) }) // ends when closed does; errors go to the alarm
	if data != nil && o.listen != "" {
		a.down = append(a.down, data.stopServing)
		if err := data.serve(ctx, a.engine); err != nil {
			return err
		}
	}
	if a.asker != nil {
		return a.asker.resume(ctx)
	}
	return nil
}

// load reads the policy and checks the tools.
func (a *App) load(ctx context.Context, policy permission.Source, log *slog.Logger) (*permission.Live, *executor.Registry, error) {
	registry := new(executor.Registry)
	opts := permission.Options{Enforced: engine.Duties()}
	for _, t := range a.tools {
		err := t.err
		if err == nil {
			err = registry.Register(t.Name, t.run)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("tool %q: %w", t.Name, err)
		}
		opts.Tools = append(opts.Tools, t.Tool.Tool)
	}
	live, err := permission.NewLive(policy, permission.LiveOptions{Options: opts, Alarm: func(err error) {
		if err != nil {
			log.Error("the policy is refused, and the last good one stays in force", "err", err)
		}
	}})
	if err != nil {
		return nil, nil, err
	}
	return live, registry, live.Reload(ctx)
}

// watchEngine ends the waits of Call when the engine cannot continue.
func (a *App) watchEngine(closed context.Context) {
	select {
	case <-closed.Done():
	case err := <-a.engine.Failed():
		a.end(fmt.Errorf("%w: the engine cannot continue: %w", ErrClosed, err))
	}
}

// As returns a client of the engine for an authenticated principal, such as an approver or an
// operator. The engine does not check the name again.
func (a *App) As(by toolcall.Principal) engine.Client { return a.engine.As(by) }

// Tools returns the definitions of the tools for a model.
func (a *App) Tools() []Definition {
	out := make([]Definition, len(a.tools))
	for i, t := range a.tools {
		out[i] = t.definition()
	}
	return out
}

// Close ends the app. Calls that wait return [ErrClosed] and stay open in the journal. Running
// functions get ten seconds (engine.WithDrain), then their context is cancelled. Close waits for
// all of this and may be called more than once.
func (a *App) Close() error {
	a.once.Do(func() {
		a.end(ErrClosed)
		if a.asker != nil {
			a.asker.close()
		}
		for _, f := range slices.Backward(a.down) {
			a.err = errors.Join(a.err, f())
		}
		a.wg.Wait()
	})
	return a.err
}
