package node

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Reader reads a journal without an engine at work on it: nothing is decided,
// resumed or timed out because somebody looked. It is the engine.Client of an
// auditor; its writing methods are refused.
type Reader struct {
	*engine.Port // of an engine that is never started: it reads, and keeps no view
	journal      *bus.Journal
	ledger       *bus.Ledger
	nc           *nats.Conn
	keys         *bus.Keys
	dir          Dir
	close        func()
}

// OpenReader opens the journal of a data folder in which no server runs, for a
// reader of that name. keyFile is that of the space; "" is the folder's own.
// Close it: while it is open, no server can start there.
func OpenReader(ctx context.Context, dir Dir, keyFile string, space message.SpaceID, name string) (*Reader, error) {
	if err := dir.Exists(); err != nil {
		return nil, err
	}
	if keyFile == "" {
		keyFile = dir.Keys()
	}
	keys, err := bus.LoadKeys(keyFile)
	if err != nil {
		return nil, err
	}
	server, err := bus.StartServer(ctx, bus.ServerOptions{StoreDir: dir.Store()})
	if err != nil {
		return nil, err
	}
	r, err := newReader(ctx, server, keys, space, name)
	if err != nil {
		server.Close()
		return nil, err
	}
	r.keys, r.dir = keys, dir
	return r, nil
}

func newReader(ctx context.Context, server *bus.Server, keys *bus.Keys, space message.SpaceID, name string) (*Reader, error) {
	nc, err := server.Connect(ctx, bus.ConnectOptions{Principal: "askance-reader"})
	if err != nil {
		return nil, err
	}
	journal, err := openExisting(ctx, nc, server, keys, space)
	if err != nil {
		nc.Close()
		return nil, err
	}
	ledger, err := bus.OpenLedger(ctx, journal, bus.LedgerOptions{Existing: true, Engine: bus.EngineName})
	if err != nil {
		nc.Close()
		return nil, err
	}
	eng, err := engine.New(space, journal, new(permission.Bundle), nil)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &Reader{
		Port:    eng.As(message.Principal{Role: message.RoleAuditor, Name: name}),
		journal: journal,
		nc:      nc,
		ledger:  ledger,
		close: func() {
			_ = eng.Close() // it was never started, there is nothing to fail
			nc.Close()
			server.Close()
		},
	}, nil
}

// openExisting opens the journal of a space, but makes none: a misspelled space
// must not leave an empty one behind.
func openExisting(ctx context.Context, nc *nats.Conn, server *bus.Server, keys *bus.Keys, space message.SpaceID) (*bus.Journal, error) {
	if err := bus.CheckSpace(space); err != nil {
		return nil, err
	}
	js, err := nc.JetStream()
	if err != nil {
		return nil, err
	}
	if _, err := js.StreamInfo(bus.StreamName(space), nats.Context(ctx)); errors.Is(err, nats.ErrStreamNotFound) {
		return nil, &message.Error{Code: message.CodeNotFound, Op: "open journal", What: "there is no space " + string(space) + " here", Hint: "name another with --space"}
	}
	return bus.OpenJournal(ctx, nc, space, keys, bus.JournalOptions{Durability: server.Durability(), Health: server.Health, Room: server.Room, Inspect: true})
}

// Ledger reads the records as they are, and what proves them. Its Checkpoint is
// the one thing that writes.
func (r *Reader) Ledger() *bus.Ledger { return r.ledger }

// Examine compares the journal with its checkpoints and with an anchor file; ""
// is that of the folder.
func (r *Reader) Examine(ctx context.Context, anchorFile string) (*bus.Exam, error) {
	if anchorFile == "" {
		anchorFile = r.dir.Anchor(r.journal.Space())
	}
	anchor, bad := bus.OpenAnchor(anchorFile, r.journal.Space(), r.keys)
	if bad != nil {
		anchor = bus.NewAnchor(anchorFile, r.journal.Space(), r.keys)
	}
	defer func() { _ = anchor.Close() }() // nothing was written
	x, err := bus.ExamineJournal(ctx, r.nc, r.journal.Space(), r.keys, anchor)
	if err == nil && bad != nil {
		x.AddFlaw(bus.FlawBadAnchor, message.AsError("", bad).What)
	}
	return x, err
}

// Close gives the folder free.
func (r *Reader) Close() error {
	r.close()
	return nil
}

// List folds the whole journal: the last event record of each call is the call.
func (r *Reader) List(ctx context.Context, q message.ListRequest) (message.ListReply, error) {
	ctx, done := context.WithCancelCause(ctx)
	fold := &fold{calls: map[message.Key]*message.Call{}, end: func() { done(errCaughtUp) }}
	if err := r.journal.Watch(ctx, 0, fold); !errors.Is(err, errCaughtUp) {
		return message.ListReply{}, err
	}
	out := message.ListReply{Calls: []*message.Call{}}
	for _, c := range fold.calls {
		if selects(q, c) {
			out.Calls = append(out.Calls, c)
		}
	}
	slices.SortFunc(out.Calls, func(a, b *message.Call) int { return cmp.Compare(a.First, b.First) })
	return out, nil
}

// selects is what ListRequest documents.
func selects(q message.ListRequest, c *message.Call) bool {
	switch {
	case q.Session != "" && c.Session != q.Session, q.Reply != "" && c.Reply != q.Reply, q.Call != "" && c.Call != q.Call:
		return false
	case q.Blocked && c.Phase() != message.PhaseBlocked:
		return false
	case len(q.States) > 0:
		return slices.Contains(q.States, c.State)
	}
	return q.All || c.Open()
}

// errCaughtUp ends a fold.
var errCaughtUp = errors.New("the end of the journal is reached")

// fold keeps the last state of every call. It is a message.Sink.
type fold struct {
	calls map[message.Key]*message.Call
	end   func()
}

// Record implements message.Sink.
func (f *fold) Record(r message.JournalEntry) {
	if r.Record == nil || r.Record.Call == nil {
		return
	}
	r.Record.Call.At(r.Seq)
	f.calls[r.Key] = r.Record.Call
}

// CaughtUp implements message.Sink.
func (f *fold) CaughtUp() { f.end() }

// standingApprovalFold is a Sink that keeps each standing approval as its last event record has it,
// or as the approval made it.
type standingApprovalFold struct {
	standingApprovals map[message.StandingID]*message.StandingApproval
	end               func()
}

// Record implements message.Sink.
func (f *standingApprovalFold) Record(r message.JournalEntry) {
	switch {
	case r.Record == nil:
	case r.Record.Standing != nil:
		l := *r.Record.Standing
		l.Seq = r.Seq
		f.standingApprovals[l.ID] = &l
	case r.Record.Call != nil:
		for _, l := range r.Record.Call.Granted() {
			if f.standingApprovals[l.ID] == nil {
				f.standingApprovals[l.ID] = &l
			}
		}
	}
}

// CaughtUp implements message.Sink.
func (f *standingApprovalFold) CaughtUp() { f.end() }

func (r *Reader) allStandingApprovals(ctx context.Context) (map[message.StandingID]*message.StandingApproval, error) {
	ctx, done := context.WithCancelCause(ctx)
	fold := &standingApprovalFold{standingApprovals: map[message.StandingID]*message.StandingApproval{}, end: func() { done(errCaughtUp) }}
	if err := r.journal.Watch(ctx, 0, fold); !errors.Is(err, errCaughtUp) {
		return nil, err
	}
	return fold.standingApprovals, nil
}

// Leases folds the whole journal; there is one page.
func (r *Reader) StandingApprovals(ctx context.Context, q message.StandingApprovalsRequest) (message.StandingApprovalsReply, error) {
	all, err := r.allStandingApprovals(ctx)
	if err != nil {
		return message.StandingApprovalsReply{}, err
	}
	out, now := message.StandingApprovalsReply{StandingApprovals: []*message.StandingApproval{}}, time.Now()
	for _, l := range slices.SortedFunc(maps.Values(all), func(a, b *message.StandingApproval) int { return cmp.Compare(a.ID, b.ID) }) {
		if (q.Tool == "" || l.Tool == q.Tool) && (q.All || l.State(now) == message.StandingActive) && l.ID > q.After {
			out.StandingApprovals = append(out.StandingApprovals, l)
		}
	}
	return out, nil
}

// ShowStandingApproval also finds a standing approval that was never used.
func (r *Reader) ShowStandingApproval(ctx context.Context, q message.ShowStandingApprovalRequest) (message.ShowStandingApprovalReply, error) {
	rep, err := r.Port.ShowStandingApproval(ctx, q)
	if !errors.Is(err, message.ErrNotFound) {
		return rep, err
	}
	all, ferr := r.allStandingApprovals(ctx)
	if ferr != nil {
		return rep, ferr
	}
	if l := all[q.ID]; l != nil {
		return message.ShowStandingApprovalReply{Standing: l, Uses: []message.StandingUse{}}, nil
	}
	return rep, err
}

// Explain knows no policy: that is an engine's.
func (r *Reader) Explain(ctx context.Context, q message.ExplainRequest) (message.ExplainReply, error) {
	shown, err := r.Show(ctx, message.ShowRequest(q))
	if err != nil {
		return message.ExplainReply{}, err
	}
	c := shown.Call
	out := message.ExplainReply{Key: c.Key, State: c.State, Decision: c.Decision, StandingApprovals: []message.StandingStatus{}, Withheld: "no engine runs here, and no policy is in force"}
	for _, id := range c.Decision.StandingApprovals() {
		l, err := r.ShowStandingApproval(ctx, message.ShowStandingApprovalRequest{ID: id})
		if err != nil {
			return message.ExplainReply{}, err
		}
		out.StandingApprovals = append(out.StandingApprovals, l.Standing.Standing(time.Now()))
	}
	return out, nil
}

// Load folds the whole journal.
func (r *Reader) Load(ctx context.Context, q message.LoadRequest) (message.LoadReply, error) {
	if err := q.Validate(); err != nil {
		return message.LoadReply{}, err
	}
	sum, err := reviewers.Read(ctx, r.journal, q.Since, q.Until)
	if err != nil {
		return message.LoadReply{}, err
	}
	return sum.Report(time.Now().UTC()), nil
}
