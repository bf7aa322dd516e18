package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Environment variables of the fault runs: see `make faults`.
const (
	faultRunsVar = "ASKANCE_FAULT_RUNS" // how many runs; default faultRuns
	faultSeedVar = "ASKANCE_FAULT_SEED" // only the run of this seed
)

const (
	faultRuns    = 300
	faultClients = 4
	faultSteps   = 10 // of each client
	faultCalls   = 3
	faultEngines = 3
	faultLimit   = 10 * time.Second // of a request; time in a bubble is free
)

// What a client does with a call. It is also the input of the model.
const (
	doPropose = "propose"
	doApprove = "approve"
	doReject  = "reject"
	doRead    = "read" // the journal itself, in the end
)

// decided is how far a call is. It is the state of the model and what clients see.
type decided string

const (
	isAbsent   decided = "absent"
	isAsking   decided = "asking"
	isApproved decided = "approved"
	isRejected decided = "rejected"
	// The other outputs of a request.
	isRefused decided = "refused"     // the call moved on, or there is none
	isUnsent  decided = "unavailable" // nothing was written
	isUnsure  decided = "unknown"     // it may have taken effect, at any later time
)

// decidedOf is how far a call is.
func decidedOf(c *toolcall.Call) decided {
	switch {
	case c == nil:
		return isAbsent
	case c.State == message.ToolCallAsking:
		return isAsking
	case c.Cause == string(toolcall.CauseReject):
		return isRejected
	}
	return isApproved
}

// callModel is one call as its clients may see it.
var callModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[any][]porcupine.Operation{}
		for _, o := range history {
			by[o.Metadata] = append(by[o.Metadata], o)
		}
		var out [][]porcupine.Operation
		for _, ops := range by {
			out = append(out, ops)
		}
		return out
	},
	Init: func() []any { return []any{isAbsent} },
	Step: func(state, input, output any) []any {
		return stepModel(state.(decided), input.(string), output.(decided))
	},
	Equal: func(a, b any) bool { return a == b },
}).ToModel()

// stepModel gives the states that may follow; none: the output is impossible here.
func stepModel(now decided, did string, saw decided) []any {
	next := now
	switch did {
	case doPropose:
		if now == isAbsent {
			next = isAsking
		}
	case doApprove, doReject:
		if now == isAsking {
			next = map[string]decided{doApprove: isApproved, doReject: isRejected}[did]
		}
	}
	switch saw {
	case isUnsent:
		return []any{now}
	case isUnsure:
		return []any{now, next}
	case isRefused: // a response to a call that waits for one is taken
		if did == doPropose || now == isAsking {
			return nil
		}
		return []any{now}
	}
	if saw != next {
		return nil
	}
	return []any{next}
}

// faultRun is one seeded run: clients on some engines, and faults between the engines
// and their journal.
type faultRun struct {
	*world
	seed uint64

	mu      sync.Mutex // guards what follows
	engines [faultEngines]*replica
	clock   int64
	history []porcupine.Operation
	story   []string
}

func (r *faultRun) dice(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, actor)) }

func (r *faultRun) tell(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.story = append(r.story, fmt.Sprintf("%3d  ", r.clock)+fmt.Sprintf(format, args...))
}

// begin starts the nth engine with faults of its own.
func (r *faultRun) begin(n, life int) {
	e := r.engine()
	d := r.dice(uint64(1000 + 100*n + life))
	var mu sync.Mutex // guards d
	e.cord.onAppend(func(ctx context.Context, f *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		mu.Lock()
		what, early, late := d.IntN(12), time.Duration(d.IntN(40))*time.Millisecond, time.Duration(d.IntN(40))*time.Millisecond
		mu.Unlock()
		time.Sleep(early)
		if what == 0 {
			return 0, &message.Error{Code: message.CodeUnavailable, Op: "append", What: "no leader, nothing was written", Hint: "try again"}
		}
		seq, err := store(ctx, f, prev)
		time.Sleep(late)
		if what == 1 && err == nil {
			return 0, &message.Error{Code: message.CodeUnknownOutcome, Op: "append", What: "the acknowledgement was lost", Hint: "look"}
		}
		return seq, err
	})
	e.cord.onLast(func(toolcall.Key) error {
		mu.Lock()
		defer mu.Unlock()
		if d.IntN(4) > 0 {
			return nil
		}
		return cutError("read")
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engines[n] = e
}

func (r *faultRun) pick(d *rand.Rand) (int, *replica) {
	n := d.IntN(faultEngines)
	r.mu.Lock()
	defer r.mu.Unlock()
	return n, r.engines[n]
}

// strike kills engines and holds back what they hear, while the clients work.
func (r *faultRun) strike(d *rand.Rand, done <-chan struct{}) {
	for life := 1; ; life++ {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(20+d.IntN(200)) * time.Millisecond):
		}
		n, e := r.pick(d)
		if d.IntN(2) == 0 {
			r.tell("engine %d is killed and started again", n)
			e.kill()
			r.begin(n, life)
			continue
		}
		pause := time.Duration(d.IntN(400)) * time.Millisecond
		r.tell("engine %d hears nothing for %s", n, pause)
		catchUp := e.cord.lag()
		time.Sleep(pause)
		catchUp()
	}
}

// client sends requests through engines that it picks, without trying again.
func (r *faultRun) client(id int) {
	d := r.dice(uint64(id))
	seen := map[toolcall.Key]*toolcall.Call{}
	for range faultSteps {
		time.Sleep(time.Duration(d.IntN(60)) * time.Millisecond)
		key := r.key(message.CallID(fmt.Sprint("c", d.IntN(faultCalls))))
		did := []string{doPropose, doPropose, doApprove, doReject}[d.IntN(4)]
		if did != doPropose && seen[key] == nil {
			did = doPropose // a response needs the digest
		}
		n, e := r.pick(d)
		began := r.tick()
		c, err := r.send(e, did, key, seen[key])
		saw := outcome(c, err)
		if did == doPropose && c != nil {
			seen[key] = c
		}
		r.record(id, did, key, saw, began)
		r.tell("client %d: %s %s at engine %d: %s", id, did, key.Call, n, saw)
	}
}

func (r *faultRun) tick() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	return r.clock
}

// forever is when a request returned whose outcome is not known.
const forever = int64(1) << 40

func (r *faultRun) record(id int, did string, key toolcall.Key, saw decided, began int64) {
	ended := r.tick()
	if saw == isUnsure {
		ended = forever
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{ClientId: id, Input: did, Output: saw, Call: began, Return: ended, Metadata: key.Call})
}

func (r *faultRun) send(e *replica, did string, key toolcall.Key, asked *toolcall.Call) (*toolcall.Call, error) {
	ctx, cancel := context.WithTimeout(r.Context(), faultLimit)
	defer cancel()
	switch did {
	case doApprove:
		return e.ann().SubmitResponse(ctx, approve(asked))
	case doReject:
		return e.bob().SubmitResponse(ctx, reject(asked))
	}
	reply, err := e.bot().Propose(ctx, request(call(key.Call, pay, `{"amount":500}`)))
	if err != nil || len(reply.Calls) == 0 {
		return nil, err
	}
	return reply.Calls[0], nil
}

// outcome is what a client learned from a reply.
func outcome(c *toolcall.Call, err error) decided {
	switch {
	case err == nil:
		return decidedOf(c)
	case errors.Is(err, message.ErrUnavailable):
		return isUnsent
	case errors.Is(err, message.ErrFinished), errors.Is(err, message.ErrState), errors.Is(err, message.ErrDigest), errors.Is(err, message.ErrSuperseded), errors.Is(err, message.ErrNotFound):
		return isRefused
	}
	return isUnsure
}

// play carries the run out and reads in the end what the journal has.
func (r *faultRun) play() {
	for n := range faultEngines {
		r.begin(n, 0)
	}
	done := make(chan struct{})
	var clients, nemesis sync.WaitGroup
	nemesis.Go(func() { r.strike(r.dice(99), done) })
	for id := range faultClients {
		clients.Go(func() { r.client(id) })
	}
	clients.Wait()
	close(done)
	nemesis.Wait()
	time.Sleep(time.Minute) // what is on its way arrives
	for n := range faultCalls {
		key := r.key(message.CallID(fmt.Sprint("c", n)))
		began := r.tick()
		entry, err := r.journal.Last(r.Context(), key)
		saw := isAbsent
		if err == nil {
			saw = decidedOf(entry.Record.Call)
		}
		r.record(faultClients, doRead, key, saw, began)
	}
}

// Requests to several engines, with lost acknowledgements, refused writes, kills and
// views that lag, have one order per call that explains every reply. A failed run prints
// its seed and its story; the seed repeats the choices.
func TestRepliesAreLinearizable(t *testing.T) {
	first, runs := uint64(1), uint64(faultRuns)
	if testing.Short() {
		runs /= 10
	}
	if text := os.Getenv(faultRunsVar); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", faultRunsVar, err)
		}
		runs, first = n, uint64(time.Now().UnixNano())
	}
	if text := os.Getenv(faultSeedVar); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", faultSeedVar, err)
		}
		runs, first = 1, n
	}
	total := map[decided]int{}
	for seed := first; seed < first+runs && !t.Failed(); seed++ {
		var r *faultRun
		synctest.Test(t, func(t *testing.T) {
			r = &faultRun{world: newWorld(t.Context(), t, newMemory), seed: seed}
			r.play()
		})
		for _, o := range r.history {
			total[o.Output.(decided)]++
		}
		if !porcupine.CheckOperations(callModel, r.history) {
			t.Errorf("the replies have no order that explains them\nto repeat: %s=%d\n%s\n%s", faultSeedVar, seed, strings.Join(r.story, "\n"), describeHistory(r.history))
		}
	}
	t.Logf("%d runs: %v", runs, total)
	if runs >= faultRuns/10 && (total[isApproved] == 0 || total[isRejected] == 0 || total[isRefused] == 0 || total[isUnsent] == 0 || total[isUnsure] == 0) {
		t.Errorf("some outcome never came: %v", total)
	}
}

// The model refuses what must never be.
func TestTheModelRefusesDoubleDecisions(t *testing.T) {
	op := func(call, ret int64, did string, saw decided) porcupine.Operation {
		return porcupine.Operation{Input: did, Output: saw, Call: call, Return: ret, Metadata: message.CallID("c")}
	}
	for name, tc := range map[string]struct {
		ok  bool
		ops []porcupine.Operation
	}{
		"one decision":              {true, []porcupine.Operation{op(1, 2, doPropose, isAsking), op(3, 6, doApprove, isApproved), op(4, 5, doReject, isRefused)}},
		"both decided":              {false, []porcupine.Operation{op(1, 2, doPropose, isAsking), op(3, 6, doApprove, isApproved), op(4, 5, doReject, isRejected)}},
		"an acknowledgement undone": {false, []porcupine.Operation{op(1, 2, doPropose, isAsking), op(3, 4, doApprove, isApproved), op(5, 6, doRead, isAsking)}},
		"refused and still open":    {false, []porcupine.Operation{op(1, 2, doPropose, isAsking), op(3, 4, doApprove, isRefused), op(5, 6, doRead, isAsking)}},
		"unavailable and written":   {false, []porcupine.Operation{op(1, 2, doPropose, isAsking), op(3, 4, doReject, isUnsent), op(5, 6, doRead, isRejected)}},
		"unknown and written late":  {true, []porcupine.Operation{op(1, 2, doPropose, isAsking), op(3, forever, doReject, isUnsure), op(5, 6, doRead, isAsking), op(7, 8, doRead, isRejected)}},
	} {
		if porcupine.CheckOperations(callModel, tc.ops) != tc.ok {
			t.Errorf("%s: the model says %v", name, !tc.ok)
		}
	}
}

func describeHistory(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, o := range history {
		fmt.Fprintf(&b, "%3d to %3d  client %d  %s %v: %s\n", o.Call, min(o.Return, 999), o.ClientId, o.Input, o.Metadata, o.Output)
	}
	return b.String()
}
