package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Two engines write to one call. One of them wins, and the other gets a conflict.
func ExampleJournal_Append() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "askance-example-*")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	srv, err := embed.Start(ctx, embed.Options{StoreDir: dir})
	check(err)
	defer srv.Close()
	nc, err := srv.Connect(ctx, bus.ConnectOptions{Principal: "engine"})
	check(err)
	defer nc.Close()
	keys, err := keyfile.New()
	check(err)
	j, err := journal.Open(ctx, nc, "default", keys, journal.Options{Durability: srv.Durability()})
	check(err)

	record := func(id string, state message.ToolCallState) *toolcall.EventRecord {
		return &toolcall.EventRecord{V: toolcall.RecordVersion, ID: id, Call: &toolcall.Call{
			Key: toolcall.Key{Space: "default", Session: "s1", Reply: "r1", Call: "c1"}, Tool: "refund", State: state,
		}}
	}
	asking, err := j.Append(ctx, record("record-1", message.ToolCallAsking), 0)
	check(err)
	_, err = j.Append(ctx, record("record-2", message.ToolCallAllowed), asking)
	fmt.Println("first:", err)
	_, err = j.Append(ctx, record("record-3", message.ToolCallFinished), asking)
	fmt.Println("second is a conflict:", errors.Is(err, message.ErrConflict))
	last, err := j.Last(ctx, toolcall.Key{Space: "default", Session: "s1", Reply: "r1", Call: "c1"})
	check(err)
	fmt.Println("it is", last.Record.Call.State, j.Durability())
	// Output:
	// first: <nil>
	// second is a conflict: true
	// it is allowed fsynced
}
