package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/internal/lineartest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Environment variables of the fault runs: see `make faults`.
const (
	faultRunsVar = "ASKANCE_FAULT_RUNS" // number of runs; default faultRuns
	faultSeedVar = "ASKANCE_FAULT_SEED" // only the run with this seed
)

const (
	faultRuns    = 300 // `make faults` makes 10,000
	faultClients = 4
	faultSteps   = 10 // for each client
	faultCalls   = 3
	faultEngines = 3
	faultLimit   = 10 * time.Second // for a request; time in a bubble costs nothing
)

// faultRun is one seeded run: clients on some engines, and faults between the engines
// and their journal.
type faultRun struct {
	*world
	lineartest.History
	seed uint64

	mu      sync.Mutex // guards engines
	engines [faultEngines]*replica
}

func (r *faultRun) dice(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, actor)) }

// begin starts the nth engine with faults of its own.
func (r *faultRun) begin(n, life int) {
	e := r.engine()
	d := r.dice(uint64(1000 + 100*n + life))
	var mu sync.Mutex // guards d
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		mu.Lock()
		what, early, late := d.IntN(12), time.Duration(d.IntN(40))*time.Millisecond, time.Duration(d.IntN(40))*time.Millisecond
		mu.Unlock()
		time.Sleep(early)
		if what == 0 {
			return 0, &message.Error{Code: message.CodeUnavailable, Op: "append", What: "no leader, nothing was written", Hint: "try again"}
		}
		seq, err := store(ctx, rec, prev)
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

// strike kills engines and delays the records they read, while the clients work.
func (r *faultRun) strike(d *rand.Rand, done <-chan struct{}) {
	for life := 1; ; life++ {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(20+d.IntN(200)) * time.Millisecond):
		}
		n, e := r.pick(d)
		if d.IntN(2) == 0 {
			r.Tell("engine %d is killed and started again", n)
			e.kill()
			r.begin(n, life)
			continue
		}
		pause := time.Duration(d.IntN(400)) * time.Millisecond
		r.Tell("engine %d hears nothing for %s", n, pause)
		catchUp := e.cord.lag()
		time.Sleep(pause)
		catchUp()
	}
}

// client sends requests through randomly picked engines and never retries.
func (r *faultRun) client(id int) {
	d := r.dice(uint64(id))
	seen := map[toolcall.Key]*toolcall.Call{}
	for range faultSteps {
		time.Sleep(time.Duration(d.IntN(60)) * time.Millisecond)
		key := r.key(message.CallID(fmt.Sprint("c", d.IntN(faultCalls))))
		did := []lineartest.Request{lineartest.Propose, lineartest.Propose, lineartest.Approve, lineartest.Reject}[d.IntN(4)]
		if did != lineartest.Propose && seen[key] == nil {
			did = lineartest.Propose // a response needs the digest
		}
		n, e := r.pick(d)
		began := r.Begin()
		c, err := r.send(e, did, key, seen[key])
		saw := lineartest.Outcome(c, err)
		if did == lineartest.Propose && c != nil {
			seen[key] = c
		}
		r.End(id, did, key, saw, began)
		r.Tell("client %d: %s %s at engine %d: %s", id, did, key.Call, n, saw)
	}
}

func (r *faultRun) send(e *replica, did lineartest.Request, key toolcall.Key, asked *toolcall.Call) (*toolcall.Call, error) {
	ctx, cancel := context.WithTimeout(r.Context(), faultLimit)
	defer cancel()
	switch did {
	case lineartest.Approve:
		return e.ann().SubmitResponse(ctx, approve(asked))
	case lineartest.Reject:
		return e.bob().SubmitResponse(ctx, reject(asked))
	}
	tool := pay
	if r.Exclusive(key) {
		tool = note
	}
	reply, err := e.bot().Propose(ctx, request(call(key.Call, tool, `{"amount":500}`)))
	if err != nil || len(reply.Calls) == 0 {
		return nil, err
	}
	return reply.Calls[0], nil
}

// play carries out the run and finally reads the journal.
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
	time.Sleep(time.Minute) // delayed messages arrive
	for n := range faultCalls {
		key := r.key(message.CallID(fmt.Sprint("c", n)))
		began := r.Begin()
		entry, err := r.journal.Last(r.Context(), key)
		saw := lineartest.Absent
		if err == nil {
			saw = lineartest.Of(entry.Record.Call)
		}
		r.End(faultClients, lineartest.Read, key, saw, began)
	}
}

// For requests to several engines, with lost acknowledgements, refused writes, kills and
// lagging views, each call has an order of its requests that explains every reply. A failed
// run prints its seed and its story; the seed repeats the random choices.
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
	total := map[lineartest.Seen]int{}
	for seed := first; seed < first+runs && !t.Failed(); seed++ {
		var r *faultRun
		synctest.Test(t, func(t *testing.T) {
			r = &faultRun{world: newWorld(t.Context(), t, newMemory), seed: seed}
			r.Exclusive = func(k toolcall.Key) bool { return k.Call == "c0" }
			r.play()
		})
		r.Count(total)
		if err := r.Check(); err != nil {
			t.Errorf("to repeat: make faults SEED=%d\n%v", seed, err)
		}
	}
	t.Logf("%d runs: %v", runs, total)
	if runs >= faultRuns/10 && (total[lineartest.Approved] == 0 || total[lineartest.Rejected] == 0 || total[lineartest.Refused] == 0 || total[lineartest.Unsent] == 0 || total[lineartest.Unsure] == 0 || total[lineartest.Pending] == 0) {
		t.Errorf("some outcome never occurred: %v", total)
	}
}
