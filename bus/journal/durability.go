package journal

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Durability is what the acknowledgement of a record means.
type Durability string

// The durabilities, weakest first.
const (
	DurabilityCached  Durability = "cached"  // in the operating system's cache: survives the process, not a power loss
	DurabilityFsynced Durability = "fsynced" // on disk
	DurabilityQuorum  Durability = "quorum"  // on a majority of at least three servers
)

// quorumReplicas is how many servers must hold a stream so that one may be lost.
const quorumReplicas = 3

// DurabilityClaim is what a journal's acknowledgements mean, and why.
type DurabilityClaim struct {
	Durability Durability
	// Why names the source of the claim, for people to read.
	Why string
	// Assumed means that neither server nor operator stated anything, so the weakest
	// durability is claimed.
	Assumed bool
}

type claims struct {
	stated Durability
	syncs  map[string]bool // whether each server that answered syncs before it acknowledges
	server string          // the server on which the journal was opened; without a cluster it holds the stream
	now    atomic.Pointer[DurabilityClaim]
}

// computeFirst computes the first claim after asking the servers that hold the stream.
func (c *claims) computeFirst(ctx context.Context, info *jetstream.StreamInfo, ask func(context.Context, string) (bool, error)) error {
	switch c.stated {
	case "", DurabilityCached, DurabilityFsynced, DurabilityQuorum:
	default:
		return &message.Error{Code: message.CodeInvalid, Op: "open journal", What: "unknown durability " + errtext.Quote(string(c.stated)), Hint: "state cached, fsynced or quorum"}
	}
	var unasked error
	c.syncs = map[string]bool{}
	for _, server := range c.holdersOf(info) {
		if ask == nil {
			break
		}
		always, err := ask(ctx, server)
		if err != nil {
			unasked = err
			continue
		}
		c.syncs[server] = always
	}
	claim, err := c.computeClaim(info)
	if err != nil {
		return err
	}
	if claim.Assumed && unasked != nil {
		claim.Why = unasked.Error()
	}
	c.now.Store(&claim)
	return nil
}

// observeInfo computes the claim again from new stream info: a stream may have lost replicas.
func (c *claims) observeInfo(info *jetstream.StreamInfo) {
	claim, _ := c.computeClaim(info) // an error comes with the least claim
	c.now.Store(&claim)
}

// computeClaim returns what an acknowledgement of the stream means. It fails if the stream
// contradicts what the operator stated.
func (c *claims) computeClaim(info *jetstream.StreamInfo) (DurabilityClaim, error) {
	holders := c.holdersOf(info)
	replicas := min(info.Config.Replicas, len(holders))
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, Op: "open journal", What: what, Hint: hint}
	}
	var unasked, late []string
	for _, name := range holders {
		switch always, answered := c.syncs[name]; {
		case !answered:
			unasked = append(unasked, name)
		case !always:
			late = append(late, name)
		}
	}
	least := DurabilityClaim{Durability: DurabilityCached, Why: "NATS does not tell clients when it syncs, and no durability is stated", Assumed: true}
	switch {
	case replicas >= quorumReplicas:
		why := fmt.Sprintf("%d servers hold the stream", replicas)
		if len(unasked)+len(late) == 0 {
			why += ", and each syncs before it acknowledges"
		}
		return DurabilityClaim{Durability: DurabilityQuorum, Why: why}, nil
	case c.stated == DurabilityQuorum:
		return least, refuse(fmt.Sprintf("the durability quorum is stated, but stream %s has %d of the %d replicas that it needs", info.Config.Name, replicas, quorumReplicas),
			raiseHint(quorumReplicas)+"; or state fsynced or cached")
	case len(late) > 0 && c.stated == DurabilityFsynced:
		return least, refuse("the durability fsynced is stated, but the server "+strings.Join(late, ", ")+" acknowledges before it syncs", "set sync_interval: always there, or state cached")
	case len(late) > 0:
		return DurabilityClaim{Durability: DurabilityCached, Why: "the server " + strings.Join(late, ", ") + " acknowledges before it syncs"}, nil
	case len(unasked) == 0:
		return DurabilityClaim{Durability: DurabilityFsynced, Why: "the server " + strings.Join(holders, ", ") + " syncs before it acknowledges"}, nil
	case c.stated != "":
		return DurabilityClaim{Durability: c.stated, Why: "as stated"}, nil
	}
	return least, nil
}

func (c *claims) holdersOf(info *jetstream.StreamInfo) []string {
	cluster := info.Cluster
	if cluster == nil || cluster.Leader == "" && len(cluster.Replicas) == 0 {
		return []string{c.server}
	}
	var out []string
	if cluster.Leader != "" {
		out = append(out, cluster.Leader)
	}
	for _, p := range cluster.Replicas {
		out = append(out, p.Name)
	}
	return out
}

// askTheSystem limits the wait for a server in the system account.
const askTheSystem = 2 * time.Second

// SyncsBeforeAck asks the named server whether it syncs each record to the disk
// before it acknowledges. nc is a connection to the system account.
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
		return false, &message.Error{Code: message.CodeUnavailable, Op: op, What: "the server " + errtext.Quote(server) + " does not answer in the system account", Hint: "check that the login belongs to the system account, and that the server runs", Err: err}
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
		return false, &message.Error{Code: message.CodeUnavailable, Op: op, What: "the reply of the server " + errtext.Quote(server) + " does not say when it syncs", Hint: "enable JetStream on that server, or state the durability", Err: err}
	}
	return reply.Data.Config.SyncAlways, nil
}

// HealthError describes what is wrong with a server.
type HealthError struct {
	Problems []string
	// Broken are the streams whose files could not be written. They accept nothing
	// until the server restarts.
	Broken []string
	// Unsynced are the broken streams whose last message may be in the file: it was written
	// but not synced.
	Unsynced []string
}

func (e *HealthError) Error() string {
	if len(e.Problems) == 0 {
		return "the server is unhealthy"
	}
	return strings.Join(e.Problems, "; ")
}

// peerSilence is how long a server may be silent before it counts as lost for readiness.
// Raft servers exchange heartbeats every second.
const peerSilence = 4 * time.Second

// checkQuorum returns why nothing can be written to a stream now. An isolated leader keeps
// answering for ten seconds.
func checkQuorum(info *jetstream.StreamInfo) error {
	c := info.Cluster
	if c == nil || len(c.Replicas) == 0 {
		return nil
	}
	here := 0
	if c.Leader != "" {
		here++
	}
	for _, p := range c.Replicas {
		if !p.Offline && p.Active < peerSilence {
			here++
		}
	}
	all := len(c.Replicas) + 1
	switch {
	case c.Leader == "":
		return fmt.Errorf("no server leads the stream %s", info.Config.Name)
	case here <= all/2:
		return fmt.Errorf("only %d of the %d servers that hold the stream %s are in contact", here, all, info.Config.Name)
	}
	return nil
}
