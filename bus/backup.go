package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	backupChunk = 128 << 10
	// backupSilence is how long a server may pause within a copy.
	backupSilence = time.Minute
)

// A copy of a stream has the description and the content in two files of the same name.
const (
	descriptionSuffix = ".json"
	contentSuffix     = ".snapshot"
)

// copied describes a copied stream: what the server said of it, word for word.
type copied struct {
	Config message.RawJSON     `json:"config"`
	State  message.RawJSON     `json:"state"`
	Error  *jetstream.APIError `json:"error,omitzero"`
}

// BackUp copies every stream of a space into a folder, which must be empty or absent,
// and returns their names. Engines can run meanwhile: checkpoints are copied before the
// journal, so that the copy has every record that they sign.
func BackUp(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, folder string) ([]string, error) {
	const op = "back up"
	if found, err := os.ReadDir(folder); err == nil && len(found) > 0 {
		return nil, &message.Error{Code: message.CodeConflict, Op: op, What: "the folder " + folder + " is not empty", Hint: "name a new folder"}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the backup: %w", err)
	}
	infos, err := spaceInfos(ctx, nc, space)
	if err != nil {
		return nil, err
	}
	slices.Reverse(infos) // the journal last
	var names []string
	for _, info := range infos {
		name := info.Config.Name
		if err := backUpStream(ctx, nc, name, filepath.Join(folder, name)); err != nil {
			return nil, &message.Error{Code: message.CodeUnavailable, Op: op, What: "the copy of the stream " + name + " is not complete", Hint: "remove the folder, and try again", Err: err}
		}
		names = append(names, name)
	}
	return names, nil
}

func backUpStream(ctx context.Context, nc *nats.Conn, name, path string) (err error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a dead connection
	ask, err := strictjson.Marshal(map[string]any{"deliver_subject": inbox, "chunk_size": backupChunk, "jsck": true})
	if err != nil {
		return err
	}
	about, _, err := askStream(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+name, ask)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+contentSuffix, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(receiveChunks(ctx, nc, sub, f), f.Sync(), f.Close()); err != nil {
		return err
	}
	text, err := strictjson.Marshal(about)
	if err != nil {
		return err
	}
	return os.WriteFile(path+descriptionSuffix, text, 0o600) // its presence says that the content is whole
}

// receiveChunks writes what comes until the empty message that ends a copy.
func receiveChunks(ctx context.Context, nc *nats.Conn, sub *nats.Subscription, w io.Writer) error {
	for {
		one, cancel := context.WithTimeout(ctx, backupSilence)
		m, err := sub.NextMsgWithContext(one)
		cancel()
		if err != nil {
			return err
		}
		if len(m.Data) == 0 {
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return errors.New("the server gave up: " + status + " " + m.Header.Get("Description"))
			}
			return nil
		}
		if _, err := w.Write(m.Data); err != nil {
			return err
		}
		if m.Reply != "" {
			if err := nc.Publish(m.Reply, nil); err != nil {
				return err
			}
		}
	}
}

// askStream sends one request about a copy.
func askStream(ctx context.Context, nc *nats.Conn, subject string, ask []byte) (about copied, deliver string, err error) {
	ctx, cancel := context.WithTimeout(ctx, backupSilence)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, ask)
	if err != nil {
		return about, "", err
	}
	if len(m.Data) == 0 {
		return about, "", nil // a chunk was taken
	}
	var reply struct {
		copied
		Deliver string `json:"deliver_subject"`
	}
	if err := strictjson.UnmarshalOpen(m.Data, &reply); err != nil {
		return about, "", err
	}
	if reply.Error != nil {
		return about, "", reply.Error
	}
	return reply.copied, reply.Deliver, nil
}

// Restore makes the streams of a space from a folder that BackUp wrote, on servers that
// have none of them, and returns their names. They get three replicas on a cluster, else
// one. What came after the backup is not known, so that engines refuse the journal until
// an operator has accepted that loss.
func Restore(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, folder string) ([]string, error) {
	const op = "restore"
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	if err := checkNothingThere(ctx, nc, op, space); err != nil {
		return nil, err
	}
	var names []string
	for _, name := range slices.Backward(spaceStreams(space)) { // the journal last: without it nothing starts
		about, err := os.ReadFile(filepath.Join(folder, name+descriptionSuffix))
		if errors.Is(err, os.ErrNotExist) && name != StreamName(space) && name != LedgerName(space) {
			continue
		}
		if err != nil {
			return names, &message.Error{Code: message.CodeNotFound, Op: op, What: "the folder has no whole copy of the stream " + name, Hint: "check the folder and the space", Err: err}
		}
		meta := map[string]any{}
		if name == StreamName(space) {
			meta[metaRestored] = time.Now().UTC().Format(time.RFC3339Nano)
		}
		err = createReplicated(0, func(n int) error {
			return restoreStream(ctx, nc, name, filepath.Join(folder, name+contentSuffix), about, meta, n)
		})
		if err != nil {
			return names, &message.Error{Code: message.CodeUnavailable, Op: op, What: "the stream " + name + " was not restored", Hint: "restore onto servers that have no streams of this space", Err: err}
		}
		names = append(names, name)
	}
	return names, nil
}

// checkNothingThere refuses servers that have any stream of a space, before one is made.
func checkNothingThere(ctx context.Context, nc *nats.Conn, op string, space toolcall.SpaceID) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for _, name := range spaceStreams(space) {
		switch _, err := js.Stream(ctx, name); {
		case err == nil:
			return &message.Error{Code: message.CodeConflict, Op: op, What: "the servers have the stream " + name, Hint: "restore onto servers that have no streams of this space"}
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return apiError(op, "stream "+name, err)
		}
	}
	return nil
}

func restoreStream(ctx context.Context, nc *nats.Conn, name, path string, about []byte, meta map[string]any, replicas int) error {
	var whole struct {
		Config map[string]any  `json:"config"`
		State  message.RawJSON `json:"state"`
	}
	if err := strictjson.UnmarshalOpen(about, &whole); err != nil {
		return err
	}
	whole.Config["num_replicas"] = replicas
	if old, ok := whole.Config["metadata"].(map[string]any); ok {
		maps.Copy(old, meta)
	} else {
		whole.Config["metadata"] = meta
	}
	ask, err := strictjson.Marshal(whole)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	_, deliver, err := askStream(ctx, nc, "$JS.API.STREAM.RESTORE."+name, ask)
	if err != nil {
		return err
	}
	chunk := make([]byte, backupChunk)
	for {
		n, err := io.ReadFull(f, chunk)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return err
		}
		if _, _, err := askStream(ctx, nc, deliver, chunk[:n]); err != nil { // the empty one ends it
			return err
		}
		if n == 0 {
			return nil
		}
	}
}
