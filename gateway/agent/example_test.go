package agent_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// weather is an agent that calls a tool and repeats the result. A real agent asks a model what to
// do; see examples/openai-agent.
type weather struct{}

func (weather) Info() agent.Info { return agent.Info{Name: "weather"} }

func (weather) Run(ctx context.Context, t agent.Turn) error {
	results, err := t.Call(ctx, message.ToolCallBlock{ID: "call-1", Name: "forecast", Input: `{"city":"Bern"}`})
	if err != nil {
		return err
	}
	block := string(t.Reply()) + "-text"
	return t.Emit(ctx,
		&message.TextBlockStart{BlockID: block},
		&message.TextBlockDelta{BlockID: block, Delta: "Tomorrow: " + results[0].Output.String()},
		&message.TextBlockEnd{BlockID: block})
}

// An agent calls a tool that the policy allows. The session then contains the message and the
// whole reply.
func Example() {
	ctx := context.Background()
	forecast := permission.Tool{Name: "forecast"}
	policy := must(permission.Load([]permission.File{{Name: "rules.yaml", Data: []byte(
		"version: 1\nname: example\nrules: [{name: free, tool: forecast, behavior: allow}]\n")}}, permission.Options{Tools: []permission.Tool{forecast}}))
	var tools executor.Registry
	check(tools.Register("forecast", func(context.Context, executor.Task) (executor.Output, error) {
		return executor.Text("sunny"), nil
	}))
	eng := must(engine.New("default", engine.NewMemory(), policy, []engine.Tool{{Tool: forecast}}, engine.WithExecutor(&tools)))
	check(eng.Start(ctx))
	defer eng.Close()
	as := func(p toolcall.Principal) engine.Client { return eng.As(p) }

	runner := must(agent.New(agent.Config{As: as, Agents: []agent.Agent{weather{}}}))
	check(runner.Resume(ctx))
	defer runner.Close()

	ann := toolcall.Principal{Role: toolcall.RoleRuntime, Name: "ann"}
	request := must(message.UserMsg("ann", message.Content{Text: "What will the weather be?"}))
	must(runner.Start(ctx, ann, "session-1", "weather", agent.Input{Messages: []*message.Msg{request}}))

	for after := uint64(0); ; { // a surface follows the session's events in this way
		page := must(as(ann).Events(ctx, toolcall.EventsRequest{Session: "session-1", After: after, WaitMS: 10_000}))
		after = page.Next
		if len(page.Events) > 0 && strings.Contains(string(page.Events[len(page.Events)-1].Event), `"REPLY_END"`) {
			break
		}
	}
	thread := must(agent.ReadThread(ctx, as(ann), "session-1"))
	for _, m := range thread.Messages {
		text, _ := m.TextContent("")
		fmt.Println(m.Role, m.Name+":", text)
	}
	// Output:
	// user ann: What will the weather be?
	// assistant weather: Tomorrow: sunny
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
