// Command remote-runtime proposes a refund to `askance serve` from another process and
// waits for its result, however long a person takes to respond. It can be killed and
// restarted: it finds its open call by its session.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func main() {
	url := flag.String("nats", "nats://127.0.0.1:4222", "where askance serve listens")
	session := flag.String("session", "shop-1", "session to work in")
	cents := flag.Int("cents", 19900, "how much to refund")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, message.SessionID(*session), *cents); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string, session message.SessionID, cents int) error {
	nc, err := bus.Connect(ctx, url, bus.ConnectOptions{Principal: "shop-bot"})
	if err != nil {
		return err
	}
	defer nc.Close()
	client, err := bus.NewClient(nc, "default", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "shop-bot"})
	if err != nil {
		return err
	}
	call, err := openCall(ctx, client, session, cents)
	if err != nil {
		return err
	}
	fmt.Printf("%s is %s\n", call.Call, call.State)
	for {
		w, err := client.Wait(ctx, toolcall.WaitRequest{Session: session, Reply: call.Reply, Calls: []message.CallID{call.Call}})
		if err != nil {
			return err
		}
		if w.Done {
			fmt.Printf("%s is %s: %s: %s\n", call.Call, w.Calls[0].State, w.Calls[0].Result.State, w.Calls[0].Result.Output)
			return nil
		}
	}
}

// openCall finds the call that an earlier run left open, or proposes one.
func openCall(ctx context.Context, client engine.Client, session message.SessionID, cents int) (*toolcall.Call, error) {
	open, err := client.List(ctx, toolcall.ListRequest{Session: session})
	if err != nil {
		return nil, err
	}
	if len(open.Calls) > 0 {
		return open.Calls[0], nil
	}
	block := message.ToolCallBlock{ID: "refund-1", Name: "refund", Input: fmt.Sprintf(`{"order":"A-1042","cents":%d}`, cents)}
	if err := stream(ctx, client, session, block); err != nil {
		return nil, err
	}
	r, err := client.Propose(ctx, toolcall.ProposeRequest{Session: session, Reply: "reply-1", Agent: "shop-bot", Calls: []message.ToolCallBlock{block}})
	if err != nil {
		return nil, err
	}
	return r.Calls[0], nil
}

// stream appends the model's answer to the journal, as a model would stream it. From
// these events and those of the engine any frontend rebuilds the message (try `askance
// events replay`). An answer that an earlier run appended is not repeated.
func stream(ctx context.Context, client engine.Client, session message.SessionID, call message.ToolCallBlock) error {
	said, err := client.Events(ctx, toolcall.EventsRequest{Session: session, Reply: "reply-1", Limit: 1})
	if err != nil || len(said.Events) > 0 {
		return err
	}
	h := message.NewHeader("reply-1")
	r := toolcall.EmitRequest{Session: session, Reply: "reply-1"}
	for _, e := range []message.Event{
		&message.ReplyStart{EventHeader: h, Session: session, Name: "shop-bot", Role: message.RoleAssistant},
		&message.ToolCallStart{EventHeader: h, ToolCallID: call.ID, ToolCallName: call.Name},
		&message.ToolCallDelta{EventHeader: h, ToolCallID: call.ID, Delta: call.Input},
		&message.ToolCallEnd{EventHeader: h, ToolCallID: call.ID},
	} {
		raw, err := json.Marshal(e)
		if err != nil {
			return err
		}
		r.Events = append(r.Events, raw)
	}
	_, err = client.Emit(ctx, r)
	return err
}
