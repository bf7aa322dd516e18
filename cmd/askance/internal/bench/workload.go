package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

type workload struct {
	name, what  string
	concurrency int // 0: that of the configuration
	call        func(ctx context.Context, b *bench, key toolcall.Key) error
}

var workloads = []workload{
	{"local-1", "allowed, run by the engine; one call at a time", 1, runLocal},
	{"local", "allowed, run by the engine", 0, runLocal},
	{"full", "asked, approved, run by a worker over NATS, result stored", 0, runFull},
}

// Workloads returns the names of all workloads.
func Workloads() []string {
	var out []string
	for _, w := range workloads {
		out = append(out, w.name)
	}
	return out
}

func find(name string) (workload, bool) {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
	if i < 0 {
		return workload{}, false
	}
	return workloads[i], true
}

// The tools of a bench.
const (
	localTool  = "bench_local"
	remoteTool = "bench_remote"
)

// rules allows one tool and asks about the other.
const rules = `
version: 1
name: bench
rules:
  - {name: local, tool_name: bench_local, behavior: allow, when: args.n >= 0}
  - {name: remote, tool_name: bench_remote, behavior: ask, when: args.n >= 0}
`

const tools = `
version: 1
tools:
  - name: bench_local
    concurrency_safe: true
    input_schema: {type: object, required: [n], properties: {n: {type: integer}}}
  - name: bench_remote
    placement: remote
    concurrency_safe: true
    idempotent: true
    input_schema: {type: object, required: [n], properties: {n: {type: integer}}}
`

func runLocal(ctx context.Context, b *bench, key toolcall.Key) error {
	c, err := b.propose(ctx, key, localTool)
	if err != nil {
		return err
	}
	return b.finished(ctx, c)
}

func runFull(ctx context.Context, b *bench, key toolcall.Key) error {
	c, err := b.propose(ctx, key, remoteTool)
	if err != nil {
		return err
	}
	if c.State != message.ToolCallAsking {
		return fmt.Errorf("call %s is %s, want asking", c.Key, c.State)
	}
	if c, err = b.approver.SubmitResponse(ctx, toolcall.Response{V: 1, Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove}); err != nil {
		return err
	}
	return b.finished(ctx, c)
}

func (b *bench) propose(ctx context.Context, key toolcall.Key, tool string) (*toolcall.Call, error) {
	n := strconv.FormatUint(b.serial.Add(1), 10)
	r, err := b.runtime.Propose(ctx, toolcall.ProposeRequest{
		V: 1, Session: key.Session, Reply: key.Reply,
		Calls: []message.ToolCallBlock{{ID: key.Call, Name: tool, Input: `{"n":` + n + `}`}},
	})
	if err != nil {
		return nil, err
	}
	return r.Calls[0], nil
}

func (b *bench) finished(ctx context.Context, c *toolcall.Call) error {
	for c.Open() {
		r, err := b.runtime.Wait(ctx, toolcall.WaitRequest{V: 1, Session: c.Session, Reply: c.Reply, Calls: []message.CallID{c.Call}})
		if err != nil {
			return err
		}
		c = r.Calls[0]
	}
	if c.Result.State != message.ToolResultSuccess {
		return errors.New("call " + c.Key.String() + " ended with " + string(c.Result.State) + ": " + c.Result.Output.String())
	}
	return nil
}
