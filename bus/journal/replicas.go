package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// CheckReplicas returns why n cannot be the number of replicas. 0 is the default: three
// on a cluster, else one.
func CheckReplicas(n int) error {
	if n == 0 || n == 1 || n == 3 || n == 5 {
		return nil
	}
	return &message.Error{Code: message.CodeInvalid, Op: "set replicas", What: fmt.Sprintf("%d is not a useful number of replicas", n), Hint: "use 1, 3 or 5"}
}

// createReplicated calls create with the wanted number of replicas. If want is 0, it tries
// three, and one on a server without a cluster. Too few running servers in a cluster are an
// error, because a single replica would stay single after the others are back.
func createReplicated(want int, create func(replicas int) error) error {
	if want > 0 {
		return create(want)
	}
	err := create(quorumReplicas)
	if isNotClustered(err) {
		return create(1)
	}
	return err
}

func isNotClustered(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == jsapi.CodeNotClustered || api.ErrorCode == jsapi.CodeRestoreFailed && strings.Contains(api.Description, strconv.Itoa(jsapi.CodeNotClustered)))
}

// checkStated refuses an existing journal with fewer replicas than stated.
func checkStated(want int, info *jetstream.StreamInfo, stated Durability) error {
	if have := max(1, info.Config.Replicas); want > have && stated != DurabilityQuorum { // the claim refuses quorum
		return &message.Error{Code: message.CodeInvalid, Op: "open journal", What: fmt.Sprintf("%d replicas are stated, but stream %s has %d", want, info.Config.Name, have), Hint: raiseHint(want)}
	}
	return nil
}

func raiseHint(n int) string { return fmt.Sprintf("run askance journal replicas %d", n) }

// Replicated is one stream of a space, and the servers that hold it.
type Replicated struct {
	Stream   string `json:"stream"`
	Replicas int    `json:"replicas"` // as configured
	// Leader is the server that answers for the stream; "" if there is none.
	Leader string `json:"leader,omitzero"`
	// Current lists all servers that have every message, including the leader.
	Current []string `json:"current"`
}

// Complete reports whether all replicas have every message.
func (r Replicated) Complete() bool { return len(r.Current) >= r.Replicas }

// spaceStreams returns the names of all streams that a space can have, the journal first.
// Those of buckets and checkpoints may be missing.
func spaceStreams(space toolcall.SpaceID) []string {
	return []string{bus.StreamName(space), LedgerName(space), "KV_" + PolicyBucketName(space), "KV_" + DirectoryBucketName(space), "KV_" + OutboxBucketName(space), archiveStream(space)}
}

// Replication lists the streams of a space.
func Replication(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID) ([]Replicated, error) {
	infos, err := spaceInfos(ctx, nc, space)
	if err != nil {
		return nil, err
	}
	out := make([]Replicated, len(infos))
	for i, info := range infos {
		out[i] = replicatedOf(info)
	}
	return out, nil
}

func spaceInfos(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID) ([]*jetstream.StreamInfo, error) {
	const op = "read replicas"
	if err := bus.CheckSpace(space); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, jsapi.Error(op, "JetStream of this connection", err)
	}
	var out []*jetstream.StreamInfo
	for _, name := range spaceStreams(space) {
		info, err := reader{nc: nc, js: js, stream: name}.streamInfo(ctx)
		switch {
		case err != nil:
			return nil, err
		case info != nil:
			out = append(out, info)
		}
	}
	if len(out) == 0 || out[0].Config.Name != bus.StreamName(space) || out[0].Config.Metadata[metaKind] != kindJournal {
		return nil, &message.Error{Code: message.CodeNotFound, Op: op, What: "this server has no journal of the space " + string(space), Hint: "check the space and the server"}
	}
	return out, nil
}

func replicatedOf(info *jetstream.StreamInfo) Replicated {
	r := Replicated{Stream: info.Config.Name, Replicas: max(1, info.Config.Replicas), Current: []string{}}
	if info.Cluster == nil || info.Cluster.Name == "" { // a server without a cluster, which answered
		r.Leader = "the server"
		r.Current = append(r.Current, r.Leader)
		return r
	}
	if r.Leader = info.Cluster.Leader; r.Leader != "" {
		r.Current = append(r.Current, r.Leader)
	}
	for _, p := range info.Cluster.Replicas {
		if p.Current && !p.Offline {
			r.Current = append(r.Current, p.Name)
		}
	}
	return r
}

// SetReplicas changes the replicas of every stream of a space. It returns when all
// servers have every message, or when ctx ends. Engines can run meanwhile. It calls report
// for each stream before and after its change.
func SetReplicas(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, n int, report func(Replicated)) error {
	if err := CheckReplicas(n); err != nil {
		return err
	}
	infos, err := spaceInfos(ctx, nc, space)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return jsapi.Error("set replicas", "JetStream of this connection", err)
	}
	slices.Reverse(infos) // the journal last: it then never claims more than the others have
	for _, info := range infos {
		report(replicatedOf(info))
		if err := setReplicas(ctx, reader{nc: nc, js: js, stream: info.Config.Name}, info.Config, n, report); err != nil {
			return err
		}
	}
	return nil
}

// LevelReplicas gives each stream of a space at least as many replicas as its journal has,
// and returns the names of the streams that had fewer. It does not wait for the new replicas.
func LevelReplicas(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID) ([]string, error) {
	infos, err := spaceInfos(ctx, nc, space)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, jsapi.Error("raise replicas", "JetStream of this connection", err)
	}
	var raised []string
	for _, info := range infos[1:] {
		c := info.Config
		if want := max(1, infos[0].Config.Replicas); max(1, c.Replicas) < want {
			c.Replicas = want
			if _, err := js.UpdateStream(ctx, c); err != nil {
				return raised, streamError(ctx, js, "raise replicas", c, err)
			}
			raised = append(raised, c.Name)
		}
	}
	return raised, nil
}

const (
	replicasLook  = 200 * time.Millisecond // how often a stream that gets replicas is checked
	updateTimeout = 5 * time.Second        // of one change: its request is lost with the server that leads the cluster
)

func setReplicas(ctx context.Context, rd reader, c jetstream.StreamConfig, n int, report func(Replicated)) error {
	const op = "set replicas"
	for {
		info, err := rd.leaderInfo(ctx)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return err
		case err != nil: // a stream that moves can have no leader
		case info.Config.Replicas != n: // also if an archiver has undone it, with a change of the metadata
			c = info.Config
			c.Replicas = n
			within, cancel := context.WithTimeout(ctx, updateTimeout)
			_, err = rd.js.UpdateStream(within, c)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return streamError(ctx, rd.js, op, c, err)
			}
		default:
			if r := replicatedOf(info); r.Replicas == n && r.Complete() {
				report(r)
				return nil
			}
		}
		if sleep.For(ctx, replicasLook) != nil {
			return &message.Error{Code: message.CodeUnavailable, Op: op, What: "stream " + c.Name + " does not have " + strconv.Itoa(n) + " complete replicas yet", Hint: "check that all servers run, then run the command again: it continues", Err: err}
		}
	}
}
