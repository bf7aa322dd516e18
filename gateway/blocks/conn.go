package blocks

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/askance-dev/askance/gateway"
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

// conn is one socket.
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

// beat pings the client.
func (c *conn) beat(ctx context.Context, cancel context.CancelFunc) {
	tick := time.NewTicker(c.s.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
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
