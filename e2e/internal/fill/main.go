// Command fill writes a journal with many finished and open calls, using only package journal,
// to measure how starts, readers and audits scale:
//
//	go run ./e2e/internal/fill -data DIR -finished 1000000 -open 10000
//
// It adds to an existing journal. A finished call has two event records, like an allowed
// local call. An open call waits for approval.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	callsPerSession = 10
	writers         = 64
)

func main() {
	dir := flag.String("data", "", "data folder")
	finished := flag.Int("finished", 10_000, "finished calls to write")
	open := flag.Int("open", 0, "open calls to write, after the finished ones")
	input := flag.Int("input", 10, "approximate size of each call's input, in bytes")
	prefix := flag.String("prefix", "fill", "prefix of session ids")
	sign := flag.Bool("sign", true, "sign checkpoints of the written records")
	flag.Parse()
	if err := fill(context.Background(), *dir, *finished, *open, *input, *prefix, *sign); err != nil {
		log.Fatal(err)
	}
}

func fill(ctx context.Context, dir string, finished, open, input int, prefix string, sign bool) error {
	space := toolcall.SpaceID("default")
	anchorPath := filepath.Join(dir, "anchors", string(space))
	keys, err := journal.LoadOrCreateSpaceKeys(filepath.Join(dir, "engine.key"), anchorPath)
	if err != nil {
		return err
	}
	if err := keys.WritePublic(filepath.Join(dir, "engine.pub")); err != nil {
		return err
	}
	server, err := embed.Start(ctx, embed.Options{StoreDir: filepath.Join(dir, "nats"), Durability: journal.DurabilityCached})
	if err != nil {
		return err
	}
	defer server.Close()
	nc, err := server.Connect(ctx, bus.ConnectOptions{Principal: "engine"})
	if err != nil {
		return err
	}
	defer nc.Close()
	anchor, err := journal.OpenAnchor(anchorPath, space, keys)
	if err != nil {
		return err
	}
	defer func() { _ = anchor.Close() }()
	j, err := journal.Open(ctx, nc, space, keys, journal.Options{Durability: journal.DurabilityCached, Anchor: anchor})
	if err != nil {
		return err
	}
	w := writer{journal: j, space: space, input: fmt.Sprintf(`{"n":%0*d}`, max(1, input-6), 7), prefix: prefix}
	for _, part := range []struct {
		name  string
		calls int
		open  bool
	}{{"done", finished, false}, {"open", open, true}} {
		if err := w.writeAll(ctx, part.name, part.calls, part.open); err != nil {
			return err
		}
	}
	if !sign {
		return nil
	}
	ledger, err := journal.OpenLedger(ctx, j, journal.LedgerOptions{Engine: "fill"})
	if err != nil {
		return err
	}
	last, err := ledger.Checkpoint(ctx)
	if err == nil && last != nil {
		fmt.Println("last checkpoint:", last)
	}
	return err
}

type writer struct {
	journal *journal.Journal
	space   toolcall.SpaceID
	input   string
	prefix  string
	written atomic.Int64
}

// writeAll writes the given number of calls, several sessions at a time.
func (w *writer) writeAll(ctx context.Context, name string, calls int, open bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	began := time.Now()
	sessions := make(chan int)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for n := range sessions {
				if err := w.writeSession(ctx, message.SessionID(w.prefix+"-"+name+"-"+strconv.Itoa(n)), min(callsPerSession, calls-n*callsPerSession), open); err != nil {
					stop(err)
				}
			}
		})
	}
	for n := 0; n*callsPerSession < calls && ctx.Err() == nil; n++ {
		sessions <- n
		if n%10_000 == 9_999 {
			fmt.Printf("%s: %d calls, %d records, %s\n", name, n*callsPerSession, w.written.Load(), time.Since(began).Round(time.Second))
		}
	}
	close(sessions)
	wg.Wait()
	return context.Cause(ctx)
}

func (w *writer) writeSession(ctx context.Context, session message.SessionID, calls int, open bool) error {
	key := toolcall.Key{Space: w.space, Session: session}
	if _, err := w.append(ctx, 0, &toolcall.EventRecord{Session: &toolcall.SessionState{Key: key, Runtime: "bot"}}); err != nil {
		return err
	}
	for i := range calls {
		key.Reply, key.Call = message.ReplyID("reply-"+strconv.Itoa(i/2)), message.CallID("call-"+strconv.Itoa(i))
		if err := w.writeCall(ctx, key, open); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writeCall(ctx context.Context, key toolcall.Key, open bool) error {
	base := toolcall.Base{At: time.Now().UTC()}
	req := toolcall.ApprovalRequest{V: 1, Key: key, Tool: "refund", Input: w.input, Rule: "refunds", Source: "policy.yaml:3", Reason: "a refund", Bundle: "sha256:fill", Requirement: toolcall.Requirement{Users: []string{}}}
	digest, err := req.Digest()
	if err != nil {
		return err
	}
	d := toolcall.Decided{Base: base, Decision: toolcall.Decision{Behavior: message.BehaviorAllow, Rule: req.Rule, Source: req.Source, Reason: req.Reason, Bundle: req.Bundle}, Request: req, Digest: digest, Placement: toolcall.PlaceLocal}
	if open {
		d.Decision.Behavior = message.BehaviorAsk
	}
	steps := []toolcall.Event{toolcall.Proposed{Base: base, Call: &toolcall.Call{Key: key, Runtime: "bot", Tool: req.Tool, Input: req.Input, Proposal: digest}}, d}
	if !open {
		steps = append(steps, toolcall.Started{Base: base, Attempt: 1, Worker: "fill", Claim: "fill", LeaseMS: 10_000})
	}
	c, seq, err := w.step(ctx, nil, 0, steps...)
	if err == nil && !open {
		result := message.ToolResultBlock{ID: key.Call, Name: req.Tool, State: message.ToolResultSuccess}
		_, _, err = w.step(ctx, c, seq, toolcall.Resulted{Base: base, Attempt: 1, Claim: "fill", Result: result, Digest: digest})
	}
	return err
}

func (w *writer) step(ctx context.Context, c *toolcall.Call, prev uint64, steps ...toolcall.Event) (*toolcall.Call, uint64, error) {
	m := toolcall.Load(c)
	for _, s := range steps {
		if err := m.Step(s); err != nil {
			return nil, 0, err
		}
	}
	next := m.Call()
	next.Seq = 0
	seq, err := w.append(ctx, prev, &toolcall.EventRecord{Call: next, Path: m.Path()})
	next.At(seq)
	return next, seq, err
}

func (w *writer) append(ctx context.Context, prev uint64, rec *toolcall.EventRecord) (uint64, error) {
	n := w.written.Add(1)
	rec.V, rec.ID, rec.At, rec.Engine = toolcall.RecordVersion, fmt.Sprintf("%s%016x%x", "f", n, time.Now().UnixNano()), time.Now().UTC(), "fill"
	rec.By = toolcall.Principal{Role: toolcall.RoleEngine, Name: "fill", Auth: "in-process"}
	return w.journal.Append(ctx, rec, prev)
}
