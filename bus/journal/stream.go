package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

// StreamOptions configure a new stream. An existing stream keeps its replicas and
// size.
type StreamOptions struct {
	// Replicas on a cluster: 1, 3 or 5; 0 means 3 on a cluster, else 1. With 3 or more,
	// an acknowledgement means quorum. An existing journal with fewer is refused.
	Replicas int
	// MaxBytes limits the size of the stream; 0 leaves that to the server. A full stream
	// refuses writes; nothing is evicted.
	MaxBytes int64
}

// The metadata that identifies a stream as one of askance.
const (
	metaKind      = "askance.stream"
	metaRestored  = "askance.restored"  // when a journal was restored from a backup; until an operator has accepted the loss
	metaArchiving = "askance.archiving" // see warning
	metaProtocol  = "askance.protocol"
	metaRecords   = "askance.records" // the version of its event records
	metaSpace     = "askance.space"
	metaKey       = "askance.key"

	kindJournal = "journal"

	// duplicateWindow is how long the server remembers message ids. It makes repeated
	// events harmless; event records have compare-and-swap.
	duplicateWindow = 2 * time.Minute
)

func streamConfig(space toolcall.SpaceID, keyID string, o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        bus.StreamName(space),
		Description: "askance journal of the space " + string(space),
		Subjects:    []string{bus.RecordsFilter(space), bus.EventsFilter(space)},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		// No compression: after a crash that takes the newest block, NATS 2.15 appends plain
		// records to the compressed one before it, and loses the stream at the next start.
		Replicas: o.Replicas, // 0 is decided by createReplicated
		MaxMsgs:  -1, MaxConsumers: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		MaxBytes:           cmp.Or(max(0, o.MaxBytes), -1),
		Duplicates:         duplicateWindow,
		AllowDirect:        true,
		AllowAtomicPublish: true,
		Metadata: map[string]string{
			metaKind: kindJournal, metaProtocol: strconv.Itoa(bus.ProtocolVersion),
			metaRecords: strconv.Itoa(toolcall.StoredVersion), metaSpace: string(space), metaKey: keyID,
		},
	}
}

func createOrCheck(ctx context.Context, js jetstream.JetStream, op string, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	st, err := reader{js: js, stream: want.Name}.lookUpStream(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = createReplicated(want.Replicas, func(n int) (err error) {
			want.Replicas = n
			st, err = createStream(ctx, js, want)
			return err
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another engine was first
			st, err = js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return nil, streamError(ctx, js, op, want, err)
	}
	info := st.CachedInfo()
	if err := checkStream(op, info.Config, want); err != nil {
		return nil, err
	}
	if version := want.Metadata[metaRecords]; info.Config.Metadata[metaRecords] != version { // engines that cannot read it must not start
		config := info.Config
		config.Metadata = maps.Clone(config.Metadata)
		config.Metadata[metaRecords] = version
		if st, err = js.UpdateStream(ctx, config); err != nil {
			return nil, streamError(ctx, js, op, want, err)
		}
		info = st.CachedInfo()
	}
	return info, nil
}

// createStream sends the request again if it gets no answer: servers that elect a leader lose it.
func createStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, jsapi.GiveUpAfter)
	defer cancel()
	for {
		one, end := context.WithTimeout(ctx, jsapi.GiveUpAfter/2)
		st, err := js.CreateStream(one, want)
		end()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return st, err
		}
	}
}

// checkStream refuses a stream that an engine with these keys did not create for
// this space, or whose guarantees were weakened.
func checkStream(op string, have, want jetstream.StreamConfig) error {
	foreign := func(what, hint string) error {
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "stream " + have.Name + ": " + what, Hint: hint}
	}
	switch meta := have.Metadata; {
	case meta[metaKind] != want.Metadata[metaKind] || meta[metaSpace] != want.Metadata[metaSpace]:
		return foreign("was not created by askance for this space", "choose another space, or rename the stream")
	case meta[metaProtocol] != want.Metadata[metaProtocol]:
		return foreign("has protocol "+errtext.Quote(meta[metaProtocol])+", this engine speaks "+want.Metadata[metaProtocol], "use an engine of the stream's version")
	case meta[metaRecords] != want.Metadata[metaRecords] && !isOlderRead(meta[metaRecords], want.Metadata[metaRecords]):
		return foreign("has event records of version "+errtext.Quote(cmp.Or(meta[metaRecords], "1"))+", this engine reads version "+want.Metadata[metaRecords],
			"start the release that wrote them, or choose another space: this release does not convert them")
	case meta[metaKey] != want.Metadata[metaKey]:
		return foreign("belongs to the engine keys "+errtext.Quote(meta[metaKey])+", these are "+want.Metadata[metaKey], "use the key file with which the stream was created: put it back, or name it with --keys")
	}
	if diffs := listWeaknesses(have, want); len(diffs) > 0 {
		return foreign(strings.Join(diffs, "; "), "set it back with: nats stream edit "+have.Name)
	}
	return nil
}

// isOlderRead reports whether this engine continues a journal that an engine before
// the compact form created.
func isOlderRead(have, want string) bool {
	return want == strconv.Itoa(toolcall.StoredVersion) && have == strconv.Itoa(toolcall.RecordVersion)
}

// listWeaknesses lists the guarantees that the stream lacks.
func listWeaknesses(have, want jetstream.StreamConfig) []string {
	var out []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	isMissing := func(s string) bool { return !slices.Contains(have.Subjects, s) }
	check(len(have.Subjects) == len(want.Subjects) && !slices.ContainsFunc(want.Subjects, isMissing), "its subjects are %q, they must be %q", have.Subjects, want.Subjects)
	check(have.Retention == want.Retention, "its retention is %s, it must be %s", have.Retention, want.Retention)
	check(have.Storage == want.Storage, "its storage is %s, it must be %s", have.Storage, want.Storage)
	check(have.Discard == want.Discard, "it discards old records when full, it must refuse new ones")
	check(have.MaxAge == 0, "it drops records after %s (max_age), it must keep them", have.MaxAge)
	check(have.MaxMsgs <= 0 && have.MaxMsgsPerSubject <= 0, "it bounds the number of records (max_msgs), it must not")
	check(!have.NoAck, "it does not acknowledge (no_ack)")
	check(!have.Sealed, "it is sealed")
	check(have.Mirror == nil && len(have.Sources) == 0, "it copies from other streams")
	check(have.Compression == want.Compression, "it is compressed, and NATS 2.15 can lose a compressed stream in a crash (compression)")
	check(have.SubjectTransform == nil, "it rewrites subjects")
	check(!have.AllowRollup, "it lets a message replace others (allow_rollup_hdrs)")
	check(!have.AllowMsgTTL, "it lets messages expire (allow_msg_ttl)")
	check(!have.AllowMsgSchedules, "it publishes on schedule (allow_msg_schedules)")
	check(!have.AllowMsgCounter, "it is a counter (allow_msg_counter)")
	check(have.PersistMode != jetstream.AsyncPersistMode, "it acknowledges before it writes (persist_mode async)")
	check(have.AllowDirect, "it does not answer direct gets (allow_direct)")
	check(have.Duplicates >= want.Duplicates, "it forgets message ids after %s, it must know them for %s", have.Duplicates, want.Duplicates)
	return out
}

func streamError(ctx context.Context, js jetstream.JetStream, op string, want jetstream.StreamConfig, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == jsapi.CodeSubjectOverlap {
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "cannot create stream " + want.Name + ": " + findOverlap(ctx, js, want.Subjects) + " already stores the subjects " + fmt.Sprint(want.Subjects),
			Hint: "remove those subjects from the other stream, or choose another space", Err: err}
	}
	if api != nil && (api.ErrorCode == jsapi.CodeNotClustered || api.ErrorCode == jsapi.CodeNoPeers) {
		code := message.CodeInvalid
		if api.ErrorCode == jsapi.CodeNoPeers { // also of a cluster that has just started, before its servers have heard of each other
			code = message.CodeUnavailable
		}
		return &message.Error{Code: code, Op: op, What: fmt.Sprintf("stream %s cannot have %d replicas on these servers", want.Name, want.Replicas),
			Hint: "start the other servers of a cluster with JetStream; or use fewer with --replicas 1, and state the durability fsynced or cached", Err: err}
	}
	return jsapi.Error(op, "stream "+want.Name, err)
}

func findOverlap(ctx context.Context, js jetstream.JetStream, subjects []string) string {
	for _, s := range subjects {
		if name, err := js.StreamNameBySubject(ctx, s); err == nil {
			return "stream " + name
		}
	}
	return "another stream"
}

// setMetadata replaces a value in the metadata of the stream; text "" removes it. If was is not
// "", only that value is replaced.
func (j *Journal) setMetadata(ctx context.Context, key, was, text string) error {
	info, err := j.store.leaderInfo(ctx)
	if err != nil {
		return err
	}
	config := info.Config
	if now := config.Metadata[key]; now == text || was != "" && now != was {
		return nil
	}
	config.Metadata = maps.Clone(config.Metadata)
	delete(config.Metadata, key)
	if text != "" {
		config.Metadata[key] = text
	}
	if _, err := j.store.js.UpdateStream(ctx, config); err != nil {
		return jsapi.Error("set metadata", "stream "+j.store.stream, err)
	}
	return nil
}
