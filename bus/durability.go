package bus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Durability names what it means that a record was acknowledged.
type Durability string

// The durabilities, weakest first.
const (
	DurabilityCached  Durability = "cached"  // in the operating system's cache: survives the process, not a power loss
	DurabilityFsynced Durability = "fsynced" // on the disk
	DurabilityQuorum  Durability = "quorum"  // with most of at least three servers
)

// quorumReplicas is how many servers must hold a stream so that one may be lost.
const quorumReplicas = 3

// DurabilityClaim is what a journal says of its acknowledgements, and why.
type DurabilityClaim struct {
	Durability Durability
	// Why names the source of the claim, for people.
	Why string
	// Assumed: no server and no operator said more, so the least is claimed.
	Assumed bool
}

// claimSource is what a journal's claim is computed from.
type claimSource struct {
	stated Durability
	syncs  map[string]bool // of the servers that answered: whether they sync before they acknowledge
	server string          // that the journal opened on; holds a stream without a cluster
}

// claim computes what an acknowledgement of the stream means. An error says that
// the stream contradicts what was stated.
func (s claimSource) claim(info *jetstream.StreamInfo) (DurabilityClaim, error) {
	holders := s.holders(info)
	replicas := min(info.Config.Replicas, len(holders))
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, Op: "open journal", What: what, Hint: hint}
	}
	var unasked, late []string
	for _, name := range holders {
		switch always, answered := s.syncs[name]; {
		case !answered:
			unasked = append(unasked, name)
		case !always:
			late = append(late, name)
		}
	}
	c := DurabilityClaim{Durability: DurabilityCached, Why: "NATS does not tell clients when it syncs, and nothing is stated", Assumed: true}
	switch {
	case replicas >= quorumReplicas:
		return DurabilityClaim{Durability: DurabilityQuorum, Why: fmt.Sprintf("%d servers hold the stream", replicas)}, nil
	case s.stated == DurabilityQuorum:
		return c, refuse(fmt.Sprintf("the durability quorum is stated, but stream %s has %d of the %d replicas that it needs", info.Config.Name, replicas, quorumReplicas),
			fmt.Sprintf("raise its replicas with: nats stream edit %s --replicas %d; or state fsynced or cached", info.Config.Name, quorumReplicas))
	case len(late) > 0 && s.stated == DurabilityFsynced:
		return c, refuse("the durability fsynced is stated, but the server "+strings.Join(late, ", ")+" acknowledges before it syncs", "set sync_interval: always there, or state cached")
	case len(late) > 0:
		return DurabilityClaim{Durability: DurabilityCached, Why: "the server " + strings.Join(late, ", ") + " acknowledges before it syncs"}, nil
	case len(unasked) == 0:
		return DurabilityClaim{Durability: DurabilityFsynced, Why: "the server " + strings.Join(holders, ", ") + " syncs before it acknowledges"}, nil
	case s.stated != "":
		return DurabilityClaim{Durability: s.stated, Why: "as stated"}, nil
	}
	return c, nil
}

// holders are the servers that hold the stream.
func (s claimSource) holders(info *jetstream.StreamInfo) []string {
	c := info.Cluster
	if c == nil || c.Leader == "" && len(c.Replicas) == 0 {
		return []string{s.server}
	}
	var out []string
	if c.Leader != "" {
		out = append(out, c.Leader)
	}
	for _, p := range c.Replicas {
		out = append(out, p.Name)
	}
	return out
}

// askTheSystem is how long one server has to answer in the system account.
const askTheSystem = 2 * time.Second

// SyncsBeforeAck asks the named server whether it syncs each record to the disk
// before the acknowledgement. nc is a connection to the system account.
func SyncsBeforeAck(ctx context.Context, nc *nats.Conn, server string) (bool, error) {
	const op = "ask when NATS syncs"
	body, err := strictjson.Marshal(map[string]any{"server_name": server, "exact_match": true})
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTheSystem)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, "$SYS.REQ.SERVER.PING.JSZ", body)
	if err != nil {
		return false, &message.Error{Code: message.CodeUnavailable, Op: op, What: "the server " + errtext.Quote(server) + " does not answer in the system account", Hint: "check that the login is one of the system account, and that the server runs", Err: err}
	}
	var reply struct {
		Server struct {
			Name string `json:"name"`
		} `json:"server"`
		Data struct {
			Config struct {
				SyncAlways bool   `json:"sync_always"`
				StoreDir   string `json:"store_dir"`
			} `json:"config"`
		} `json:"data"`
	}
	if err := strictjson.UnmarshalOpen(m.Data, &reply); err != nil || reply.Server.Name != server || reply.Data.Config.StoreDir == "" {
		return false, &message.Error{Code: message.CodeUnavailable, Op: op, What: "the answer of the server " + errtext.Quote(server) + " does not say when it syncs", Hint: "check that JetStream is on there; or state the durability", Err: err}
	}
	return reply.Data.Config.SyncAlways, nil
}
