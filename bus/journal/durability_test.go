package journal_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// foreignServer starts a NATS server of another operator, and connects to it as an engine and to its
// system account.
func foreignServer(t *testing.T, name string, change func(*server.Options)) (engine, system *nats.Conn) {
	t.Helper()
	app, sys := server.NewAccount("APP"), server.NewAccount("SYS")
	o := &server.Options{
		ServerName: name, JetStream: true, StoreDir: t.TempDir(), DontListen: true, NoSigs: true, NoLog: true,
		Accounts: []*server.Account{app, sys}, SystemAccount: "SYS", NoAuthUser: "engine",
		Users: []*server.User{{Username: "engine", Account: app}, {Username: "admin", Password: "admin", Account: sys}},
	}
	change(o)
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	account, err := s.LookupAccount("APP")
	if err == nil {
		err = account.EnableJetStream(map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	dial := func(opts ...nats.Option) *nats.Conn {
		nc, err := nats.Connect("", append(opts, nats.InProcessServer(s))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	return dial(), dial(nats.UserInfo("admin", "admin"))
}

// A journal on another operator's server claims the durability that the server reports, otherwise
// the one that the operator states, otherwise the lowest.
func TestDurabilityOfAServerElsewhere(t *testing.T) {
	t.Parallel()
	const late, always = false, true
	for _, tc := range []struct {
		name   string
		syncs  bool
		stated journal.Durability
		ask    bool
		want   journal.Durability
		why    string // the reason for the claim or the refusal
	}{
		{"not stated, not asked", late, "", false, journal.DurabilityCached, "no durability is stated"},
		{"a server that syncs, not asked", always, "", false, journal.DurabilityCached, "no durability is stated"},
		{"stated", always, journal.DurabilityFsynced, false, journal.DurabilityFsynced, "as stated"},
		{"stated cached", always, journal.DurabilityCached, false, journal.DurabilityCached, "as stated"},
		{"asked: it syncs", always, "", true, journal.DurabilityFsynced, "server elsewhere syncs before"},
		{"asked: it syncs every two minutes", late, "", true, journal.DurabilityCached, "server elsewhere acknowledges before"},
		{"stated less than it gives", always, journal.DurabilityCached, true, journal.DurabilityFsynced, "syncs before"},
		{"stated more than it gives", late, journal.DurabilityFsynced, true, "", "acknowledges before it syncs"},
		{"quorum of one server", always, journal.DurabilityQuorum, false, "", "cannot have 3 replicas"},
		{"unknown", always, "hopeful", false, "", "hopeful"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			engine, system := foreignServer(t, "elsewhere", func(o *server.Options) {
				if o.SyncAlways = tc.syncs; !tc.syncs {
					o.SyncInterval = 2 * time.Minute
				}
			})
			keys, err := keyfile.New()
			if err != nil {
				t.Fatal(err)
			}
			o := journal.Options{Durability: tc.stated}
			if tc.ask {
				o.Syncs = func(ctx context.Context, name string) (bool, error) { return journal.SyncsBeforeAck(ctx, system, name) }
			}
			j, err := journal.Open(t.Context(), engine, "test", keys, o)
			if tc.want == "" {
				if e := message.AsError("", err); !errors.Is(err, message.ErrInvalid) || e.Hint == "" || !strings.Contains(err.Error(), tc.why) {
					t.Errorf("open = %v, want it refused as invalid with %q and a hint", err, tc.why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c := j.Claim()
			if c.Durability != tc.want || !strings.Contains(c.Why, tc.why) || c.Assumed != (tc.stated == "" && !tc.ask) || j.Durability() != string(tc.want) {
				t.Errorf("claim = %+v, want %s because %q", c, tc.want, tc.why)
			}
		})
	}
}

// A login outside the system account learns nothing, so the journal claims the lowest durability and
// gives the reason.
func TestDurabilityWithoutTheSystemAccount(t *testing.T) {
	engine, _ := foreignServer(t, "elsewhere", func(o *server.Options) { o.SyncAlways = true })
	keys, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), engine, "test", keys, journal.Options{Syncs: func(ctx context.Context, name string) (bool, error) { return journal.SyncsBeforeAck(ctx, engine, name) }})
	if err != nil {
		t.Fatal(err)
	}
	if c := j.Claim(); c.Durability != journal.DurabilityCached || !c.Assumed || !strings.Contains(c.Why, "does not answer in the system account") {
		t.Errorf("claim = %+v, want cached because nothing is known", c)
	}
}

// A statement by the operator does not make an existing stream one with three servers.
func TestStatedQuorumIsComparedWithTheStream(t *testing.T) {
	b := bustest.New(t)
	b.Journal("test")
	_, err := journal.Open(t.Context(), b.Conn("engine"), "test", b.Keys(), journal.Options{Durability: journal.DurabilityQuorum})
	if e := message.AsError("", err); !errors.Is(err, message.ErrInvalid) || !strings.Contains(e.What, "1 of the 3 replicas") || e.Hint == "" {
		t.Errorf("open = %v, want it refused", err)
	}
}

// A stream is a quorum exactly if three servers hold it, regardless of what the operator states.
func TestQuorumIsTheStreams(t *testing.T) {
	held := func(replicas int, followers ...string) *jetstream.StreamInfo {
		info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "ASKANCE_test", Replicas: replicas}, Cluster: &jetstream.ClusterInfo{Name: "c", Leader: "n1"}}
		for _, name := range followers {
			info.Cluster.Replicas = append(info.Cluster.Replicas, &jetstream.PeerInfo{Name: name})
		}
		return info
	}
	for _, tc := range []struct {
		name   string
		info   *jetstream.StreamInfo
		stated journal.Durability
		syncs  map[string]bool
		want   journal.Durability
		wrong  bool
	}{
		{"three servers", held(3, "n2", "n3"), "", nil, journal.DurabilityQuorum, false},
		{"three servers, stated cached", held(3, "n2", "n3"), journal.DurabilityCached, nil, journal.DurabilityQuorum, false},
		{"five servers", held(5, "n2", "n3", "n4", "n5"), journal.DurabilityQuorum, nil, journal.DurabilityQuorum, false},
		{"three replicas, only two servers hold one", held(3, "n2"), journal.DurabilityQuorum, nil, journal.DurabilityCached, true},
		{"two servers", held(2, "n2"), journal.DurabilityQuorum, nil, journal.DurabilityCached, true},
		{"two servers that both sync", held(2, "n2"), "", map[string]bool{"n1": true, "n2": true}, journal.DurabilityFsynced, false},
		{"two servers, only one was asked", held(2, "n2"), "", map[string]bool{"n1": true}, journal.DurabilityCached, false},
		{"two servers, one does not sync", held(2, "n2"), "", map[string]bool{"n1": true, "n2": false}, journal.DurabilityCached, false},
		{"moved to a server that was not asked", held(1), "", map[string]bool{"n2": true}, journal.DurabilityCached, false},
	} {
		if got, err := journal.ClaimOf(tc.info, tc.stated, tc.syncs); got != tc.want || (err != nil) != tc.wrong {
			t.Errorf("%s: %s, %v; want %s", tc.name, got, err, tc.want)
		}
	}
}
