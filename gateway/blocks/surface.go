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
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
)

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
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 20 * time.Second
	}
	if cfg.AuthWithin <= 0 {
		cfg.AuthWithin = 10 * time.Second
	}
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
		return &message.Error{Code: message.CodeInvalid, Op: "blocks", What: "display_mode is none", Hint: "use agent or chat"}
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

// Hijack implements http.Hijacker.
func (w wholeMessages) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return wholeConn{c}, rw, nil
}

// wholeConn ends only with a WebSocket's close frame; any other end is unexpected.
type wholeConn struct{ net.Conn }

// Read implements net.Conn.
func (c wholeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
