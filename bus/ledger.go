package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Ledger keeps the signed checkpoints of a space's journal, in a stream of its
// own beside it: what proves the journal outlives a purge of it. Checkpoints are
// written by compare-and-swap on one subject, so that of any number of engines
// one writes the next, and none can write a second history.
//
// All methods may be called from many goroutines at once.
type Ledger struct {
	j     *Journal
	store *Journal // reads the ledger's own stream as a journal's is read
	o     LedgerOptions
	log   *slog.Logger

	mu   sync.Mutex // one checkpoint at a time in this process; guards last and loss
	last newest
	loss *proof.Loss // goes into the next checkpoint
}

// LedgerOptions may be left zero.
type LedgerOptions struct {
	// Stream shapes the stream if it has to be made.
	Stream StreamOptions
	// Existing: if there is no ledger none is made before the first checkpoint,
	// and there are no checkpoints to read. For those who only look.
	Existing bool
	// Engine is the replica's name in the checkpoints that it writes.
	Engine string
	// Logger gets what goes wrong in Run. Nil: nothing is logged.
	Logger *slog.Logger
}

// newest is the last checkpoint of the ledger.
type newest struct {
	checkpoint *proof.Checkpoint // nil: there is none
	sealed     *proof.Sealed     // the checkpoint with its entries
	seq        uint64            // of the last message in the stream, whoever wrote it
}

// to is the last sequence that is covered.
func (n newest) to() uint64 {
	if n.checkpoint == nil {
		return 0
	}
	return n.checkpoint.To
}

const kindLedger = "ledger"

// LedgerName is the name of the stream with a space's checkpoints.
func LedgerName(space toolcall.SpaceID) string { return "ASKANCE_PROOF_" + string(space) }

// checkpointSubject is the one subject of a space's checkpoints.
func checkpointSubject(space toolcall.SpaceID) string {
	return Subject{Space: space, Kind: KindCheckpoint}.String()
}

// ledgerConfig is the ledger's stream as it has to be. Nobody may delete from it
// over the network.
func ledgerConfig(space toolcall.SpaceID, keyID string, o StreamOptions) jetstream.StreamConfig {
	c := streamConfig(space, keyID, o)
	c.Name, c.Description = LedgerName(space), "askance checkpoints of the space "+string(space)
	c.Subjects = []string{checkpointSubject(space)}
	c.Metadata[metaKind] = kindLedger
	c.DenyDelete, c.DenyPurge = true, true
	c.AllowAtomicPublish = false
	return c
}

// OpenLedger opens the ledger of a journal's space and makes its stream if there
// is none.
func OpenLedger(ctx context.Context, j *Journal, o LedgerOptions) (*Ledger, error) {
	l := &Ledger{j: j, o: o, log: o.Logger, store: &Journal{nc: j.nc, js: j.js, space: j.space, stream: LedgerName(j.space), keys: j.keys}}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if o.Existing {
		return l, nil
	}
	return l, l.make(ctx)
}

// make makes the stream, or checks the one that is there.
func (l *Ledger) make(ctx context.Context) error {
	_, err := ensure(ctx, l.j.js, "open ledger", ledgerConfig(l.j.space, l.j.keys.ID(), l.o.Stream))
	return err
}

// Checkpoint signs everything that the journal has and that is not signed yet,
// and gives the last checkpoint; nil for an empty journal. With nothing new it
// writes nothing. When it is cut short, what was signed by then stays, and the
// next call goes on.
func (l *Ledger) Checkpoint(ctx context.Context) (*proof.Checkpoint, error) {
	return l.cover(ctx, 0)
}

// cover is Checkpoint with a pause between two checkpoints.
func (l *Ledger) cover(ctx context.Context, pause time.Duration) (*proof.Checkpoint, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.Existing {
		if err := l.make(ctx); err != nil {
			return nil, err
		}
	}
	state, err := l.j.state(ctx)
	if err != nil {
		return nil, err
	}
	for {
		if err = l.refresh(ctx); err != nil {
			return nil, err
		}
		if l.last.to() >= state.LastSeq {
			return l.last.checkpoint, nil
		}
		sealed, err := l.seal(ctx, state)
		if err != nil {
			return nil, err
		}
		if err := l.put(ctx, sealed); err != nil {
			return nil, err
		}
		l.loss = nil
		if sealed.Checkpoint.To < state.LastSeq && pause > 0 && !sleep(ctx, pause) {
			return nil, apiError("checkpoint", "the time was over", context.Cause(ctx))
		}
	}
}

// refresh reads the last checkpoint, and has the anchor remember it. l.mu is
// held.
func (l *Ledger) refresh(ctx context.Context) (err error) {
	if l.last, err = l.newest(ctx); err != nil {
		return err
	}
	return l.j.anchor.signed(l.last.checkpoint)
}

// newest reads the ledger's last checkpoint from its leader. What no engine
// wrote is passed over: among the messages before, only those can be newer than
// the best so far whose sequence is higher than its number.
func (l *Ledger) newest(ctx context.Context) (newest, error) {
	const op = "read ledger"
	m, err := l.store.get(ctx, getRequest{LastFor: checkpointSubject(l.j.space)})
	if errors.Is(err, errNone) || l.o.Existing && errors.Is(err, jetstream.ErrStreamNotFound) {
		return newest{}, nil
	}
	if err != nil {
		return newest{}, apiError(op, "stream "+l.store.stream, err)
	}
	out := newest{seq: m.seq}
	retired := l.j.signing().RetirementTimes()
	for doubt := false; ; {
		s, err := l.genuine(m)
		if err != nil {
			return newest{}, err
		}
		var c *proof.Checkpoint
		if s != nil {
			c = &s.Checkpoint
		}
		switch best := out.checkpoint; {
		case c == nil || retired.Check(*c, nil) != nil:
		case best == nil || c.Number > best.Number || doubt && c.Number < best.Number && retired.Check(*best, c) != nil:
			out.checkpoint, out.sealed = c, s
			_, doubt = retired[c.KeyID] // what stands before it says whether its key was retired by then
		case c.Number < best.Number:
			doubt = false
		}
		if m.seq <= 1 || out.checkpoint != nil && m.seq-1 <= out.checkpoint.Number && !doubt {
			return out, nil
		}
		if m, err = l.store.getSeq(ctx, m.seq-1); err != nil {
			return newest{}, apiError(op, "stream "+l.store.stream, err)
		}
	}
}

// genuine gives the checkpoint in a message, or nil if it is none. One by an
// unknown key is an error: to begin again behind it would be a second history.
func (l *Ledger) genuine(m stored) (*proof.Sealed, error) {
	s, err := proof.DecodeSealed(m.data)
	if err != nil {
		return nil, nil //nolint:nilerr // it is rubbish, and verification reports it
	}
	c := s.Checkpoint
	keys := l.j.signing().VerificationKeys()
	if _, known := keys[c.KeyID]; !known {
		return nil, &message.Error{Code: message.CodeForeignStream, Op: "read ledger", What: fmt.Sprintf("the last checkpoints are signed by the engine key %s, which is not known here", errtext.Quote(c.KeyID)), Hint: "give the engine that key as a former one"}
	}
	if c.Space == l.j.space && c.Verify(keys) == nil {
		return &s, nil
	}
	return nil, nil
}

// seal signs the next range, of at most proof.MaxRecords records and of a size
// that fits a message. l.mu is held.
func (l *Ledger) seal(ctx context.Context, state jetstream.StreamState) (proof.Sealed, error) {
	c := proof.Checkpoint{Space: l.j.space, Number: 1, From: max(1, min(state.FirstSeq, state.LastSeq)), At: time.Now().UTC().Round(0), Engine: l.o.Engine}
	if last := l.last.checkpoint; last != nil {
		hash, err := last.Hash()
		if err != nil {
			return proof.Sealed{}, err
		}
		c.Number, c.From, c.Prev, c.Losses = last.Number+1, last.To+1, hash, last.Losses
	}
	if l.loss != nil {
		c.Loss, c.Losses = l.loss, c.Losses+1
	}
	entries, err := l.entries(ctx, c.From, state.LastSeq)
	if err != nil {
		return proof.Sealed{}, err
	}
	c.To = c.From + uint64(len(entries)) - 1
	return proof.Seal(c, entries, l.j.signing().Signer())
}

// entries reads the journal from a sequence on, for one checkpoint.
func (l *Ledger) entries(ctx context.Context, from, through uint64) ([]proof.Entry, error) {
	room := int(l.j.nc.MaxPayload()) / 2
	through = min(through, from+proof.MaxRecords-1)
	var out []proof.Entry
	for next := from; next <= through; {
		found, seen, err := l.j.page(ctx, ">", next-1, int(min(maxPage, through-next+1)))
		if err != nil {
			return nil, apiError("checkpoint", "read the journal", err)
		}
		for _, m := range found {
			if m.seq > through {
				break
			}
			for ; next < m.seq; next++ {
				out = append(out, proof.Entry{})
			}
			if room -= 2 * (len(m.subject) + len(proof.Hash{})); room < 0 && len(out) > 0 {
				return out, nil
			}
			out = append(out, proof.Entry{Subject: m.subject, Content: proof.Content(provedHeader(m.header), m.data)})
			next++
		}
		for seen = min(seen, through); next <= seen; next++ { // nothing is there
			out = append(out, proof.Entry{})
		}
	}
	return out, nil
}

// put stores a checkpoint, unless another engine was first: the caller looks
// again in either case. l.mu is held.
func (l *Ledger) put(ctx context.Context, s proof.Sealed) error {
	const op = "checkpoint"
	body, err := s.Encode()
	if err != nil {
		return err
	}
	m := nats.NewMsg(checkpointSubject(l.j.space))
	m.Data = body
	m.Header.Set(headerPrev, strconv.FormatUint(l.last.seq, 10))
	m.Header.Set(HeaderKind, fmt.Sprintf("checkpoint %d", s.Checkpoint.Number))
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	ack, err := NewDirect(l.j.nc).Publish(ctx, Write{Msg: m})
	api, refused := errors.AsType[*jetstream.APIError](err)
	switch {
	case refused && conflictCode(int(api.ErrorCode)):
		return nil
	case refused && transientCode(int(api.ErrorCode)):
		sleep(ctx, jitter(firstPause))
		return nil
	case err != nil:
		return apiError(op, "stream "+l.store.stream, err)
	case ack.Stream != l.store.stream:
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "another stream takes this space's checkpoints", Hint: "remove their subject from it", Err: errOtherStream}
	}
	return nil
}

// state is how the stream stands, by its leader.
func (j *Journal) state(ctx context.Context) (jetstream.StreamState, error) {
	ctx, cancel := withDefault(ctx, giveUpAfter)
	defer cancel()
	st, err := j.js.Stream(ctx, j.stream)
	if err != nil {
		return jetstream.StreamState{}, apiError("look at journal", "stream "+j.stream, err)
	}
	info := st.CachedInfo()
	j.observe(info)
	return info.State, nil
}
