package bus_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// tempStore makes a folder for an example.
func tempStore() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "askance-example-*")
	check(err)
	return dir, func() { check(os.RemoveAll(dir)) }
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// An engine on an embedded server, with a runtime and an approver that reach
// it over NATS.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, remove := tempStore()
	defer remove()

	// The engine's process.
	srv, err := embed.Start(ctx, embed.Options{StoreDir: dir, Listen: "127.0.0.1:0"})
	check(err)
	defer srv.Close()
	nc, err := srv.Connect(ctx, bus.ConnectOptions{Principal: "engine"})
	check(err)
	defer nc.Close()
	keys, err := keyfile.New()
	check(err)
	j, err := journal.Open(ctx, nc, "default", keys, journal.Options{Durability: srv.Durability(), Health: srv.Health, Room: srv.Room})
	check(err)
	tools := []engine.Tool{{Tool: permission.Tool{Name: "refund"}, Placement: toolcall.PlaceRemote}}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "money", Tools: []string{"refund"}, Behavior: message.BehaviorAsk},
	}}, permission.Options{Tools: []permission.Tool{tools[0].Tool}})
	check(err)
	e, err := engine.New("default", j, policy, tools, engine.WithSignals(bus.NewSignals(nc, "default", nil)), engine.WithSigningKey(keys.Signer()))
	check(err)
	check(e.Start(ctx))
	defer func() { check(e.Close()) }()
	service, err := bus.Serve(ctx, nc, j, func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
		if p.Role == toolcall.RoleWorker {
			return e.Worker(p, queue)
		}
		return e.As(p)
	}, bus.ServiceOptions{Observer: e})
	check(err)
	defer service.Close()

	// A runtime, anywhere.
	botConn, err := bus.Connect(ctx, srv.URL(), bus.ConnectOptions{Principal: "bot"})
	check(err)
	defer botConn.Close()
	bot, err := bus.NewClient(botConn, "default", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	check(err)
	proposed, err := bot.Propose(ctx, toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{
		{ID: "c1", Name: "refund", Input: `{"cents":1500}`, State: message.ToolCallPending},
	}})
	check(err)
	fmt.Println("proposed:", proposed.Calls[0].State)

	// A person, anywhere else.
	annConn, err := bus.Connect(ctx, srv.URL(), bus.ConnectOptions{Principal: "ann"})
	check(err)
	defer annConn.Close()
	ann, err := bus.NewClient(annConn, "default", toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
	check(err)
	open, err := ann.List(ctx, toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallAsking}})
	check(err)
	request := open.Calls[0]
	fmt.Println("ann sees:", request.Tool, request.Input)
	answered, err := ann.SubmitResponse(ctx, toolcall.Response{Key: request.Key, Digest: request.Digest, Kind: toolcall.ResponseApprove})
	check(err)
	fmt.Println("approved:", answered.State)
	// Output:
	// proposed: asking
	// ann sees: refund {"cents":1500}
	// approved: submitted
}

// What a worker of one tool is granted on NATS.
func ExamplePermissionsFor() {
	p := bus.PermissionsFor("prod", toolcall.Principal{Role: toolcall.RoleWorker, Name: "wk-1"}, toolcall.Queue{Tool: "web.search"})
	for _, s := range p.Publish {
		fmt.Println("publish", s)
	}
	for _, s := range p.Subscribe {
		fmt.Println("subscribe", s)
	}
	// Output:
	// publish askance.v1.prod.work.~d2ViLnNlYXJjaA.wk-1.next
	// publish askance.v1.prod.work.~d2ViLnNlYXJjaA.wk-1.ack
	// publish askance.v1.prod.work.~d2ViLnNlYXJjaA.wk-1.start
	// publish askance.v1.prod.work.~d2ViLnNlYXJjaA.wk-1.heartbeat
	// publish askance.v1.prod.work.~d2ViLnNlYXJjaA.wk-1.progress
	// publish askance.v1.prod.work.~d2ViLnNlYXJjaA.wk-1.result
	// subscribe _INBOX_wk-1.>
	// subscribe askance.v1.prod.work.~d2ViLnNlYXJjaA.wk-1.cancel
}

// No id can add a token or a wildcard to a subject.
func ExampleEncode() {
	for _, id := range []string{"call_1", "a.b", ">", "-"} {
		fmt.Println(id, "stands as", bus.Encode(id))
	}
	// Output:
	// call_1 stands as call_1
	// a.b stands as ~YS5i
	// > stands as ~Pg
	// - stands as ~LQ
}

// A subject taken apart says who asks.
func ExampleParseSubject() {
	s, err := bus.ParseSubject("askance.v1.prod.decide.ann")
	check(err)
	role, ops := bus.Operations(s.Kind)
	name, _ := s.Who.ID()
	fmt.Println(s.Space, role, name, ops)
	_, err = bus.ParseSubject("askance.v1.prod.decide.*")
	fmt.Println(err)
	// Output:
	// prod approver ann [interrupt revoke revoke_standing_approval submit_response]
	// parse subject: "askance.v1.prod.decide.*": it matches no subject of the protocol (see bus/PROTOCOL.md for the subjects)
}

// A URL as it may be shown.
func ExampleRedactURL() {
	fmt.Println(bus.RedactURL("nats://ann:secret@nats.internal:4222"))
	// Output: nats://nats.internal:4222
}
