package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	backupChunk = 128 << 10
	// backupSilence is how long a server may pause while it sends a copy.
	backupSilence = time.Minute
)

// A copy of a stream consists of two files with the same base name.
const (
	descriptionSuffix = ".json"
	contentSuffix     = ".snapshot"
)

// contentsList lists the content of a backup. It is written last, so a backup that has it is complete.
const contentsList = "backup.json"

// BackupContents reads which streams a backup has. It fails if the backup is not complete.
func BackupContents(folder string) (Copied, error) {
	var c Copied
	text, _, err := plainfile.Read(filepath.Join(folder, contentsList), secretfile.MaxBytes)
	if err == nil {
		err = strictjson.UnmarshalOpen(text, &c)
	}
	if err != nil {
		return c, &message.Error{Code: message.CodeNotFound, Op: "restore", What: "the folder " + folder + " has no complete backup: it has no usable " + contentsList + ", which askance journal backup writes at the end", Hint: "check the folder, or use another backup", Err: err}
	}
	return c, nil
}

// copied describes a copied stream in the server's own words.
type copied struct {
	Config message.RawJSON     `json:"config"`
	State  message.RawJSON     `json:"state"`
	Error  *jetstream.APIError `json:"error,omitzero"`
	// SHA256 of the content; "" in a copy that an older release made.
	SHA256 string `json:"sha256,omitzero"`
}

// extent is the part of a stream's state that counts its messages.
type extent struct {
	Messages uint64 `json:"messages"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
}

// Copied lists the content of a backup.
type Copied struct {
	Streams  []string `json:"streams"`
	Archives []string `json:"archives,omitzero"`
	// Missing are files of archives that are stored elsewhere: the copy can prove their
	// records but does not contain them.
	Missing []string `json:"missing,omitzero"`
}

// BackUp copies every stream of a space, and the archives that its checkpoints announce,
// into a folder, which must be empty or absent. Engines can run meanwhile: checkpoints are
// copied before the journal, so that the copy has every record that they sign, and buckets
// after it, so that the copy has the dead letter of every delivery that the journal counts
// as settled. keys are the keys that signed the checkpoints.
func BackUp(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, keys *keyfile.Keys, folder string, archives ArchiveStore) (Copied, error) {
	const op = "back up"
	var out Copied
	if found, err := os.ReadDir(folder); err == nil && len(found) > 0 {
		return out, folderTakenError(folder)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return out, fmt.Errorf("make the folder of the backup: %w", err)
	}
	infos, err := spaceInfos(ctx, nc, space)
	if err != nil {
		return out, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return out, err
	}
	announced, err := announcedArchives(ctx, nc, js, space, keys)
	if err == nil {
		err = backUpArchives(ctx, announced, archives, folder, &out)
	}
	if err == nil {
		out.Streams, err = backUpStreams(ctx, nc, js, space, infos, folder)
	}
	if err != nil {
		return out, err
	}
	now, err := announcedArchives(ctx, nc, js, space, keys)
	if err != nil {
		return out, err
	}
	if len(now) != len(announced) {
		return out, &message.Error{Code: message.CodeConflict, Op: op, What: "an archive was made meanwhile: the backup lacks its files", Hint: "remove the folder and try again"}
	}
	text, err := strictjson.Marshal(out)
	if err == nil {
		err = secretfile.Replace(filepath.Join(folder, contentsList), text, 0o600)
	}
	if err != nil {
		return out, secretfile.Error(op, filepath.Join(folder, contentsList), err)
	}
	return out, nil
}

func folderTakenError(folder string) error {
	return &message.Error{Code: message.CodeConflict, Op: "back up", What: "the folder " + folder + " is not empty", Hint: "name a new folder"}
}

// backUpStreams copies all streams except that of the archives, whose files are copied one by one
// and compared with what was signed.
func backUpStreams(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, space toolcall.SpaceID, infos []*jetstream.StreamInfo, folder string) (names []string, err error) {
	slices.SortStableFunc(infos, func(a, b *jetstream.StreamInfo) int {
		return cmp.Compare(copyRank(space, a.Config.Name), copyRank(space, b.Config.Name))
	})
	for _, info := range infos {
		name := info.Config.Name
		if name == archiveStream(space) {
			continue
		}
		if err := backUpStream(ctx, nc, js, name, filepath.Join(folder, name)); errors.Is(err, fs.ErrExist) { // another backup, which stays
			return names, folderTakenError(folder)
		} else if err != nil {
			return names, &message.Error{Code: message.CodeUnavailable, Op: "back up", What: "the copy of the stream " + name + " is incomplete", Hint: "look at the disk of the folder, remove the folder and try again", Err: err}
		}
		names = append(names, name)
	}
	return names, nil
}

// copyRank returns a stream's place in the order of copying.
func copyRank(space toolcall.SpaceID, name string) int {
	return slices.Index([]string{LedgerName(space), bus.StreamName(space), name}, name)
}

func backUpStream(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, name, path string) (err error) {
	st, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	// NATS copies no stream while a consumer of it does not answer, such as a watcher that went down with its server.
	for c := range st.ListConsumers(ctx).Info() {
		if c.Config.Durable == "" && c.Cluster != nil && c.Cluster.Leader == "" {
			_ = st.DeleteConsumer(ctx, c.Config.Name) // if it stays, the copy fails and says so
		}
	}
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
	sum := sha256.New()
	if err := errors.Join(receiveChunks(ctx, nc, sub, io.MultiWriter(f, sum)), f.Sync(), f.Close()); err != nil {
		return err
	}
	about.SHA256 = hex.EncodeToString(sum.Sum(nil))
	text, err := strictjson.Marshal(about)
	if err != nil {
		return err
	}
	return secretfile.Replace(path+descriptionSuffix, text, 0o600) // written last: its presence means that the content is complete
}

// receiveChunks writes the received chunks, up to the empty message that ends a copy.
func receiveChunks(ctx context.Context, nc *nats.Conn, sub *nats.Subscription, w io.Writer) error {
	for index := 1; ; index++ {
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
		if err := checkChunk(m, index); err != nil {
			return err
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

// checkChunk compares a chunk with the size and the number in its reply subject, which only the last can lack.
func checkChunk(m *nats.Msg, index int) error {
	if m.Reply == "" && len(m.Data) < backupChunk {
		return nil
	}
	if want := fmt.Sprintf(".%d.%d", len(m.Data), index); !strings.HasSuffix(m.Reply, want) {
		return fmt.Errorf("a part of the copy was lost before part %d", index)
	}
	return nil
}

// askStream sends one request about a copy. In a cluster, the server that the request goes to can
// learn later than the sender who takes it, and which servers are there.
func askStream(ctx context.Context, nc *nats.Conn, subject string, ask []byte) (about copied, deliver string, err error) {
	ctx, cancel := context.WithTimeout(ctx, backupSilence)
	defer cancel()
	for began := time.Now(); ; {
		about, deliver, err = askStreamOnce(ctx, nc, subject, ask)
		api, _ := errors.AsType[*jetstream.APIError](err)
		early := errors.Is(err, nats.ErrNoResponders) || api != nil && api.ErrorCode == jsapi.CodeNoPeers
		if !early || time.Since(began) > jsapi.GiveUpAfter || sleep.For(ctx, jsapi.FirstPause) != nil {
			return about, deliver, err
		}
	}
}

func askStreamOnce(ctx context.Context, nc *nats.Conn, subject string, ask []byte) (about copied, deliver string, err error) {
	m, err := nc.RequestWithContext(ctx, subject, ask)
	if err != nil || len(m.Data) == 0 { // without data, a chunk was accepted
		return about, "", err
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

// BackupKeyID returns the [keyfile.Keys.ID] of the keys that the journal in a backup needs, or ""
// if the folder has no backup of the space.
func BackupKeyID(folder string, space toolcall.SpaceID) string {
	var about struct {
		Config struct {
			Metadata map[string]string `json:"metadata"`
		} `json:"config"`
	}
	text, _, err := plainfile.Read(filepath.Join(folder, bus.StreamName(space)+descriptionSuffix), secretfile.MaxBytes)
	if err != nil || strictjson.UnmarshalOpen(text, &about) != nil {
		return "" // Restore says why
	}
	return about.Config.Metadata[metaKey]
}

// Restore creates the streams of a space from a folder that BackUp wrote, on servers that
// have none of them, except perhaps archives. It restores the files of archives first. The
// streams get three replicas on a cluster, else one. Records written after the backup are
// missing, so engines refuse the journal until an operator has accepted that loss.
func Restore(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, folder string, archives ArchiveStore) (Copied, error) {
	const op = "restore"
	var out Copied
	if err := bus.CheckSpace(space); err != nil {
		return out, err
	}
	if err := checkNothingThere(ctx, nc, space); err != nil {
		return out, err
	}
	has, err := BackupContents(folder)
	if err != nil {
		return out, err
	}
	copies, err := checkCopies(folder, space, has.Streams)
	if err != nil {
		return out, err
	}
	if err := restoreArchives(ctx, folder, has.Archives, archives, &out); err != nil {
		return out, err
	}
	for _, name := range slices.Backward(spaceStreams(space)) { // the journal last: without it nothing starts
		about, path := copies[name], filepath.Join(folder, name)
		if about == nil {
			continue
		}
		meta := map[string]any{}
		if name == bus.StreamName(space) {
			meta[metaRestored] = time.Now().UTC().Format(time.RFC3339Nano)
		}
		err = createReplicated(0, func(n int) error {
			return restoreStream(ctx, nc, name, path+contentSuffix, about, meta, n)
		})
		if err != nil {
			return out, &message.Error{Code: message.CodeUnavailable, Op: op, What: "the stream " + name + " was not restored", Hint: "look at the disk and the log of the server; then restore onto servers or into a data folder without streams of this space", Err: err}
		}
		out.Streams = append(out.Streams, name)
	}
	return out, nil
}

// checkCopies returns the description of every copied stream. It reads the whole backup, so
// that nothing is restored from one that is incomplete or was changed.
func checkCopies(folder string, space toolcall.SpaceID, streams []string) (map[string][]byte, error) {
	const op = "restore"
	out := map[string][]byte{}
	for _, name := range append(streams, bus.StreamName(space), LedgerName(space)) {
		path := filepath.Join(folder, name)
		if !slices.Contains(spaceStreams(space), name) {
			return nil, &message.Error{Code: message.CodeInvalid, Op: op, What: "the folder has a copy of " + errtext.Quote(name) + ", which is not a stream of the space " + string(space), Hint: "name the space of the backup with --space"}
		}
		about, err := os.ReadFile(path + descriptionSuffix)
		if err != nil {
			return nil, &message.Error{Code: message.CodeNotFound, Op: op, What: "the folder has no complete copy of the stream " + name, Hint: "check the folder and the space", Err: err}
		}
		if err := checkContent(path+contentSuffix, about); err != nil {
			return nil, &message.Error{Code: message.CodeDamaged, Op: op, What: "the copy of the stream " + name + " was changed after the backup", Hint: "use another backup", Err: err}
		}
		out[name] = about
	}
	return out, nil
}

// checkContent compares the content of a copy with its description.
func checkContent(path string, about []byte) error {
	var d copied
	if err := strictjson.UnmarshalOpen(about, &d); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); d.SHA256 != "" && got != d.SHA256 {
		return fmt.Errorf("its SHA-256 is %s, but the description says %s", got, d.SHA256)
	}
	return nil
}

// checkNothingThere refuses servers that already have a stream of the space.
func checkNothingThere(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID) error {
	const op = "restore"
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for _, name := range spaceStreams(space) {
		switch _, err := js.Stream(ctx, name); {
		case err == nil && name == archiveStream(space): // of an interrupted restore: files are compared and written again
		case err == nil:
			return &message.Error{Code: message.CodeConflict, Op: op, What: "the servers already have the stream " + name, Hint: "restore onto servers that have no streams of this space; if an interrupted restore made them, delete them first, as with nats stream rm " + name}
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return jsapi.Error(op, "stream "+name, err)
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
	all := map[string]any{}
	old, _ := whole.Config["metadata"].(map[string]any)
	maps.Copy(all, old)
	maps.Copy(all, meta)
	delete(all, metaArchiving) // its archiver is not running here, and its index may not be in the backup
	whole.Config["metadata"] = all
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
		made, _, err := askStream(ctx, nc, deliver, chunk[:n]) // an empty chunk ends the copy
		if err != nil {
			return err
		}
		if n == 0 {
			return checkWhole(whole.State, made.State)
		}
	}
}

// checkWhole makes sure that a restored stream has every message that the description
// counts. The stream can have more, which arrived while it was copied.
func checkWhole(said, made message.RawJSON) error {
	var want, got extent
	if err := errors.Join(strictjson.UnmarshalOpen(said, &want), strictjson.UnmarshalOpen(made, &got)); err != nil {
		return err
	}
	if got.First > max(want.First, 1) || got.Last < want.Last || got.Messages < want.Messages {
		return fmt.Errorf("%d messages from %d to %d were restored, but the copy had %d from %d to %d", got.Messages, got.First, got.Last, want.Messages, want.First, want.Last)
	}
	return nil
}
