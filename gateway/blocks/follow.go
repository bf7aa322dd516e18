package blocks

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/toolcall"
)

// subscription follows one session for one connection.
type subscription struct {
	c       *conn
	p       *gateway.Peer
	session message.SessionID
	last    *blockstream.Cursor // where the client says it is; nil: it does not say
	stop    context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex // guards mapper and what it asks for
	mapper *blockstream.Mapper
	asked  map[shownCall]blockstream.OpenRequest
	shown  map[string]bool // approval keys whose card this connection has
	left   bool            // this connection has a card of another subscription
	quiet  bool            // the frames of the event are not sent
	// renumbered: a card was shown again or left out here, so the indices of the turn's blocks differ
	// from those of other connections, and a client that returns needs the whole turn.
	renumbered bool
}

// wholeTurn begins event ids that ParseCursor refuses: a subscriber with one gets the whole turn.
const wholeTurn = "turn-"

// markRenumbered marks the event ids of a turn whose blocks have other indices here.
func (s *subscription) markRenumbered(frames []blockstream.Frame) {
	for _, f := range frames {
		if _, begins := f.(*blockstream.MessageStart); begins {
			s.renumbered = false
		}
		if h := f.Head(); s.renumbered && h.EventID != "" {
			h.EventID = wholeTurn + h.EventID
		}
	}
}

// shownCall identifies an approval request by what it shows. The input is hashed, because inputs
// may be long and every approval request of the session is stored.
type shownCall struct {
	key   toolcall.Key
	input [sha256.Size]byte
}

func shownAs(key toolcall.Key, input string) shownCall {
	return shownCall{key, sha256.Sum256([]byte(input))}
}

// sequenced is an event with its record's sequence.
type sequenced struct {
	seq uint64
	ev  message.Event
}

// followed returns the subscription, or nil if there is none.
func (c *conn) followed() *subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sub
}

// subscribe follows a session in place of another.
func (c *conn) subscribe(ctx context.Context, p *gateway.Peer, session message.SessionID, lastID string) bool {
	s := &subscription{c: c, p: p, session: session, done: make(chan struct{}), asked: map[shownCall]blockstream.OpenRequest{}, shown: map[string]bool{}}
	if err := s.prepare(ctx, lastID); err != nil {
		return c.fail(ctx, err, "")
	}
	c.mu.Lock()
	old := c.sub
	c.sub = s
	c.mu.Unlock()
	if old != nil {
		old.stop()
		<-old.done
		s.left = old.left || len(old.shown) > 0
	}
	ctx, s.stop = context.WithCancel(ctx)
	c.wg.Go(func() {
		defer close(s.done)
		defer s.stop()
		s.follow(ctx)
	})
	return true
}

// prepare checks whether the session can be followed.
func (s *subscription) prepare(ctx context.Context, lastID string) (err error) {
	if s.session == "" {
		return &message.Error{Code: message.CodeInvalid, Op: "subscribe", What: "session_id is empty", Hint: "name the session"}
	}
	if lastID != "" {
		if at, err := blockstream.ParseCursor(lastID); err == nil {
			s.last = &at // another server's id does not count: the whole turn is sent
		}
	}
	c, err := s.p.Reader()
	if err != nil {
		return err
	}
	if _, err = c.Events(ctx, toolcall.EventsRequest{Session: s.session, Limit: 1}); err != nil {
		return err
	}
	s.mapper, err = blockstream.NewMapper(blockstream.Config{
		Space: s.p.Space.ID, Session: s.session, DisplayMode: s.c.mode,
		OpenRequest: func(key toolcall.Key, _, input string) blockstream.OpenRequest {
			key.Space = s.p.Space.ID
			return s.asked[shownAs(key, input)]
		},
		DecidedBy: func(key toolcall.Key) string {
			if s.quiet {
				return ""
			}
			key.Space = s.p.Space.ID
			return s.decidedBy(ctx, key)
		},
	})
	return err
}

// decidedBy returns who voted last on a call.
func (s *subscription) decidedBy(ctx context.Context, key toolcall.Key) string {
	call := s.show(ctx, key)
	if call == nil || len(call.Votes) == 0 {
		return ""
	}
	return call.Votes[len(call.Votes)-1].By.Name
}

// show returns the current state of a call, or nil if it cannot be read.
func (s *subscription) show(ctx context.Context, key toolcall.Key) *toolcall.Call {
	if c, err := s.p.Reader(); err == nil {
		if out, err := c.Show(ctx, toolcall.ShowRequest{Key: key}); err == nil {
			return out.Call
		}
	}
	return nil
}

// answers converts a command to responses to what was shown here. A command that names no
// approval could mean a card of another subscription, if this connection has one.
func (s *subscription) answers(cmd *blockstream.Approval) ([]toolcall.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cmd.Key == "" && s.left {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "submit_response", What: blockstream.ErrWhichApproval.Error(), Hint: "it could mean another card that this connection has shown: name the approval_key", Err: blockstream.ErrWhichApproval}
	}
	return s.mapper.Responses(cmd)
}

// follow sends the session's frames until ctx ends.
func (s *subscription) follow(ctx context.Context) {
	var past []sequenced
	live := false
	err := s.p.Feeds.Events(ctx, s.p, s.session, 0, func(b gateway.EventBatch) error {
		events := make([]sequenced, 0, len(b.Events))
		for _, e := range b.Events {
			ev, err := message.DecodeEvent(e.Event)
			if err != nil {
				return err // the engine accepts no event that cannot be read
			}
			events = append(events, sequenced{e.Seq, ev})
		}
		switch {
		case !live && !b.Live:
			past = append(past, events...)
			return nil
		case !live:
			live = true
			all := append(past, events...) //nolint:gocritic // past is released
			past = nil
			return s.catchUp(ctx, all)
		}
		return s.onward(ctx, events, func(blockstream.Frame) bool { return true })
	})
	if err != nil && ctx.Err() == nil {
		s.c.fail(ctx, err, "")
	}
}

var errGone = errors.New("the connection has ended")

// onward sends the frames of the events that wanted accepts.
func (s *subscription) onward(ctx context.Context, events []sequenced, wanted func(blockstream.Frame) bool) error {
	for len(events) > 0 {
		n := 1 // the events of one record share its frames' numbers
		for n < len(events) && events[n].seq == events[0].seq {
			n++
		}
		s.mu.Lock()
		var frames []blockstream.Frame
		for _, e := range events[:n] {
			frames = append(frames, s.event(ctx, e.ev, true)...)
		}
		blockstream.Stamp(frames, events[0].seq)
		frames = slices.DeleteFunc(frames, func(f blockstream.Frame) bool { return !wanted(f) })
		s.markRenumbered(frames)
		s.note(frames)
		s.mu.Unlock()
		if !s.c.send(ctx, frames...) {
			return errGone
		}
		events = events[n:]
	}
	return nil
}

func (s *subscription) event(ctx context.Context, ev message.Event, live bool) []blockstream.Frame {
	s.quiet = !live
	s.before(ctx, ev, live)
	frames, err := s.mapper.Event(ev)
	if err != nil {
		return nil // it cannot be shown here; other surfaces have it
	}
	return frames
}

// before tells the mapper what it needs to know about an event.
func (s *subscription) before(ctx context.Context, ev message.Event, live bool) {
	if rec, ok := agent.ParseRecord(ev); ok {
		if urls := contentURLs(rec); len(urls) > 0 {
			s.mapper.Attach(urls)
		}
	}
	ask, ok := ev.(*message.RequireUserConfirm)
	if !ok {
		return
	}
	for _, b := range ask.ToolCalls {
		key := toolcall.Key{Space: s.p.Space.ID, Session: s.session, Reply: ask.Reply, Call: b.ID}
		q := blockstream.OpenRequest{Digest: ask.RequestDigest()}
		if live {
			if call := s.show(ctx, key); call != nil && call.Digest == q.Digest && call.Request != nil {
				q.Text, q.Deadline = call.RequestText(), call.Request.Requirement.Ends()
			}
		}
		s.asked[shownAs(key, b.Input)] = q
	}
}

// note records which cards the client has.
func (s *subscription) note(frames []blockstream.Frame) {
	for _, f := range frames {
		if start, ok := f.(*blockstream.BlockStart); ok {
			if b, ok := start.Block.(*blockstream.ApprovalRequest); ok {
				s.shown[b.ApprovalKey] = true
			}
		}
	}
}

// catchUp sends what a new subscriber must know: the reply to subscribe, the replay, and the open
// approval requests that are not in it.
func (s *subscription) catchUp(ctx context.Context, past []sequenced) error {
	begin, running := lastTurn(past)
	status := blockstream.StatusCompleted
	if running {
		status = blockstream.StatusRunning
	}
	if !s.c.send(ctx, &blockstream.Subscribed{Session: s.session, Status: status}) {
		return errGone
	}
	open, err := s.open(ctx)
	if err != nil {
		return err
	}
	if s.last != nil && s.clean(past, begin, open) {
		from := slices.IndexFunc(past, func(e sequenced) bool { return e.seq >= s.last.Seq })
		s.skip(ctx, past[:max(from, 0)])
		err = s.onward(ctx, past[max(from, 0):], func(f blockstream.Frame) bool {
			at, err := blockstream.ParseCursor(f.Head().EventID)
			return err == nil && at.After(*s.last)
		})
	} else {
		err = s.turn(ctx, past, begin, open)
	}
	if err != nil {
		return err
	}
	return s.resend(ctx, open)
}

// lastTurn returns where the last turn begins, and whether it continues.
func lastTurn(past []sequenced) (begin int, running bool) {
	ended := map[message.ReplyID]bool{} // of the replies that have begun
	current := message.ReplyID("")      // the mapper continues an earlier reply after the end of a later one
	for i, e := range past {
		reply := e.ev.ReplyID()
		if rec, ok := agent.ParseRecord(e.ev); ok {
			reply = rec.Reply
		}
		if _, begun := ended[reply]; reply != "" && !begun { // else it is late for its turn
			begin, ended[reply] = i, false
		}
		if reply != "" && !ended[reply] {
			current = reply
		}
		if _, ok := e.ev.(*message.ReplyEnd); ok {
			ended[reply] = true
		}
	}
	return begin, current != "" && !ended[current]
}

// clean reports whether the events after the client's place can be sent as they were: the place
// is in the last turn, and they show no card that can no longer be answered.
func (s *subscription) clean(past []sequenced, begin int, open []*toolcall.Call) bool {
	if begin < len(past) && s.last.Seq < past[begin].seq || len(past) > 0 && s.last.Seq > past[len(past)-1].seq {
		return false
	}
	from := slices.IndexFunc(past, func(e sequenced) bool { return e.seq > s.last.Seq })
	return from < 0 || !hasResolvedCard(past[from:], open)
}

// hasResolvedCard reports whether events show a card that can no longer be answered.
func hasResolvedCard(events []sequenced, open []*toolcall.Call) bool {
	return slices.ContainsFunc(events, func(e sequenced) bool {
		ask, ok := e.ev.(*message.RequireUserConfirm)
		return ok && !slices.ContainsFunc(open, func(c *toolcall.Call) bool { return c.Digest == ask.RequestDigest() })
	})
}

// skip maps events whose frames are not sent.
func (s *subscription) skip(ctx context.Context, past []sequenced) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range past {
		s.event(ctx, e.ev, false)
	}
}

// turn sends the last turn from its beginning. Only its last frame has an id, so a client that
// loses the connection in between gets the turn again.
func (s *subscription) turn(ctx context.Context, past []sequenced, begin int, open []*toolcall.Call) error {
	s.skip(ctx, past[:begin])
	s.mu.Lock()
	s.quiet = false
	events := make([]message.Event, 0, len(past)-begin)
	for _, e := range past[begin:] {
		s.before(ctx, e.ev, true)
		events = append(events, e.ev)
	}
	frames := s.mapper.Catchup(events)
	if len(frames) > 0 {
		at := blockstream.Cursor{Seq: past[len(past)-1].seq, Frame: lastFrame}
		frames[len(frames)-1].Head().EventID = at.String()
	}
	s.renumbered = hasResolvedCard(past[begin:], open)
	s.markRenumbered(frames[max(len(frames)-1, 0):])
	s.note(frames)
	s.mu.Unlock()
	if !s.c.send(ctx, frames...) {
		return errGone
	}
	return nil
}

// lastFrame is a number after every frame of a record.
const lastFrame = 999_999

// open lists the session's open approval requests.
func (s *subscription) open(ctx context.Context) ([]*toolcall.Call, error) {
	c, err := s.p.Reader()
	if err != nil {
		return nil, err
	}
	return engine.ListAll(ctx, c, toolcall.ListRequest{Session: s.session, States: []message.ToolCallState{message.ToolCallAsking}}, 0)
}

// resend shows the open approval requests for which the client has no card.
func (s *subscription) resend(ctx context.Context, open []*toolcall.Call) error {
	for _, call := range open {
		asked, err := blockstream.FromCall(call, time.Now())
		if err != nil {
			continue // it cannot be shown here; other surfaces have it
		}
		s.mu.Lock()
		var frames []blockstream.Frame
		if !s.shown[asked.Key] {
			frames = s.mapper.Resend(asked)
			s.renumbered = s.renumbered || len(frames) > 0
		}
		s.note(frames)
		s.mu.Unlock()
		if !s.c.send(ctx, frames...) {
			return errGone
		}
	}
	return nil
}
