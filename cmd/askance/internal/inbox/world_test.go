package inbox_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/termtest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const rules = `
version: 1
name: shop
rules:
  - {name: large, tool_name: pay, behavior: ask, when: args.cents > 100, message: "'Pay ' + string(args.cents) + ' cents?'"}
  - {name: cap, tool_name: pay, behavior: deny, when: args.cents > 9000, locked: true}
  - {name: odd, tool_name: pay, behavior: ask, when: args.cents == 777, message: "'An odd sum?'"}
  - {name: boss, tool_name: boss, behavior: ask, approvers: {users: [boss]}}
  - {name: again, tool_name: buy, behavior: ask, remember: {scope: args.shop, ttl: 2h, max_uses: 9}, message: "'Buy?'"}
  - {name: own, tool_name: sell, behavior: ask, signed: true, message: "'Sell?'"}
  - {name: soon, tool_name: soon, behavior: ask, expiry: 2h}
  - {name: two, tool_name: wire, behavior: ask, approvers: {groups: [finance]}, quorum: 2, redact: [args.pin], expiry: 3h, escalation: [{after: 1h, to: {users: [boss]}}]}
`

const tools = `
version: 1
tools:
  - {name: pay, placement: external, concurrency_safe: true, input_schema: {type: object, required: [cents], properties: {cents: {type: integer}}}}
  - {name: boss, placement: external, concurrency_safe: true}
  - {name: buy, placement: external, concurrency_safe: true, input_schema: {type: object, properties: {cents: {type: integer}, shop: {type: string}}}}
  - {name: sell, placement: external, concurrency_safe: true}
  - {name: Bash, kind: bash, placement: external, concurrency_safe: true, input_schema: {type: object, required: [command], properties: {command: {type: string}}}}
  - {name: Write, kind: write, placement: external, concurrency_safe: true, input_schema: {type: object, required: [file_path], properties: {file_path: {type: string}}}}
  - {name: soon, placement: external, concurrency_safe: true}
  - {name: wire, placement: external, concurrency_safe: true, input_schema: {type: object, properties: {pin: {type: string}, to: {type: string}}}}
`

const people = `
version: 1
groups: {finance: [ann, bob, eve]}
`

// world is a real engine on a real NATS server to which the inbox connects.
type world struct {
	t    *testing.T
	dir  string
	node *node.Node
	url  string
	// creds is the folder of logins, if there is one.
	creds string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := newDir(t)
	w.start(bustest.FreeAddress()) // restart needs it again
	t.Cleanup(w.stop)
	return w
}

// newDir returns a world without an engine.
func newDir(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.write("rules.yaml", rules)
	w.write("tools.yaml", tools)
	w.write("people.yaml", people)
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start(listen string) {
	w.t.Helper()
	loaded, err := toolfile.Load(filepath.Join(w.dir, "tools.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.node, err = node.Start(w.t.Context(), node.Config{
		Dir: node.Dir(filepath.Join(w.dir, "data")), Space: "default", Listen: listen, Durability: journal.DurabilityCached,
		Policy: []string{filepath.Join(w.dir, "rules.yaml")}, Tools: loaded, Directory: []string{filepath.Join(w.dir, "people.yaml")}, CredsDir: w.creds,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.url = w.node.URL()
}

func (w *world) stop() {
	if w.node != nil {
		if err := w.node.Close(); err != nil {
			w.t.Error(err)
		}
		w.node = nil
	}
}

// restart stops the engine and its server, and starts both again at the same address.
func (w *world) restart(meanwhile func()) {
	w.t.Helper()
	addr := w.url[len("nats://"):]
	if _, _, err := net.SplitHostPort(addr); err != nil {
		w.t.Fatal(err)
	}
	w.stop()
	meanwhile()
	w.start(addr)
}

// inbox opens ann's inbox on a terminal.
func (w *world) inbox(width, height int, env ...string) *termtest.Terminal {
	w.t.Helper()
	return w.inboxWith(width, height, nil, env...)
}

// inboxWith is like inbox, with flags.
func (w *world) inboxWith(width, height int, flags []string, env ...string) *termtest.Terminal {
	w.t.Helper()
	return open(w.t, width, height, env, append([]string{"inbox", "--nats", w.url, "--as", "ann", "--log-level", "error"}, flags...)...)
}

// proposes proposes a call, which may need approval.
func (w *world) proposes(id, tool, input string) *toolcall.Call {
	w.t.Helper()
	r, err := w.node.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(w.t.Context(), toolcall.ProposeRequest{
		V: 1, Session: "ticket-7", Reply: message.ReplyID("reply-" + id), Agent: "support", Calls: []message.ToolCallBlock{{ID: message.CallID(id), Name: tool, Input: input}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Calls[0]
}

// standingApproval returns the only standing approval.
func (w *world) standingApproval(all bool) *toolcall.StandingApproval {
	w.t.Helper()
	r, err := w.node.Engine().As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: "eve"}).StandingApprovals(w.t.Context(), toolcall.StandingApprovalsRequest{V: 1, All: all})
	if err != nil || len(r.StandingApprovals) != 1 {
		w.t.Fatalf("standing approvals: %+v, %v", r.StandingApprovals, err)
	}
	return r.StandingApprovals[0]
}

// ask proposes a call that needs approval. Each call has its own reply.
func (w *world) ask(id, tool, input string) *toolcall.Call {
	w.t.Helper()
	c := w.proposes(id, tool, input)
	if c.State != message.ToolCallAsking {
		w.t.Fatalf("%s is %s, want asking", id, c.State)
	}
	return c
}

// pay proposes a payment that needs approval.
func (w *world) pay(id string, cents int) *toolcall.Call {
	w.t.Helper()
	return w.ask(id, "pay", fmt.Sprintf(`{"order_id":"A-1042","cents":%d}`, cents))
}

// answer responds as bob, on another surface.
func (w *world) answer(c *toolcall.Call, change func(*toolcall.Response)) *toolcall.Call {
	w.t.Helper()
	resp := toolcall.Response{V: 1, Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove}
	change(&resp)
	after, err := w.node.Engine().As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "bob"}).SubmitResponse(w.t.Context(), resp)
	if err != nil {
		w.t.Fatal(err)
	}
	return after
}

// call returns the current state of a call.
func (w *world) call(c *toolcall.Call) *toolcall.Call {
	w.t.Helper()
	r, err := w.node.Engine().As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: "eve"}).Show(w.t.Context(), toolcall.ShowRequest{V: 1, Key: c.Key})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Call
}

// voted checks the only vote on a call.
func (w *world) voted(c *toolcall.Call, who string, kind toolcall.ResponseKind) *toolcall.Call {
	w.t.Helper()
	now := w.call(c)
	if len(now.Votes) != 1 || now.Votes[0].By.Name != who || now.Votes[0].Kind != kind || now.Votes[0].Digest != c.Digest {
		w.t.Errorf("%s has the votes %+v, want one %s by %s on %s", c.Call, now.Votes, kind, who, c.Digest)
	}
	return now
}

// revoke revokes a standing approval as an operator.
func (w *world) revoke(id toolcall.StandingID) {
	w.t.Helper()
	if _, err := w.node.Engine().As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "root"}).RevokeStandingApproval(w.t.Context(), toolcall.RevokeStandingApprovalRequest{V: 1, ID: id}); err != nil {
		w.t.Fatal(err)
	}
}
