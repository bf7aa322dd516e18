package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// Damaged says which journal is examined or recovered.
type Damaged struct {
	Dir   Dir
	Space toolcall.SpaceID
	// Keys and Anchor are the files of the space; "" is that of Dir.
	Keys, Anchor string
	// NATS connects to an existing server. Nil: the folder's own store is used, and no
	// server may run on it.
	NATS func(context.Context) (*nats.Conn, error)
	Log  *slog.Logger // nil means the default one
}

type session struct {
	nc     *nats.Conn
	server *embed.Server // nil if another process runs it
	keys   *keyfile.Keys // as they were at the start
	live   *keyfile.Live // as they are now
	anchor *journal.Anchor
	bad    error // why the anchor cannot be trusted
	close  func()
}

func (d Damaged) anchorPath() string { return cmp.Or(d.Anchor, d.Dir.Files(d.Space).Anchor(d.Space)) }

// open connects to the journal's server. With rebuild, the server truncates what it cannot read.
func (d Damaged) open(ctx context.Context, rebuild bool) (*session, error) {
	keyPath, anchorFile := cmp.Or(d.Keys, d.Dir.Files(d.Space).Keys()), d.anchorPath()
	keys, err := keyfile.Load(keyPath)
	if errors.Is(err, fs.ErrNotExist) && d.Keys == "" && d.NATS == nil {
		err = cmp.Or(d.Dir.Exists(), err)
	}
	if err != nil {
		return nil, err
	}
	s := &session{keys: keys, live: keyfile.NewLive(keyPath, keys)}
	if d.NATS != nil {
		if s.nc, err = d.NATS(ctx); err != nil {
			return nil, err
		}
		s.close = s.nc.Close
	} else {
		server, err := embed.Start(ctx, embed.Options{StoreDir: d.Dir.Store(), AddressFiles: d.Dir.Addresses(), Rebuild: rebuild})
		if err != nil {
			return nil, err
		}
		s.server = server
		if s.nc, err = server.Connect(ctx, bus.ConnectOptions{Principal: creds.EngineName}); err != nil {
			server.Close()
			return nil, err
		}
		s.close = func() { s.nc.Close(); server.Close() }
	}
	s.anchor, s.bad = journal.OpenAnchor(anchorFile, d.Space, keys)
	if s.bad != nil {
		if !errors.Is(s.bad, message.ErrDamaged) {
			s.close()
			return nil, s.bad
		}
		s.anchor = journal.NewAnchor(anchorFile, d.Space, keys)
	}
	end := s.close
	s.close = func() { _ = s.anchor.Close(); end() } // everything is already written
	return s, nil
}

// publish writes the public keys of a folder before one of them signs, as its engine does: audits
// know no others.
func (s *session) publish(d Damaged, write func(path string) error) error {
	if s.server == nil { // its engines do
		return nil
	}
	return write(d.Dir.Files(d.Space).PublicKeys())
}

// signing returns the keys as they are now: they may be rotated or retired meanwhile.
func (s *session) signing(d Damaged) func() *keyfile.Keys {
	return func() *keyfile.Keys {
		_, _ = s.live.Reload(func(k *keyfile.Keys) error { return s.publish(d, k.WritePublic) }) // if it is unreadable, the last keys stay
		return s.live.Now()
	}
}

func (s *session) archives(d Damaged) journal.ArchiveStore {
	return ArchivesOf(s.nc, s.server, d.Dir.Files(d.Space), d.Space)
}

// ArchivesOf returns where the archives of a space are: in its folder if the server is
// embedded, else in an object store. server is nil if another process runs it.
func ArchivesOf(nc *nats.Conn, server *embed.Server, files Dir, space toolcall.SpaceID) journal.ArchiveStore {
	folder := journal.ArchiveFolder(files.Archives())
	bucket := journal.NewArchiveBucket(nc, space, folder)
	if server != nil {
		return folderFirst{folder, bucket}
	}
	return bucket
}

// folderFirst keeps archives in a folder, and also reads those that askance journal archive
// --nats has put into the embedded server.
type folderFirst struct {
	journal.ArchiveFolder
	bucket journal.ArchiveStore
}

// Open implements journal.ArchiveStore.
func (s folderFirst) Open(ctx context.Context, name string) (journal.ArchiveFile, error) {
	f, err := s.ArchiveFolder.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return s.bucket.Open(ctx, name)
	}
	return f, err
}

// Examine compares the journal with its checkpoints and its anchor.
func (d Damaged) Examine(ctx context.Context) (*journal.Exam, error) {
	s, err := d.open(ctx, false)
	if err != nil {
		return nil, err
	}
	defer s.close()
	x, err := journal.Examine(ctx, s.nc, d.Space, s.keys, s.anchor)
	if err == nil && s.bad != nil {
		x.AddFlaw(journal.FlawBadAnchor, message.AsError("", s.bad).What)
	}
	return x, err
}

// Acceptance says who accepts a loss, and why.
type Acceptance struct {
	By, Reason string
	// Confirm is called before anything is changed, with what is known to be lost.
	Confirm func(*journal.Exam) error
}

// Accepted says what was done.
type Accepted struct {
	Loss        proof.Loss        `json:"loss"`
	Checkpoint  *proof.Checkpoint `json:"checkpoint"`
	Interrupted []string          `json:"interrupted_calls"` // open calls that were finished
	Closed      []string          `json:"closed"`            // lost calls, replies and sessions, closed permanently
	Revoked     int               `json:"revoked_standing_approvals"`
}

// confirm asks about what is lost, before the server truncates any file.
func (d Damaged) confirm(ctx context.Context, a Acceptance) error {
	x, err := d.Examine(ctx)
	switch {
	case errors.Is(err, message.ErrDamaged): // the server cannot read the files
		x = &journal.Exam{Space: d.Space}
		x.AddFlaw(journal.FlawUnreadable, message.AsError("", err).What)
	case err != nil:
		return err
	case x.OK:
		return d.nothingLost()
	}
	return a.Confirm(x)
}

func (d Damaged) nothingLost() error {
	return &message.Error{Code: message.CodeState, Op: "accept loss", What: "the journal of the space " + string(d.Space) + " has no loss", Hint: "start askance serve"}
}

// AcceptLoss records that an operator accepts a loss, and closes everything that could
// run a second time because of it.
func (d Damaged) AcceptLoss(ctx context.Context, a Acceptance) (*Accepted, error) {
	if err := d.confirm(ctx, a); err != nil {
		return nil, err
	}
	lock, err := embed.LockAnchor(d.anchorPath())
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // the end of the process also unlocks
	s, err := d.open(ctx, true)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r, err := journal.BeginRecovery(ctx, s.nc, d.Space, s.keys, journal.Options{Anchor: s.anchor, Archives: s.archives(d), Keys: s.signing(d)})
	if err != nil {
		return nil, err
	}
	if s.bad != nil {
		r.Exam.AddFlaw(journal.FlawBadAnchor, message.AsError("", s.bad).What)
	}
	if r.Exam.OK { // the server could read everything after all
		return nil, d.nothingLost()
	}
	if err := r.Prepare(ctx); err != nil {
		return nil, err
	}
	if err := s.publish(d, s.live.Publish); err != nil {
		return nil, err
	}
	c := &closing{
		r: r, by: toolcall.Principal{Role: toolcall.RoleOperator, Name: a.By, Auth: "in-process"}, at: time.Now().UTC().Round(0),
		open: map[toolcall.Key]*toolcall.Call{}, last: map[toolcall.Key]toolcall.JournalEntry{},
	}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	out := &Accepted{Interrupted: c.interrupted, Closed: c.closed, Revoked: c.revocations}
	if out.Checkpoint, err = r.Finish(ctx, a.By, a.Reason, creds.EngineName, uint64(len(c.interrupted)+len(c.closed))); err != nil {
		return nil, err
	}
	out.Loss = r.Loss()
	return out, nil
}

const lostText = "The journal lost records. This call may have run. Check its effect, then propose it again as a new call if it is still needed."

// closing ends what a damaged journal has open.
type closing struct {
	r  *journal.Recovery
	by toolcall.Principal
	at time.Time
	n  int

	open map[toolcall.Key]*toolcall.Call
	last map[toolcall.Key]toolcall.JournalEntry // of each other entity; without a sequence if only a call names it

	interrupted, closed []string
	revocations         int
}

// note notes a record that is left. An unreadable one closes nothing.
func (c *closing) note(r toolcall.JournalEntry) error {
	if r.Invalid != nil || r.Record == nil {
		return nil //nolint:nilerr // see above
	}
	call := r.Record.Call
	if call == nil {
		c.last[r.Record.Key()] = r
		return nil
	}
	call.At(r.Seq)
	delete(c.open, call.Key)
	if call.Open() {
		c.open[call.Key] = call
	}
	for _, s := range call.Granted() {
		if c.last[s.Key()].Record == nil {
			c.last[s.Key()] = toolcall.JournalEntry{Record: &toolcall.EventRecord{Standing: &s}}
		}
	}
	return nil
}

func (c *closing) run(ctx context.Context) error {
	if err := c.r.Survivors(ctx, c.note); err != nil {
		return err
	}
	for key, last := range c.last {
		rec := c.record()
		switch {
		case last.Record.Standing != nil:
			if rec.Standing = c.revoked(last.Record.Standing); rec.Standing == nil {
				continue
			}
			c.revocations++
		case last.Record.Budget != nil: // its last spendings may be lost
			rec.Budget = toolcall.LoseBudget(key, last.Record.Budget)
		default:
			continue
		}
		if _, err := c.r.Journal().Append(ctx, rec, last.Seq); err != nil {
			return err
		}
	}
	for key, call := range c.open {
		if c.r.IsCutOff(key) {
			continue
		}
		if err := c.interrupt(ctx, call); err != nil {
			return err
		}
		if err := c.endReply(ctx, key.ReplyKey()); err != nil {
			return err
		}
	}
	for _, subject := range append(c.r.CutOff(), c.r.Exam.Lost...) {
		if err := c.closeLost(ctx, subject); err != nil {
			return err
		}
	}
	return nil
}

// record begins an event record of the operator.
func (c *closing) record() *toolcall.EventRecord {
	c.n++
	return &toolcall.EventRecord{V: toolcall.RecordVersion, ID: fmt.Sprintf("loss-%d-%d", c.at.UnixNano(), c.n), By: c.by, At: c.at, Engine: creds.EngineName}
}

func (c *closing) interrupt(ctx context.Context, call *toolcall.Call) error {
	seq := call.Seq
	m := toolcall.Load(call)
	if err := m.Step(toolcall.Interrupted{Base: toolcall.Base{At: c.at}, Text: lostText}); err != nil {
		return err
	}
	rec := c.record()
	rec.Call, rec.Path = m.Call(), m.Path()
	rec.Call.Seq = 0
	if _, err := c.r.Journal().Append(ctx, rec, seq); err != nil {
		return err
	}
	c.interrupted = append(c.interrupted, call.Key.String())
	return nil
}

func (c *closing) endReply(ctx context.Context, key toolcall.Key) error {
	state := toolcall.ReplyState{Key: key}
	if last := c.last[key]; last.Record != nil {
		state = *last.Record.Reply
	}
	if state.Completed || state.Phase == toolcall.ReplyEnded {
		return nil
	}
	state.Phase, state.Reason = toolcall.ReplyEnded, lostText
	rec := c.record()
	rec.Reply = &state
	seq, err := c.r.Journal().Append(ctx, rec, c.last[key].Seq)
	if err == nil {
		c.last[key] = toolcall.JournalEntry{Seq: seq, Record: rec}
	}
	return err
}

// revoked returns a standing approval as revoked, or nil if it has ended: its revocation, or its
// last uses, may be lost.
func (c *closing) revoked(sa *toolcall.StandingApproval) *toolcall.StandingApproval {
	if s := sa.State(c.at); s == toolcall.StandingRevoked || s == toolcall.StandingExpired {
		return nil
	}
	next := *sa
	next.Revoked, next.Use, next.Seq = &toolcall.Revocation{By: c.by, At: c.at, Reason: lostText}, nil, 0
	return &next
}

// closeLost closes a call, reply or session whose signed records are lost, or a call whose
// last record cannot be read without a lost one.
func (c *closing) closeLost(ctx context.Context, subject string) error {
	if s, err := bus.ParseSubject(subject); err == nil && s.Kind == bus.KindReplyRecord { // the rest of the reply may lack an interrupt
		session, ok := s.Session.ID()
		reply, ok2 := s.Reply.ID()
		key := toolcall.Key{Space: s.Space, Session: message.SessionID(session), Reply: message.ReplyID(reply)}
		if ok && ok2 && c.last[key].Record != nil {
			return c.endReply(ctx, key)
		}
	}
	var stepError error
	done, err := c.r.CloseLost(ctx, subject, func(key toolcall.Key) *toolcall.EventRecord {
		rec := c.record()
		switch {
		case key.Entity != "":
			rec.Budget = toolcall.LoseBudget(key, nil)
		case key.Call != "":
			m := toolcall.Load(nil)
			stepError = errors.Join(
				m.Step(toolcall.Proposed{Base: toolcall.Base{At: c.at}, Call: &toolcall.Call{Key: key, Runtime: "unknown", Tool: "unknown", Input: "{}", Proposal: "lost"}}),
				m.Step(toolcall.Interrupted{Base: toolcall.Base{At: c.at}, Text: lostText}))
			rec.Call, rec.Path = m.Call(), m.Path()
		case key.Reply != "":
			rec.Reply = &toolcall.ReplyState{Key: key, Phase: toolcall.ReplyEnded, Reason: lostText}
			c.last[key] = toolcall.JournalEntry{Record: rec}
		default:
			rec.Session = &toolcall.SessionState{Key: key, Runtime: "unknown"}
		}
		return rec
	})
	if err = errors.Join(err, stepError); err != nil || !done {
		return err
	}
	c.closed = append(c.closed, bus.NameOf(subject))
	return nil
}

// Archive moves finished calls into files: of a data folder that no engine uses, or of an
// object store of an existing server, whose engines may be running.
func (d Damaged) Archive(ctx context.Context, r journal.Retention) (journal.Archiving, error) {
	if d.NATS == nil {
		if err := d.Dir.Exists(); err != nil {
			return journal.Archiving{}, err
		}
		lock, err := lockAnchor(d.anchorPath(), cmp.Or(d.Log, slog.Default()))
		if err != nil {
			return journal.Archiving{}, err
		}
		defer lock.Close() //nolint:errcheck // the end of the process also unlocks
	}
	s, err := d.open(ctx, false)
	if err != nil {
		return journal.Archiving{}, err
	}
	defer s.close()
	if s.bad != nil {
		return journal.Archiving{}, s.bad
	}
	if err := checkSpaceExists(ctx, s.nc, d.Space); err != nil {
		return journal.Archiving{}, err
	}
	o := journal.Options{Archives: s.archives(d), Keys: s.signing(d)}
	if s.server == nil { // an engine may be writing to the anchor
		x, err := journal.Examine(ctx, s.nc, d.Space, s.keys, s.anchor)
		if err == nil {
			err = x.Error()
		}
		if err != nil {
			return journal.Archiving{}, err
		}
	} else {
		o.Anchor = s.anchor
		o.Durability, o.Health, o.Room = s.server.Durability(), s.server.Health, s.server.Room
	}
	j, err := journal.Open(ctx, s.nc, d.Space, s.keys, o)
	if err != nil {
		return journal.Archiving{}, err
	}
	if err := s.publish(d, s.live.Publish); err != nil {
		return journal.Archiving{}, err
	}
	l, err := journal.OpenLedger(ctx, j, journal.LedgerOptions{Engine: creds.EngineName, Alone: s.server != nil})
	if err != nil {
		return journal.Archiving{}, err
	}
	return l.Archive(ctx, r)
}
