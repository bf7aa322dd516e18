package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

// Steps of a story in which several engines act at once. Each request runs on its own
// goroutine, so that a request that a wire holds back overlaps with later ones.
const (
	stepPropose   = "propose"
	stepApprove   = "approve"
	stepRemember  = "approve with its rules"
	stepReject    = "reject"
	stepEdit      = "edit"
	stepDelegate  = "hand over"
	stepEnd       = "end" // report the result, or start the call and send its result
	stepStart     = "start"
	stepRevoke    = "revoke"
	stepResolve   = "resolve"
	stepInterrupt = "interrupt"
	stepTouch     = "touch"
	stepLag       = "lag"
	stepBlock     = "hold writes"
	stepMute      = "hold acknowledgements"
	stepBlind     = "refuse reads"
	stepKill      = "kill"
	stepPass      = "pass"
)

var steps = []string{
	stepPropose, stepPropose, stepPropose, stepApprove, stepApprove, stepRemember, stepReject, stepEdit, stepDelegate, stepEnd, stepEnd, stepEnd, stepInterrupt,
	stepStart, stepStart, stepRevoke, stepRevoke, stepResolve,
	stepTouch, stepTouch, stepLag, stepLag, stepBlock, stepBlock, stepMute, stepMute, stepBlind, stepKill, stepPass, stepPass, stepPass,
}

// step is one step of a story: what happens, through which engine, to which call or batch,
// and for how long.
type step struct {
	what   string
	engine int
	about  int
	units  int
}

func (s step) String() string {
	return fmt.Sprintf("%s by %d about %d for %d", s.what, s.engine, s.about, s.units)
}

func drawStep(t *rapid.T) step {
	return step{
		what: rapid.SampledFrom(steps).Draw(t, "what"), engine: rapid.IntRange(0, 2).Draw(t, "engine"),
		about: rapid.IntRange(0, 9).Draw(t, "about"), units: rapid.SampledFrom([]int{0, 1, 2, 4, 30}).Draw(t, "units"),
	}
}

// The proposals of the stories are calls of several tools. Some must wait for each other.
// All but the last batch belong to one reply.
var batches = [][]string{
	{serial, asks, asks, asks}, {asks, serialAsks}, {serial, remote, serial}, {two, two, serial}, {asks, asks, remote, asks},
}

func batchCall(batch, i int) message.CallID { return message.CallID(fmt.Sprintf("c%d%d", batch, i)) }

func replyOf(batch int) message.ReplyID {
	if batch == len(batches)-1 {
		return "free"
	}
	return "r"
}

// callAt returns the key of one of the calls of all batches.
func callAt(about int) toolcall.Key {
	n := 0
	for b, tools := range batches {
		if about < n+len(tools) {
			return toolcall.Key{Space: "default", Session: "s", Reply: replyOf(b), Call: batchCall(b, about-n)}
		}
		n += len(tools)
	}
	return toolcall.Key{Space: "default", Session: "s", Reply: replyOf(0), Call: batchCall(0, 0)}
}

// story carries out the steps and keeps what was acknowledged.
type story struct {
	*wired
	requests sync.WaitGroup

	mu          sync.Mutex // guards all below
	answered    []toolcall.Key
	interrupted []message.ReplyID
	ended       []toolcall.Key
	revoked     []toolcall.Key
	started     map[toolcall.Key]string // the claim
}

// Several engines on wires that are slow, mute or cut work on the same calls. The journal
// must show that serial calls run in order, that a group whose calls can hide asks one
// approval request at a time, that what was acknowledged remains, and that nothing waits
// forever.
func TestStoriesOfSeveralEngines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plot := rapid.SliceOfN(rapid.Custom(drawStep), 5, 40).Draw(rt, "plot")
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			s := &story{wired: &wired{T: t, journal: engine.NewMemory()}, started: map[toolcall.Key]string{}}
			for range 3 {
				s.start()
			}
			for _, step := range plot {
				s.take(step)
				synctest.Wait()
			}
			s.settleDown()
			problems = s.problems()
		})
		if len(problems) > 0 {
			rt.Fatalf("%s", strings.Join(problems, "\n"))
		}
	})
}

// settleDown repairs the wires and lets time pass until nothing is due any more.
func (s *story) settleDown() {
	for _, w := range s.wires {
		w.lag(false)
		w.holdWrites(false)
		w.mute(false)
		w.onLast(nil)
	}
	s.pass(20 * wiredGrace)
	s.requests.Wait()
	s.pass(20 * wiredGrace)
}

// ask sends a request on its own goroutine and calls note when it is acknowledged.
func (s *story) ask(f func(ctx context.Context) error, note func()) {
	s.requests.Go(func() {
		ctx, cancel := context.WithTimeout(s.Context(), 15*wiredGrace)
		defer cancel()
		if f(ctx) == nil && note != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			note()
		}
	})
}

func (s *story) take(p step) {
	switch key := callAt(p.about*2 + p.units%2); p.what {
	case stepPropose:
		s.proposeBatch(p.engine, p.about%len(batches))
	case stepApprove, stepRemember, stepReject, stepEdit, stepDelegate:
		s.answer(p, key)
	case stepStart:
		claim := fmt.Sprint("start", p.engine)
		s.ask(func(ctx context.Context) error {
			_, err := s.as(p.engine, toolcall.RoleWorker, "w").Start(ctx, toolcall.StartRequest{Key: key, Attempt: 1, Claim: claim})
			return err
		}, func() { s.started[key] = claim })
	case stepRevoke:
		s.ask(func(ctx context.Context) error {
			_, err := s.as(p.engine, toolcall.RoleOperator, "olga").Revoke(ctx, toolcall.RevokeRequest{Key: key})
			return err
		}, func() { s.revoked = append(s.revoked, key) })
	case stepResolve:
		s.ask(func(ctx context.Context) error {
			_, err := s.as(p.engine, toolcall.RoleOperator, "olga").Resolve(ctx, toolcall.ResolveRequest{Key: key, Attempt: 1, Outcome: toolcall.OutcomeDidNot})
			return err
		}, func() { s.ended = append(s.ended, key) })
	case stepEnd:
		s.end(p.engine, key)
	case stepInterrupt:
		if p.about > 1 {
			return // happens rarely: an interrupt ends everything
		}
		s.ask(func(ctx context.Context) error {
			_, err := s.as(p.engine, toolcall.RoleRuntime, "bot").Interrupt(ctx, toolcall.InterruptRequest{Session: "s", Reply: key.Reply})
			return err
		}, func() { s.interrupted = append(s.interrupted, key.Reply) })
	case stepTouch:
		s.ask(func(ctx context.Context) error {
			_, err := s.as(p.engine, toolcall.RoleApprover, "eve").SubmitResponse(ctx, toolcall.Response{Key: key, Kind: toolcall.ResponseReject, Digest: "none"})
			return err
		}, nil)
	case stepPass:
		s.pass(time.Duration(p.units) * wiredGrace / 2)
	default:
		s.disturb(p)
	}
}

// disturb changes what an engine's wire does.
func (s *story) disturb(p step) {
	wire, on := s.wires[p.engine], p.units > 0
	switch p.what {
	case stepLag:
		wire.lag(on)
	case stepBlock:
		wire.holdWrites(on)
	case stepMute:
		wire.mute(on)
	case stepBlind:
		var left atomic.Int64 // several goroutines of an engine call it
		left.Store(int64(p.units))
		wire.onLast(func(toolcall.Key) error {
			if left.Add(-1) >= 0 {
				return errWire
			}
			return nil
		})
	case stepKill:
		if p.units > 1 {
			return // happens rarely
		}
		wire.cut()
		s.replace(p.engine)
	}
}

func (s *story) proposeBatch(i, batch int) {
	r := toolcall.ProposeRequest{Session: "s", Reply: replyOf(batch)}
	for n, tool := range batches[batch] {
		r.Calls = append(r.Calls, bareCall(batchCall(batch, n), tool))
	}
	s.ask(func(ctx context.Context) error {
		_, err := s.as(i, toolcall.RoleRuntime, "bot").Propose(ctx, r)
		return err
	}, nil)
}

// answer answers the approval request that the journal has now.
func (s *story) answer(p step, key toolcall.Key) {
	r, err := s.journal.Last(s.Context(), key)
	if err != nil || r.Record.Call.State != message.ToolCallAsking {
		return
	}
	resp := toolcall.Response{Key: key, Kind: toolcall.ResponseApprove, Digest: r.Record.Call.Digest}
	switch p.what {
	case stepRemember:
		resp.Rules = r.Record.Call.Suggested
	case stepReject:
		resp.Kind = toolcall.ResponseReject
	case stepEdit:
		input := fmt.Sprintf(`{"n":%d}`, p.units)
		resp.Input = &input
	case stepDelegate:
		resp.Kind, resp.To = toolcall.ResponseDelegate, "cy"
	}
	name := []string{"ann", "bob"}[p.about%2]
	s.ask(func(ctx context.Context) error {
		_, err := s.as(p.engine, toolcall.RoleApprover, name).SubmitResponse(ctx, resp)
		return err
	}, func() { s.answered = append(s.answered, key) })
}

// end reports the result of an external call, or starts a remote call and sends its result.
func (s *story) end(i int, key toolcall.Key) {
	result := message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "done"}}
	s.ask(func(ctx context.Context) error {
		if _, err := s.as(i, toolcall.RoleRuntime, "bot").Report(ctx, toolcall.ReportRequest{Key: key, Result: result}); err == nil {
			return nil
		}
		claim := fmt.Sprint("claim", i)
		worker := s.as(i, toolcall.RoleWorker, fmt.Sprint("w", i))
		if _, err := worker.Start(ctx, toolcall.StartRequest{Key: key, Attempt: 1, Claim: claim}); err != nil {
			return err
		}
		_, err := worker.Result(ctx, toolcall.ResultRequest{Key: key, Attempt: 1, Claim: claim, Result: result})
		return err
	}, func() { s.ended = append(s.ended, key) })
}

// problems returns what is wrong with the journal.
func (s *story) problems() []string {
	h := readHistory(s.wired)
	out := slices.Concat(h.broken, h.outOfOrder(), h.asksAtOnce(), h.waitsForEver())
	for _, key := range s.answered {
		if c := h.last[key]; c == nil || len(c.Votes) == 0 {
			out = append(out, "an answer to "+string(key.Call)+" was acknowledged but is not recorded")
		}
	}
	for _, key := range s.ended {
		if c := h.last[key]; c == nil || c.Open() {
			out = append(out, "the end of "+string(key.Call)+" was acknowledged, but the call is open")
		}
	}
	for _, key := range s.revoked {
		if c := h.last[key]; c == nil || c.Cause != "revoke" || c.Started() {
			out = append(out, "the revocation of "+string(key.Call)+" was acknowledged, but the call began or is open")
		}
	}
	for key, claim := range s.started {
		if h.when(key, func(c *toolcall.Call) bool { return c.Attempt.Claim == claim }) == 0 {
			out = append(out, "the start of "+string(key.Call)+" was acknowledged to a worker that does not own it")
		}
	}
	for key, c := range h.last {
		if c.Open() && slices.Contains(s.interrupted, key.Reply) {
			out = append(out, string(key.Call)+" is open in a reply whose interrupt was acknowledged")
		}
	}
	if len(out) > 0 {
		out = append(out, h.lines...)
	}
	return out
}

// history is a whole journal, for questions about what was decided when.
type history struct {
	broken   []string // records that no engine could have written
	lines    []string // one for each event record, printed with a failure
	entities map[toolcall.Key][]*toolcall.EventRecord
	last     map[toolcall.Key]*toolcall.Call
	over     map[message.ReplyID]bool // was interrupted
}

type allRecords struct {
	records []toolcall.JournalEntry
	stop    context.CancelFunc
}

func (a *allRecords) Record(r toolcall.JournalEntry) { a.records = append(a.records, r) }
func (a *allRecords) CaughtUp()                      { a.stop() }

func readHistory(w *wired) *history {
	w.Helper()
	h := &history{entities: map[toolcall.Key][]*toolcall.EventRecord{}, last: map[toolcall.Key]*toolcall.Call{}, over: map[message.ReplyID]bool{}}
	ctx, stop := context.WithCancel(w.Context())
	all := &allRecords{stop: stop}
	if err := w.journal.Watch(ctx, 0, all); !errors.Is(err, context.Canceled) {
		w.Fatal(err)
	}
	for _, r := range all.records {
		rec := r.Record
		switch {
		case rec == nil:
		case rec.Call != nil:
			rec.Call.At(r.Seq)
			h.entities[r.Key], h.last[r.Key] = append(h.entities[r.Key], rec), rec.Call
		case rec.Reply != nil:
			h.over[rec.Reply.Reply] = rec.Reply.Phase != toolcall.ReplyOpen
		}
		if rec != nil {
			h.lines = append(h.lines, fmt.Sprintf("%d %s %s %s by %s", r.Seq, r.Time.Format("05.000"), r.Key.Call, rec.Kind(), rec.Engine))
		}
	}
	for key, records := range h.entities {
		if _, err := toolcall.Replay(records); err != nil {
			h.broken = append(h.broken, fmt.Sprintf("%s: %v", key.Call, err))
		}
		starts := map[int]int{}
		for _, rec := range records {
			if rec.Kind() == "start" {
				starts[rec.Call.Attempt.Number]++
			}
		}
		for n, times := range starts {
			if times > 1 {
				h.broken = append(h.broken, fmt.Sprintf("attempt %d of %s started %d times", n, key.Call, times))
			}
		}
	}
	return h
}

// when returns the sequence of a call's first event record for which is returns true.
func (h *history) when(key toolcall.Key, is func(*toolcall.Call) bool) uint64 {
	for _, rec := range h.entities[key] {
		if is(rec.Call) {
			return rec.Call.Seq
		}
	}
	return 0
}

func begun(c *toolcall.Call) bool {
	return c.State == message.ToolCallAsking || c.State == message.ToolCallAllowed || c.State == message.ToolCallSubmitted || !c.Open() && c.Cause != "interrupt"
}

func isFinished(c *toolcall.Call) bool { return !c.Open() }

// first is the sequence of a call's first event record; 0 if it has none.
func (h *history) first(key toolcall.Key) uint64 {
	return h.when(key, func(*toolcall.Call) bool { return true })
}

// before returns the calls that a call had to wait for. It uses tools and proposals, not what
// the engine records about them.
func (h *history) before(key toolcall.Key) (out []toolcall.Key) {
	ordered := func(k toolcall.Key) bool {
		return slices.ContainsFunc(batches[batchOf(k)], isSerial)
	}
	for k, c := range h.last {
		if k.Reply == key.Reply && ordered(k) && ordered(key) && h.first(k) < h.first(key) && (isSerial(c.Tool) || isSerial(h.last[key].Tool)) {
			out = append(out, k)
		}
	}
	return out
}

func isSerial(tool string) bool { return tool == serial || tool == serialAsks }

// batchOf returns the batch of a call whose id is from batchCall.
func batchOf(key toolcall.Key) int { return int(key.Call[1] - '0') }

// outOfOrder finds calls that were recorded before an earlier call of their proposal, or
// decided before the calls they had to wait for had ended.
func (h *history) outOfOrder() (out []string) {
	for key := range h.entities {
		for i := range batches[batchOf(key)] {
			k := key
			k.Call = batchCall(batchOf(key), i)
			if k.Call < key.Call && (h.first(k) == 0 || h.first(k) > h.first(key)) {
				out = append(out, fmt.Sprintf("%s is recorded at %d, but %s, which was proposed before it, at %d", key.Call, h.first(key), k.Call, h.first(k)))
			}
		}
		at := h.when(key, begun)
		if at == 0 {
			continue
		}
		for _, k := range h.before(key) {
			if end := h.when(k, isFinished); end == 0 || end > at {
				out = append(out, fmt.Sprintf("%s was decided at %d, but %s before it ended at %d", key.Call, at, k.Call, end))
			}
		}
	}
	return out
}

// asksAtOnce finds calls of one reply that asked at the same time although the answer to one
// could have answered the other.
func (h *history) asksAtOnce() (out []string) {
	type span struct {
		call     message.CallID
		from, to uint64
	}
	spans := map[message.ReplyID][]span{}
	for key, records := range h.entities {
		if records[0].Call.Tool != asks {
			continue
		}
		if from := h.when(key, func(c *toolcall.Call) bool { return c.State == message.ToolCallAsking }); from > 0 {
			s := span{key.Call, from, ^uint64(0)}
			for _, rec := range records {
				if rec.Call.Seq > from && rec.Call.State != message.ToolCallAsking {
					s.to = rec.Call.Seq
					break
				}
			}
			spans[key.Reply] = append(spans[key.Reply], s)
		}
	}
	for _, of := range spans {
		slices.SortFunc(of, func(a, b span) int { return int(a.from) - int(b.from) })
		for i := 1; i < len(of); i++ {
			if of[i].from < of[i-1].to {
				out = append(out, fmt.Sprintf("%s asked from %d on, but %s asked from %d to %d", of[i].call, of[i].from, of[i-1].call, of[i-1].from, of[i-1].to))
			}
		}
	}
	return out
}

// waitsForEver finds pending calls that nothing holds back, and open calls of
// replies that were interrupted.
func (h *history) waitsForEver() (out []string) {
	for key, c := range h.last {
		if c.Open() && h.over[key.Reply] {
			out = append(out, fmt.Sprintf("%s is %s, but its reply was interrupted", key.Call, c.State))
		}
		if c.State != message.ToolCallPending {
			continue
		}
		wait := slices.ContainsFunc(h.before(key), func(k toolcall.Key) bool { return h.last[k].Open() })
		for k, o := range h.last {
			wait = wait || k.Reply == key.Reply && k.Call == c.Behind && o.State == message.ToolCallAsking
		}
		if !wait {
			out = append(out, fmt.Sprintf("%s is pending behind %q, but nothing holds it back", key.Call, c.Behind))
		}
	}
	return out
}
