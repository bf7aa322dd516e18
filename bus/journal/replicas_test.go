package journal_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func newClusterKeys(t testing.TB) *keyfile.Keys {
	t.Helper()
	keys, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// onCluster opens a journal on a cluster.
func onCluster(t *testing.T, nc *nats.Conn, keys *keyfile.Keys, o journal.Options) (*journal.Journal, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return journal.Open(ctx, nc, "test", keys, o)
}

// Everything that a space stores on a cluster has three replicas, including consumers of queues, and
// the claim says so.
func TestReplicasByDefault(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	nc := c.Conn("engine")
	j, err := onCluster(t, nc, newClusterKeys(t), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if claim := j.Claim(); claim.Durability != journal.DurabilityQuorum || claim.Assumed {
		t.Errorf("claim = %+v, want quorum", claim)
	}
	if _, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.OpenOutbox(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.OpenPolicyBucket(t.Context(), nc, "test", journal.PolicyBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.OpenDirectoryBucket(t.Context(), nc, "test", journal.PolicyBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	all, err := journal.Replication(t.Context(), nc, "test")
	if err != nil || len(all) != 5 {
		t.Fatalf("replication = %v, %v, want five streams", all, err)
	}
	for _, r := range all {
		if r.Replicas != 3 {
			t.Errorf("%+v, want three replicas", r)
		}
	}
	queue := toolcall.Queue{Tool: "send"}
	if err := j.EnsureQueue(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), bus.StreamName("test"), bus.ConsumerName(queue))
	if err != nil {
		t.Fatal(err)
	}
	if got := consumer.CachedInfo().Cluster; got == nil || len(got.Replicas) != 2 {
		t.Errorf("the queue's consumer is held by %+v, want a leader and two replicas", got)
	}
}

// A journal with one replica on a cluster is refused if three are stated, and can be raised to three
// while an engine has it open.
func TestReplicasAreRaised(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	nc, keys := c.Conn("engine"), newClusterKeys(t)
	one := journal.Options{Stream: journal.StreamOptions{Replicas: 1}}
	j, err := onCluster(t, nc, keys, one)
	if err != nil {
		t.Fatal(err)
	}
	if claim := j.Claim(); claim.Durability != journal.DurabilityCached || !claim.Assumed {
		t.Errorf("claim of one replica = %+v, want the least", claim)
	}
	ledger, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []journal.Options{{Stream: journal.StreamOptions{Replicas: 3}}, {Durability: journal.DurabilityQuorum}} {
		_, err := onCluster(t, nc, keys, o)
		if e := message.AsError("", err); !errors.Is(err, message.ErrInvalid) || !strings.Contains(e.Hint, "askance journal replicas 3") {
			t.Errorf("open with %+v = %v, want it refused with the command that raises the replicas", o, err)
		}
	}
	var seq uint64
	write := func() {
		t.Helper()
		if seq, err = j.Append(t.Context(), newRecord(int(seq)), 0); err != nil {
			t.Fatal(err)
		}
	}
	write()
	reports := 0
	if err := journal.SetReplicas(t.Context(), nc, "test", 3, func(journal.Replicated) { reports++ }); err != nil {
		t.Fatal(err)
	}
	if reports != 4 {
		t.Errorf("%d reports, want two for each of two streams", reports)
	}
	if err := j.Ready(t.Context()); err != nil {
		t.Errorf("after the change: %v", err)
	}
	if claim := j.Claim(); claim.Durability != journal.DurabilityQuorum {
		t.Errorf("claim of the open journal = %+v, want quorum", claim)
	}
	write()
	if _, err := ledger.Checkpoint(t.Context()); err != nil {
		t.Errorf("checkpoint after the change: %v", err)
	}
	if _, err := onCluster(t, nc, keys, journal.Options{Durability: journal.DurabilityQuorum}); err != nil {
		t.Errorf("open with quorum after the change: %v", err)
	}
	if seq < 2 {
		t.Errorf("%d records", seq)
	}
	for n, want := range map[int]error{2: message.ErrInvalid, -1: message.ErrInvalid} {
		if err := journal.SetReplicas(t.Context(), nc, "test", n, func(journal.Replicated) {}); !errors.Is(err, want) {
			t.Errorf("%d replicas: %v, want %v", n, err, want)
		}
	}
	if err := journal.SetReplicas(t.Context(), nc, "other", 3, func(journal.Replicated) {}); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("replicas of a space without a journal: %v", err)
	}
}

// An archiver that read the settings of the stream before the change, and writes them after it, does
// not undo the change.
func TestReplicasAreRaisedAgain(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	nc := c.Conn("engine")
	if _, err := onCluster(t, nc, newClusterKeys(t), journal.Options{Stream: journal.StreamOptions{Replicas: 1}}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	before, err := js.Stream(t.Context(), bus.StreamName("test"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	undone := make(chan error, 1)
	go func() {
		for {
			info, err := before.Info(ctx)
			if err == nil && info.Config.Replicas == 1 {
				continue
			}
			if err == nil {
				old := info.Config
				old.Replicas = 1
				_, err = js.UpdateStream(ctx, old)
			}
			undone <- err
			return
		}
	}()
	if err := journal.SetReplicas(ctx, nc, "test", 3, func(journal.Replicated) {}); err != nil {
		t.Errorf("raise: %v", err)
	}
	if err := <-undone; err != nil {
		t.Errorf("undo: %v", err)
	}
}

// A stream that cannot be examined fails the command at once.
func TestReplicasOfADeletedStream(t *testing.T) {
	b := bustest.New(t)
	b.Journal("test")
	js, err := jetstream.New(b.Conn("engine"))
	if err != nil {
		t.Fatal(err)
	}
	err = journal.SetReplicas(t.Context(), js.Conn(), "test", 1, func(r journal.Replicated) {
		if err := js.DeleteStream(t.Context(), r.Stream); err != nil {
			t.Error(err)
		}
	})
	if api, ok := errors.AsType[*jetstream.APIError](err); !ok || api.ErrorCode != jetstream.JSErrCodeStreamNotFound {
		t.Errorf("%v, want the answer of the server", err)
	}
}

// The other streams of a space get as many replicas as its journal: a new bucket after the journal
// was raised, and a bucket made earlier by an engine with fewer.
func TestBucketsFollowTheJournal(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	nc := c.Conn("engine")
	j, err := onCluster(t, nc, newClusterKeys(t), journal.Options{Stream: journal.StreamOptions{Replicas: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.SetReplicas(t.Context(), nc, "test", 3, func(journal.Replicated) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.OpenOutbox(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.OpenPolicyBucket(t.Context(), nc, "test", journal.PolicyBucketOptions{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	if raised, err := journal.LevelReplicas(t.Context(), nc, "test"); err != nil || !slices.Equal(raised, []string{"KV_" + journal.PolicyBucketName("test")}) {
		t.Errorf("raised %v, %v, want only the policy", raised, err)
	}
	all, err := journal.Replication(t.Context(), nc, "test")
	if err != nil || len(all) != 3 {
		t.Fatalf("replication = %v, %v, want three streams", all, err)
	}
	for _, r := range all {
		if r.Replicas != 3 {
			t.Errorf("%+v, want three replicas", r)
		}
	}
}

// A cluster whose servers do not know each other yet may have room a moment later; a single server
// never has.
func TestTooFewServers(t *testing.T) {
	if err := journal.ReplicasError(10005); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("no suitable peers: %v", err)
	}
	if err := journal.ReplicasError(10074); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("not clustered: %v", err)
	}
}

// A journal never gets fewer replicas because a server was down when it was created. Without a
// quorum it stops being ready within seconds, says why, and is ready again when the servers are back.
func TestReadinessFollowsTheQuorum(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	nc, keys := c.Conn("engine"), newClusterKeys(t)
	c.Stop(2)
	var j *journal.Journal
	open := func() (err error) { // once they have a leader
		j, err = onCluster(t, nc, keys, journal.Options{})
		return err
	}
	bustest.WaitUntil(t, "two servers take a journal, or refuse one of three replicas", func() error {
		if err := open(); err != nil && !strings.Contains(err.Error(), "cannot have 3 replicas") {
			return err
		}
		return nil
	})
	c.Start(2)
	if j == nil {
		bustest.WaitUntil(t, "three servers take a journal", open)
	}
	bustest.WaitUntil(t, "the journal is ready", func() error { return j.Ready(t.Context()) })
	all, err := journal.Replication(t.Context(), nc, "test")
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Replicas != 3 {
		t.Errorf("with one of three servers away the journal got %d replicas, want 3", all[0].Replicas)
	}
	leader := c.Index(all[0].Leader)
	for i := range 3 {
		if i != leader {
			c.Stop(i)
		}
	}
	began := time.Now()
	bustest.WaitUntil(t, "the leader without the others is not ready", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := j.Ready(ctx); errors.Is(err, message.ErrUnavailable) {
			return nil
		} else {
			return errors.Join(errors.New("it is ready"), err)
		}
	})
	t.Logf("not ready after %s", time.Since(began))
	for i := range 3 {
		if i != leader {
			c.Start(i)
		}
	}
	bustest.WaitUntil(t, "the journal is ready again", func() error { return j.Ready(t.Context()) })
	if _, err := j.Append(t.Context(), newRecord(0), 0); err != nil {
		t.Errorf("append afterwards: %v", err)
	}
}

// newRecord begins the nth call of a session.
func newRecord(n int) *toolcall.EventRecord {
	id := strconv.Itoa(n)
	return bustest.CallRecord("rec_"+id, toolcall.Key{Space: "test", Session: "s", Reply: "r", Call: message.CallID("c" + id)}, message.ToolCallPending, string(toolcall.CausePropose))
}

// lossy loses the first request that changes a stream.
type lossy struct {
	net.Conn
	lost *atomic.Bool
}

func (l lossy) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("STREAM.UPDATE")) && l.lost.CompareAndSwap(false, true) {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// Dial implements nats.CustomDialer.
func (l lossy) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return lossy{conn, l.lost}, err
}

// A change whose request is lost, because the server that leads the cluster dies, is sent again.
func TestLostChangeOfReplicas(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	if _, err := onCluster(t, c.Conn("engine"), newClusterKeys(t), journal.Options{Stream: journal.StreamOptions{Replicas: 1}}); err != nil {
		t.Fatal(err)
	}
	var lost atomic.Bool
	nc, err := bus.Connect(t.Context(), c.URL(), bus.ConnectOptions{Principal: "operator", Extra: []nats.Option{nats.SetCustomDialer(lossy{lost: &lost})}})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := journal.SetReplicas(ctx, nc, "test", 3, func(journal.Replicated) {}); err != nil || !lost.Load() {
		t.Errorf("%v; a request was lost: %t", err, lost.Load())
	}
}
