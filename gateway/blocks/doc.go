// Package blocks serves sessions over a WebSocket as the content-block stream:
// turns of indexed blocks, approval_request, approval_result (see package
// blockstream for the format, and BLOCKS.md for a client).
//
//	blocks.New(blocks.Config{Runners: runners})
//
// # A connection
//
// The server says connected. Without credentials in the request's header the
// client says auth, within ten seconds. It then subscribes to a session, chats,
// stops, or answers approvals; one session at a time is followed.
//
// # Guarantees
//
//   - A socket is only a viewer: closing it affects nothing.
//   - After subscribe the server shows every open approval request of the session
//     once, of any age, and none that has its response.
//   - A subscriber with last_event_id gets the frames after it if every card that
//     they show is still open; otherwise, and without one, the present turn from
//     its message_start.
//   - An approval answers the approval requests as this connection was sent them.
//   - The server closes a client that does not answer pings with 4008, one that
//     reads too slowly with 4013; both reconnect.
//   - An error frame answers a bad command, which has no effect.
package blocks
