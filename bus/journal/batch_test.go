package journal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func always() bool { return true }

// The kinds of appends in a script.
const (
	opNext  = iota // an append after the entity's last record
	opStale        // after an earlier one
	opAgain        // the last record once more
	opLarge        // a record that is too large
	opKinds
)

// script is a series of appends to one entity.
type script struct {
	key toolcall.Key
	ops []int
}

// randomScripts returns scripts for different entities, which share batches.
func randomScripts(rng *rand.Rand, entities, ops int) []script {
	out := make([]script, entities)
	for e := range out {
		out[e] = script{key: bustest.CallKey(fmt.Sprint("c", e)), ops: []int{opNext}}
		for range ops - 1 {
			op := opNext
			if rng.IntN(4) == 0 {
				op = rng.IntN(opKinds)
			}
			out[e].ops = append(out[e].ops, op)
		}
	}
	return out
}

// outcome is the outcome of an entity's appends.
type outcome struct {
	codes   []message.Code // the code of each append; empty: stored
	stored  []string       // the ids that were reported as stored, in order
	at      []uint64       // their sequences
	refused []string       // the ids that were reported as not stored
	unknown []error        // the unknown outcomes
}

// play appends a script's records. After an unknown outcome it reads what is stored, as an engine
// does.
func play(ctx context.Context, j *journal.Journal, s script) (out outcome, err error) {
	prev, before := uint64(0), uint64(0)
	var last *toolcall.EventRecord
	for n, op := range s.ops {
		rec, after := bustest.CallRecord(fmt.Sprintf("%s-%d", s.key.Call, n), s.key, message.ToolCallAllowed, "allow"), prev
		switch {
		case op == opStale && prev != 0:
			after = before
		case op == opAgain && last != nil:
			rec, after = last, before
		case op == opLarge:
			rec.Call.Input = `"` + strings.Repeat("x", 64<<10) + `"`
		}
		seq, err := j.Append(ctx, rec, after)
		code := message.Code("")
		if err != nil {
			code = message.AsError("", err).Code
		}
		out.codes = append(out.codes, code)
		if code == message.CodeUnknownOutcome {
			out.unknown = append(out.unknown, err)
			if seq, err = find(ctx, j, s.key, rec.ID); err != nil {
				return out, err
			}
			if seq == 0 {
				continue
			}
			code = ""
		}
		switch {
		case code != "":
			out.refused = append(out.refused, rec.ID)
		case rec == last && seq != prev:
			return out, fmt.Errorf("%s was stored at %d, and again at %d", rec.ID, prev, seq)
		case rec != last:
			out.stored, out.at = append(out.stored, rec.ID), append(out.at, seq)
			before, prev, last = after, seq, rec
		}
	}
	return out, nil
}

// find looks for a record until the journal answers.
func find(ctx context.Context, j *journal.Journal, key toolcall.Key, id string) (uint64, error) {
	for {
		h, err := j.History(ctx, key)
		if err != nil && ctx.Err() == nil {
			time.Sleep(time.Second)
			continue
		}
		for _, r := range h {
			if r.Record != nil && r.Record.ID == id {
				return r.Seq, nil
			}
		}
		return 0, err
	}
}

// playAll plays all scripts at once, and checks that the journal has exactly the records that the
// appends reported.
func playAll(t *testing.T, j, reader *journal.Journal, scripts []script) []outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bustest.Patience) // without a deadline, an append gives up when a busy server is silent for ten seconds
	defer cancel()
	out := make([]outcome, len(scripts))
	var wg sync.WaitGroup
	for i, s := range scripts {
		wg.Go(func() {
			var err error
			if out[i], err = play(ctx, j, s); err != nil {
				t.Errorf("%s: %v", s.key.Call, err)
			}
		})
	}
	wg.Wait()
	for i, s := range scripts {
		h, err := reader.History(ctx, s.key)
		if err != nil && len(out[i].stored) > 0 {
			t.Fatalf("history of %s: %v", s.key.Call, err)
		}
		var ids []string
		var at []uint64
		for _, r := range h {
			if r.Invalid != nil {
				t.Fatalf("record %d: %v", r.Seq, r.Invalid)
			}
			ids, at = append(ids, r.Record.ID), append(at, r.Seq)
		}
		if !slices.Equal(ids, out[i].stored) || !slices.Equal(at, out[i].at) {
			t.Errorf("%s has %v at %v, appended were %v at %v, refused %v", s.key.Call, ids, at, out[i].stored, out[i].at, out[i].refused)
		}
	}
	return out
}

// oracle returns the outcomes of a script's appends without faults.
func oracle(s script) (out []message.Code) {
	stored := 0
	for _, op := range s.ops {
		switch {
		case op == opLarge:
			out = append(out, message.CodeTooLarge)
		case op == opStale && stored > 0:
			out = append(out, message.CodeConflict)
		case op == opAgain && stored > 0:
			out = append(out, "")
		default:
			out = append(out, "")
			stored++
		}
	}
	return out
}

// countBatches counts the batches in the journal's stream. Each must be complete: its writes have
// consecutive sequences and the last write has the commit.
func countBatches(t *testing.T, nc *nats.Conn) (count, writes int) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), bus.StreamName("test"))
	if err != nil {
		t.Fatal(err)
	}
	open, place := "", 0
	for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatalf("read %d: %v", seq, err)
		}
		in := m.Header.Get("Nats-Batch-Id")
		if in != open && place != 0 {
			t.Fatalf("the batch %s ends after %d writes, without its commit", open, place)
		}
		if in == "" {
			continue
		}
		place++
		if got := m.Header.Get("Nats-Batch-Sequence"); got != strconv.Itoa(place) {
			t.Fatalf("record %d is number %s of its batch, want %d", seq, got, place)
		}
		writes++
		if open = in; m.Header.Get("Nats-Batch-Commit") != "" {
			count, open, place = count+1, "", 0
		}
	}
	if place != 0 {
		t.Fatalf("the last batch has %d writes and no commit", place)
	}
	return count, writes
}

// Batches and single writes have the same outcomes as the oracle.
func TestBatchedOutcomes(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 1))
		scripts := randomScripts(rng, 100, 8)
		for _, name := range []string{"single", "batched"} {
			t.Run(fmt.Sprintf("%s %d", name, seed), func(t *testing.T) {
				b := bustest.New(t, bustest.With(func(o *embed.Options) { o.MaxPayload = 64 << 10 }))
				var p journal.Publisher = journal.NewDirect(b.Conn("engine"))
				if name == "batched" {
					p = journal.NewBatched(b.Conn("engine"), always)
				}
				j := b.JournalWith("test", journal.Options{Publisher: p})
				for i, got := range playAll(t, j, b.Journal("test"), scripts) {
					if want := oracle(scripts[i]); !slices.Equal(got.codes, want) {
						t.Errorf("seed %d: %v became %q, want %q", seed, scripts[i].ops, got.codes, want)
					}
				}
				if n, _ := countBatches(t, b.Conn("reader")); (n > 0) != (name == "batched") {
					t.Errorf("%d batches by the publisher %s", n, name)
				}
			})
		}
	}
}

// The publisher for a quorum has the same outcomes. It writes singly, because the servers sync
// waiting writes together.
func TestQuorumOutcomes(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	j, err := onCluster(t, c.Conn("engine"), newClusterKeys(t), journal.Options{Durability: journal.DurabilityQuorum})
	if err != nil {
		t.Fatal(err)
	}
	scripts := randomScripts(rand.New(rand.NewPCG(1, 1)), 100, 8)
	unknown := 0
	for i, got := range playAll(t, j, j, scripts) {
		want, codes := oracle(scripts[i]), got.codes
		if unknown += len(got.unknown); len(got.unknown) > 0 && unknown <= 2 { // a busy machine can make the cluster elect a leader; playAll has read what is stored
			t.Logf("%v became %q, want %q: %v", scripts[i].ops, codes, want, got.unknown)
			codes = codes[:slices.Index(codes, message.CodeUnknownOutcome)]
			want = want[:min(len(codes), len(want))]
		}
		if !slices.Equal(codes, want) {
			t.Errorf("%v became %q, want %q", scripts[i].ops, codes, want)
		}
	}
	if n, _ := countBatches(t, c.Conn("reader")); n != 0 {
		t.Errorf("%d batches", n)
	}
}

// cutter connects to a server with connections that break after some bytes.
type cutter struct {
	nats.InProcessConnProvider

	mu   sync.Mutex // guards all below, and what the connections may still carry
	rng  *rand.Rand
	last *cutConn
	left int // connections that will break
	cut  int // connections that broke
}

// begin lets n connections break, one after the other.
func (c *cutter) begin(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = n
	c.limit(c.last)
}

// limit sets the number of bytes a connection carries before it breaks. c.mu is held.
func (c *cutter) limit(conn *cutConn) {
	conn.reads, conn.writes = math.MaxInt, math.MaxInt
	if c.left > 0 {
		conn.reads, conn.writes = 5000+c.rng.IntN(20_000), 20_000+c.rng.IntN(200_000)
	}
}

func (c *cutter) broken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

func (c *cutter) InProcessConn() (net.Conn, error) {
	conn, err := c.InProcessConnProvider.InProcessConn()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = &cutConn{Conn: conn, cutter: c}
	c.limit(c.last)
	return c.last, nil
}

// carry reduces the number of bytes that a connection may still carry, and returns how many bytes
// exceed it.
func (c *cutter) carry(conn *cutConn, left *int, n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *left -= n; *left >= 0 {
		return 0
	}
	if !conn.gone {
		conn.gone = true
		c.cut++
		c.left--
	}
	return min(n, -*left)
}

// cutConn breaks when either direction has carried its bytes. Then what the server wrote is lost, or
// the server receives only a part of what the client wrote.
type cutConn struct {
	net.Conn
	cutter        *cutter
	reads, writes int
	gone          bool
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.cutter.carry(c, &c.reads, n) > 0 {
		return 0, errors.Join(io.ErrClosedPipe, c.Close())
	}
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	over := c.cutter.carry(c, &c.writes, len(b))
	n, err := c.Conn.Write(b[:len(b)-over])
	if over > 0 {
		return n, errors.Join(io.ErrClosedPipe, c.Close())
	}
	return n, err
}

// Connections break within batches and before their acknowledgements. Each append must still report
// the truth.
func TestBatchedFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel() // most of the time passes in waits for lost acknowledgements
			b := bustest.New(t, bustest.With(func(o *embed.Options) { o.MaxPayload = 64 << 10 }))
			rng := rand.New(rand.NewPCG(seed, 2))
			way := &cutter{InProcessConnProvider: b, rng: rng}
			nc, err := bus.ConnectInProcess(t.Context(), way, bus.ConnectOptions{Principal: "engine"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			j, err := journal.Open(t.Context(), nc, "test", b.Keys(), journal.Options{Publisher: journal.NewBatched(nc, always)})
			if err != nil {
				t.Fatal(err)
			}
			scripts := randomScripts(rng, 250, 5)
			way.begin(3)
			unsure := 0
			for i, o := range playAll(t, j, b.Journal("test"), scripts) {
				if slices.ContainsFunc(o.codes, func(c message.Code) bool {
					return c == message.CodeUnknownOutcome || c == message.CodeUnavailable
				}) {
					unsure++ // from here on the oracle no longer applies
				} else if want := oracle(scripts[i]); !slices.Equal(o.codes, want) {
					t.Errorf("seed %d: %v became %q, want %q", seed, scripts[i].ops, o.codes, want)
				}
			}
			n, writes := countBatches(t, b.Conn("reader"))
			t.Logf("%d connections broke, %d scripts had an unknown outcome, %d batches with %d writes", way.broken(), unsure, n, writes)
			if way.broken() < 3 {
				t.Errorf("seed %d: %d connections broke, want 3", seed, way.broken())
			}
		})
	}
}
