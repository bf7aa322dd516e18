package bus_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// uuid makes an id of the usual length.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// storedWorld is an engine whose calls are measured.
type storedWorld struct {
	*world
	t        *testing.T
	bot, ann *bus.Client
	session  message.SessionID
}

const (
	askedJob  = "asked.job"  // remote, asks
	againJob  = "again.job"  // remote, asks, and asks others about an edit
	hiddenJob = "hidden.job" // remote, asks, hides args.pin
	secretJob = "secret.job" // remote, asks, hides something only of calls that have args.pin
)

// storedSpace is that of the recorded journal in testdata, too.
func storedSpace() space {
	sp := testSpace()
	sp.tools = append(sp.tools, tool(askedJob, toolcall.PlaceRemote), tool(hiddenJob, toolcall.PlaceRemote))
	sp.rules = append(sp.rules,
		permission.Rule{Name: "asked", Tools: []string{askedJob}, Behavior: message.BehaviorAsk},
		permission.Rule{Name: "hidden", Tools: []string{hiddenJob}, Behavior: message.BehaviorAsk, Redact: []string{"args.pin"}})
	return sp
}

// editedSpace has more ways of an edit.
func editedSpace() space {
	sp := storedSpace()
	for _, r := range []permission.Rule{
		{Name: "again", Tools: []string{againJob}, Approvers: permission.Approvers{ExcludeEditor: true}},
		{Name: "two", Tools: []string{"two.job"}, Quorum: 2},
		{Name: "two hidden", Tools: []string{"twohidden.job"}, Quorum: 2, Redact: []string{"args.pin"}},
		{Name: "remember", Tools: []string{"remember.job"}, Remember: &permission.Remember{TTL: time.Hour}},
		{Name: "secret", Tools: []string{secretJob}, When: "has(args.pin)", Redact: []string{"args.pin"}},
		{Name: "no secret", Tools: []string{secretJob}},
	} {
		if r.Behavior = message.BehaviorAsk; r.Name != "no secret" {
			sp.tools = append(sp.tools, tool(r.Tools[0], toolcall.PlaceRemote))
		}
		sp.rules = append(sp.rules, r)
	}
	return sp
}

func newStoredWorld(t *testing.T) *storedWorld {
	w := newWorld(t)
	w.engineOf(editedSpace(), bus.ServiceOptions{})
	s := &storedWorld{world: w, t: t, bot: w.client(toolcall.RoleRuntime, "bot"), ann: w.client(toolcall.RoleApprover, "ann"), session: message.SessionID(uuid())}
	s.run(path{tool: echo, input: `{}`}) // stores the session's own record
	return s
}

// path is one way of a call from its proposal to its end.
type path struct {
	name, tool, input, edit, result string
	records                         uint64
	most                            int // bytes besides input and result
}

// run takes a call to its end and returns its records and bytes in the journal.
func (s *storedWorld) run(p path) (records, size uint64) {
	s.t.Helper()
	records, size = s.size()
	id := uuid()
	proposed, err := s.bot.Propose(s.t.Context(), toolcall.ProposeRequest{Session: s.session, Reply: message.ReplyID(uuid()), Calls: []message.ToolCallBlock{toolCall(id, p.tool, p.input)}})
	if err != nil {
		s.t.Fatal(err)
	}
	c := proposed.Calls[0]
	if c.State == message.ToolCallAsking {
		resp := toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove}
		if p.edit != "" {
			resp.Input = &p.edit
		}
		if c, err = s.ann.SubmitResponse(s.t.Context(), resp); err != nil {
			s.t.Fatal(err)
		}
		if c.State == message.ToolCallAsking { // about the edited arguments
			resp.Digest, resp.Input = c.Digest, nil
			if c, err = s.client(toolcall.RoleApprover, "bob").SubmitResponse(s.t.Context(), resp); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if c.Placement == toolcall.PlaceRemote {
		s.work(p, id)
	}
	for c.Open() {
		rep, err := s.bot.Wait(s.t.Context(), toolcall.WaitRequest{Session: c.Session, Reply: c.Reply, Calls: []message.CallID{c.Call}, TimeoutMS: bustest.Patience.Milliseconds()})
		if err != nil {
			s.t.Fatal(err)
		}
		c = rep.Calls[0]
	}
	if c.Result == nil || c.Result.State != message.ToolResultSuccess {
		s.t.Fatalf("%s ended with %+v", p.name, c.Result)
	}
	manyRecords, more := s.size()
	return manyRecords - records, more - size
}

// work is the worker's part, with ids of the length that package executor makes.
func (s *storedWorld) work(p path, id string) {
	s.t.Helper()
	wk := s.worker(p.tool, "wk")
	task := next(s.t, wk)
	start := toolcall.StartRequest{Key: task.Record.Call.Key, Attempt: 1, Claim: strings.ReplaceAll(uuid(), "-", ""), Nonce: task.Record.Call.Attempt.Grant.Nonce}
	if _, err := wk.Start(s.t.Context(), start); err != nil {
		s.t.Fatal(err)
	}
	if err := task.Ack(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if _, err := wk.Result(s.t.Context(), toolcall.ResultRequest{Key: start.Key, Attempt: 1, Claim: start.Claim, Result: success(id, p.tool, p.result)}); err != nil {
		s.t.Fatal(err)
	}
}

// size is what the server counts in the journal.
func (s *storedWorld) size() (records, bytes uint64) {
	s.t.Helper()
	info, err := bustest.Stream(s.t, s.Bus).Info(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return info.State.Msgs, info.State.Bytes
}

// A call stores its input and its result once, and little else. A bound that is
// exceeded says that records have grown: each byte is stored for every call.
func TestStoredBytes(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	const full = 4096 // of a call that is asked, approved, run by a worker and finished
	s := newStoredWorld(t)
	for _, p := range []path{
		{name: "local", tool: echo, input: `{"n":12345}`, records: 2, most: 2230},
		{name: "remote", tool: job, input: `{"n":12345}`, result: "done", records: 3, most: 3160},
		{name: "asked", tool: pay, input: `{"n":12345}`, records: 3, most: 3080},
		{name: "full", tool: askedJob, input: `{"n":12345}`, result: "done", records: 4, most: full},
		{name: "full, edited", tool: askedJob, input: `{"n":12345}`, edit: `{"n":12346}`, result: "done", records: 4, most: full + 50},
		{name: "full, edited and approved again", tool: againJob, input: `{"n":12345}`, edit: `{"n":12346}`, result: "done", records: 5, most: 6090},
		{name: "full, edited and approved again, large input", tool: againJob, input: `{"s":"` + large + `"}`, edit: `{"s":"` + large + `!"}`, result: "done", records: 5, most: 6190},
		{name: "full, redacted", tool: hiddenJob, input: `{"pin":12345}`, result: "done", records: 4, most: 4360},
		{name: "full, large input", tool: askedJob, input: `{"s":"` + large + `"}`, result: "done", records: 4, most: full + 100}, // the digest of the proposal is stored
		{name: "full, large result", tool: askedJob, input: `{"n":12345}`, result: large, records: 4, most: full + 100},
		{name: "full, both large", tool: askedJob, input: `{"s":"` + large + `"}`, result: large, records: 4, most: full + 200},
	} {
		payload := len(p.input) + len(p.edit) + len(p.result)
		if p.tool == echo || p.tool == pay {
			payload += len(p.input) // its result
		}
		records, size := s.run(p)
		t.Logf("%s: %d records, %d bytes", p.name, records, size)
		if extra := int(size) - payload; records != p.records || extra > p.most {
			t.Errorf("%s: %d records have %d bytes besides the input and the result; want %d with at most %d", p.name, records, extra, p.records, p.most)
		}
	}
}
