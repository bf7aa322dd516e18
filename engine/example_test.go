package engine_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// A program that needs no durability runs an engine on a journal in memory, with the same
// options as on JetStream.
func ExampleNew() {
	ctx := context.Background()
	pay := permission.Tool{Name: "pay"}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{
		Name: "finance", Tools: []string{"pay"}, Behavior: message.BehaviorAsk, Approvers: permission.Approvers{Groups: []string{"finance"}},
	}}}, permission.Options{Tools: []permission.Tool{pay}, Enforced: engine.Duties()})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	eng, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{{Tool: pay, Placement: toolcall.PlaceRemote}},
		engine.WithDirectory(engine.StaticDirectory{"ann": {"finance"}}),
		engine.WithSigningKey(key),             // workers check grants with eng.PublicKey()
		engine.WithGrace(500*time.Millisecond), // how late another engine's step may be
		engine.WithKeep(100),                   // finished calls in memory
		engine.WithDrain(time.Second),          // how long Close waits for local calls
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := eng.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = eng.Close() }()
	bot := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	proposed, err := bot.Propose(ctx, toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "c", Name: "pay", Input: `{}`}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	q := proposed.Calls[0]
	for _, name := range []string{"bob", "ann"} {
		approver := eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: name})
		c, err := approver.SubmitResponse(ctx, toolcall.Response{Key: q.Key, Digest: q.Digest, Kind: toolcall.ResponseApprove})
		if err != nil {
			fmt.Println(name, "cannot approve it")
			continue
		}
		fmt.Println(name, "approved it:", c.Phase())
	}
	// Output:
	// bob cannot approve it
	// ann approved it: queued
}
