package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
)

// serverEnv names the store of the NATS server as which the test's process then runs.
const serverEnv = "ASKANCE_TEST_STORE"

// TestServerProcess is the server that the other tests in this file start.
func TestServerProcess(t *testing.T) {
	store := os.Getenv(serverEnv)
	if store == "" {
		return
	}
	s, err := embed.Start(t.Context(), embed.Options{StoreDir: store, Listen: "127.0.0.1:0", Durability: journal.DurabilityFsynced})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("listening on", s.URL())
	select {}
}

// serverProcess starts a server that syncs each record.
func serverProcess(t *testing.T, store string) (url string, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServerProcess$")
	cmd.Env = append(os.Environ(), serverEnv+"="+store)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // SIGKILL
		_ = cmd.Wait()         // fails because of it
	})
	t.Cleanup(kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			return at, kill
		}
	}
	t.Fatal("the server did not start")
	return "", nil
}

// The server is killed while it stores batches. No acknowledged write is lost, and
// no batch is stored in part.
func TestKillInABatch(t *testing.T) {
	store, keys := t.TempDir(), newKeys(t)
	var acked, refused sync.Map // id: sequence
	var stored atomic.Int32
	total := 0
	for round := range 4 {
		url, kill := serverProcess(t, store)
		nc, err := bus.Connect(t.Context(), url, bus.ConnectOptions{Principal: "engine"})
		if err != nil {
			t.Fatal(err)
		}
		j, err := journal.Open(t.Context(), nc, "test", keys, journal.Options{Durability: journal.DurabilityFsynced})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		_, writes := countBatches(t, nc)
		total = writes
		acked.Range(func(id, seq any) bool {
			m, err := j.Last(t.Context(), bustest.CallKey(id.(string)))
			if err != nil || m.Seq != seq {
				t.Errorf("round %d: %s was acknowledged at %d, found %d, %v", round, id, seq, m.Seq, err)
			}
			return true
		})
		refused.Range(func(id, err any) bool {
			if m, lerr := j.Last(t.Context(), bustest.CallKey(id.(string))); !errors.Is(lerr, message.ErrNotFound) {
				t.Errorf("round %d: %s was refused with %v, found %d, %v", round, id, err, m.Seq, lerr)
			}
			return true
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		stored.Store(0)
		enough, some := make(chan struct{}), 200+37*int32(round)
		for c := range 64 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					id := fmt.Sprintf("r%d-%d-%d", round, c, n)
					seq, err := j.Append(ctx, bustest.CallRecord(id, bustest.CallKey(id), message.ToolCallPending, "propose"), 0)
					switch {
					case err == nil:
						acked.Store(id, seq)
						if stored.Add(1) == some {
							close(enough)
						}
					case !errors.Is(err, message.ErrUnknownOutcome):
						refused.Store(id, err)
					}
				}
			})
		}
		<-enough
		kill()
		cancel()
		wg.Wait()
		nc.Close()
	}
	if total < 100 {
		t.Errorf("%d writes were in batches, so the test checked nothing", total)
	}
}

func newKeys(t *testing.T) *keyfile.Keys {
	t.Helper()
	keys, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// With more open batches than the server permits, each write is stored individually.
func TestTooManyOpenBatches(t *testing.T) {
	b := bustest.New(t)
	nc := b.Conn("engine")
	j := b.JournalWith("test", journal.Options{Publisher: journal.NewBatched(nc, always)})
	for n := range 50 { // batches that never end
		m := write(t, bustest.CallKey(fmt.Sprint("open", n)), "", 0, fmt.Sprint("open", n)).Msg
		m.Header.Set("Nats-Batch-Id", fmt.Sprint("b", n))
		m.Header.Set("Nats-Batch-Sequence", "1")
		if _, err := nc.RequestMsgWithContext(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for c := range 200 {
		wg.Go(func() {
			if _, err := j.Append(context.Background(), bustest.CallRecord(bustest.ID(c), bustest.CallKey(bustest.ID(c)), message.ToolCallPending, "propose"), 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, writes := countBatches(t, nc); n != 0 {
		t.Errorf("%d batches with %d writes were stored", n, writes)
	}
}
