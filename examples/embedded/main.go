// Command embedded runs an engine inside a Go program: one tool, one rule that
// asks, one person who answers.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const policy = `
version: 1
name: shop
rules:
  - {name: small-refunds, tool_name: refund, behavior: allow, when: "args.cents <= 5000"}
  - {name: large-refunds, tool_name: refund, behavior: ask, when: "args.cents > 5000"}
`

func main() {
	ctx := context.Background()
	schema := must(permission.CompileSchema([]byte(`{"type":"object","properties":{"cents":{"type":"integer"}},"required":["cents"]}`)))
	refund := permission.Tool{Name: "refund", Schema: schema}
	bundle := must(permission.Load([]permission.File{{Name: "shop.yaml", Data: []byte(policy)}}, permission.Options{Tools: []permission.Tool{refund}}))

	var tools executor.Registry
	check(tools.Register("refund", func(_ context.Context, t executor.Task) (executor.Output, error) {
		return executor.Textf("refunded %s", t.Input), nil
	}))
	eng := must(engine.New("default", engine.NewMemory(), bundle, []engine.Tool{{Tool: refund}}, engine.WithExecutor(&tools)))
	check(eng.Start(ctx))
	defer eng.Close()

	bot := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	call := message.ToolCallBlock{ID: "call-1", Name: "refund", Input: `{"cents":19900}`}
	r := must(bot.Propose(ctx, toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{call}}))
	fmt.Println(r.Calls[0].State, "because of", r.Calls[0].Decision.Rule)

	ann := eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
	must(ann.SubmitResponse(ctx, toolcall.Response{Key: r.Calls[0].Key, Kind: toolcall.ResponseApprove, Digest: r.Calls[0].Digest}))
	done := must(bot.Wait(ctx, toolcall.WaitRequest{Session: "s1", Reply: "r1"}))
	fmt.Println(done.Calls[0].State, done.Calls[0].Result.State, done.Calls[0].Result.Output)
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
