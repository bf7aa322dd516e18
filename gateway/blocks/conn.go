// Package blocks serves sessions over a WebSocket as the content-block stream:
// turns of indexed blocks, approval_request, approval_result (see package
// blockstream for the format, and BLOCKS.md for a client).
//
//	blocks.New(blocks.Config{Runners: runners})
//
// # A connection
//
// The server sends connected. Without credentials in the request's header the client sends auth
// within ten seconds. It then subscribes to a session, chats, stops, or answers approvals; it
// follows one session at a time.
//
// # Guarantees
//
//   - A socket is only a viewer: closing it affects nothing.
//   - After subscribe the server shows every open approval request of the session once, of any
//     age, and none that already has its response.
//   - A subscriber with last_event_id gets the frames after it if every card that they show is
//     still open. Otherwise, or without the id, it gets the current turn from its message_start.
//   - An approval answers the approval requests as they were sent to this connection.
//   - The server closes a client that does not answer pings with 4008, one that
//     reads too slowly with 4013; both reconnect.
//   - An error frame answers a bad command, which has no effect.
package blocks

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
)

const (
	// writeTime is how long a client may take for one frame.
	writeTime = 10 * time.Second
	// queueFrames is how many frames wait for a client; a producer of more has to wait.
	queueFrames = 256
	// queueCommands is how many commands wait while one is carried out.
	queueCommands = 16
	// maxStranger bounds a command before the client has authenticated.
	maxStranger = 64 << 10
)

type conn struct {
	s     *Surface
	ws    *websocket.Conn
	r     *http.Request
	mode  blockstream.DisplayMode
	agent string

	out chan blockstream.Frame

	mu   sync.Mutex    // guards what follows
	peer *gateway.Peer // nil: not authenticated
	sub  *subscription // nil: none
	code websocket.StatusCode
	why  string

	wg sync.WaitGroup
}

func newConn(s *Surface, ws *websocket.Conn, r *http.Request, p *gateway.Peer, mode blockstream.DisplayMode) *conn {
	return &conn{
		s: s, ws: ws, r: r, peer: p, mode: mode, agent: r.URL.Query().Get("agent"),
		out: make(chan blockstream.Frame, queueFrames), code: blockstream.CloseGoingAway, why: "the server stops, or the credentials have ended",
	}
}

// run serves the socket until it is closed.
func (c *conn) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer c.wg.Wait()
	defer cancel()
	written := make(chan struct{})
	c.wg.Go(func() { defer close(written); c.write(ctx, cancel) })
	c.wg.Go(func() { c.beat(ctx, cancel) })
	c.wg.Go(func() { // also ends the reading below
		<-ctx.Done()
		<-written
		c.mu.Lock()
		code, why := c.code, c.why
		c.mu.Unlock()
		_ = c.ws.Close(code, why) // the client may be gone
	})
	c.send(ctx, &blockstream.Connected{})
	if c.peer == nil {
		defer time.AfterFunc(c.s.cfg.AuthWithin, func() {
			if c.who() == nil {
				c.end(cancel, blockstream.CloseUnauthenticated, "no auth in time")
			}
		}).Stop()
	}
	c.read(ctx, cancel)
}

// read passes on commands and handles pings, even while a command takes long. It ends when the
// socket is closed: ending its context would drop the connection without a reason.
func (c *conn) read(ctx context.Context, cancel context.CancelFunc) {
	commands, done := make(chan []byte, queueCommands), make(chan struct{})
	go func() {
		defer close(done)
		for data := range commands {
			if !c.command(ctx, cancel, data) {
				cancel()
				return
			}
		}
	}()
	defer func() { // what has arrived is carried out
		close(commands)
		<-done
	}()
	for {
		kind, data, err := c.ws.Read(context.WithoutCancel(ctx))
		if err != nil {
			c.readError(err)
			return
		}
		if kind != websocket.MessageText {
			c.end(cancel, blockstream.CloseUnsupported, "commands are text frames")
			return
		}
		if c.who() == nil { // nothing waits in memory for a client without credentials
			if !c.command(ctx, cancel, data) {
				return
			}
			if c.who() != nil {
				c.ws.SetReadLimit(blockstream.MaxCommandBytes)
			}
			continue
		}
		select {
		case commands <- data:
		case <-ctx.Done():
			return
		}
	}
}

// end records why the socket is closed, if no other reason is recorded, and ends the connection.
func (c *conn) end(cancel context.CancelFunc, code websocket.StatusCode, why string) {
	c.mu.Lock()
	if c.code == blockstream.CloseGoingAway {
		c.code, c.why = code, why
	}
	c.mu.Unlock()
	cancel()
}

func (c *conn) readError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.code != blockstream.CloseGoingAway:
	case errors.Is(err, websocket.ErrMessageTooBig):
		c.code, c.why = blockstream.CloseTooBig, "a command is over the limit"
	case websocket.CloseStatus(err) != -1:
		c.code, c.why = blockstream.CloseNormal, ""
	}
}

// send puts frames into the queue. It returns false when the connection ends.
func (c *conn) send(ctx context.Context, frames ...blockstream.Frame) bool {
	for _, f := range frames {
		select {
		case c.out <- f:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// write writes the queue to the socket, and at the end what is left in it, unless the credentials
// have ended.
func (c *conn) write(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	var buf []byte
	for {
		var f blockstream.Frame
		select {
		case f = <-c.out:
		case <-ctx.Done():
			select {
			case f = <-c.out:
			default:
				return
			}
		}
		if errors.Is(gateway.Ended(c.r.Context()), message.ErrForbidden) {
			return
		}
		var err error
		if buf, err = blockstream.AppendFrame(buf[:0], f); err != nil {
			c.end(cancel, blockstream.CloseInternal, "a frame could not be written")
			return
		}
		if !c.writeOne(ctx, cancel, buf) {
			return
		}
	}
}

func (c *conn) writeOne(ctx context.Context, cancel context.CancelFunc, b []byte) bool {
	timed, stop := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer stop()
	err := c.ws.Write(timed, websocket.MessageText, b)
	if timed.Err() != nil {
		c.end(cancel, blockstream.CloseTooSlow, "the client reads too slowly")
	}
	return err == nil
}

func (c *conn) beat(ctx context.Context, cancel context.CancelFunc) {
	for range gateway.Every(ctx, c.s.cfg.Heartbeat) {
		timed, stop := context.WithTimeout(ctx, c.s.cfg.Heartbeat)
		err := c.ws.Ping(timed)
		late := timed.Err() != nil && ctx.Err() == nil
		stop()
		if late {
			c.end(cancel, blockstream.CloseHeartbeat, "no sign of life")
		}
		if err != nil {
			return
		}
	}
}

// who returns the peer, or nil if there is none yet.
func (c *conn) who() *gateway.Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

// fail answers a command that had no effect.
func (c *conn) fail(ctx context.Context, err error, key string) bool {
	return c.send(ctx, blockstream.ErrorFrame(err, key))
}

func (c *conn) failText(ctx context.Context, code message.Code, what, hint string) bool {
	return c.fail(ctx, &message.Error{Code: code, Op: "blocks", What: what, Hint: hint}, "")
}

// Config says what the surface serves.
type Config struct {
	// Runners run the agents. In a space without a runner, sessions can be watched and answered,
	// but no turn can begin.
	Runners agent.Runners
	// Heartbeat is how often a client is pinged, and how long its answer may take; default 20 s.
	Heartbeat time.Duration
	// AuthWithin is how long a client may take to send auth; default 10 s.
	AuthWithin time.Duration
}

// Surface is the gateway's surface. It is safe for concurrent use.
type Surface struct{ cfg Config }

// New makes the surface.
func New(cfg Config) *Surface {
	cfg.Heartbeat = cmp.Or(max(cfg.Heartbeat, 0), 20*time.Second)
	cfg.AuthWithin = cmp.Or(max(cfg.AuthWithin, 0), 10*time.Second)
	return &Surface{cfg: cfg}
}

// Path is where the socket is.
const Path = "/blocks"

// Routes implements gateway.Surface.
func (s *Surface) Routes() []gateway.Route {
	return []gateway.Route{{
		Method: http.MethodGet, Path: Path, Access: gateway.Readers, OwnAuth: true, Stream: true,
		Doc: "Open the content-block stream, a WebSocket.", Serve: s.serve,
	}}
}

func (s *Surface) serve(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	mode := blockstream.DisplayMode(r.URL.Query().Get("display_mode"))
	if mode != "" && !mode.Valid() {
		return &message.Error{Code: message.CodeInvalid, Op: "blocks", What: fmt.Sprintf("display_mode is %.40q", string(mode)), Hint: "use agent or chat"}
	}
	if r.Header.Get("Upgrade") == "" {
		w.Header().Set("Upgrade", "websocket")
		return &message.Error{Code: message.CodeInvalid, Op: "blocks", What: "this is a WebSocket", Hint: "connect with a WebSocket client"}
	}
	// The gateway has compared the origin already, with its own list.
	ws, err := websocket.Accept(wholeMessages{w}, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err == nil { // else it has been answered
		ws.SetReadLimit(blockstream.MaxCommandBytes)
		if p == nil {
			ws.SetReadLimit(maxStranger)
		}
		newConn(s, ws, r, p, mode).run(r.Context())
	}
	return nil
}

// wholeMessages is a ResponseWriter for websocket.Accept, which treats an io.EOF between the
// frames of a message as the end of the message.
type wholeMessages struct{ http.ResponseWriter }

func (w wholeMessages) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return wholeConn{c}, rw, nil
}

// wholeConn ends only with a WebSocket's close frame; any other end is unexpected.
type wholeConn struct{ net.Conn }

func (c wholeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
