package blockstream

// The codes with which the server closes a socket. Closing never affects the
// run: a socket is only a viewer. Heartbeat is the original's; the others are
// RFC 6455's and, from 4000 on, ours.
const (
	CloseNormal          = 1000 // the client is done
	CloseGoingAway       = 1001 // the server stops: reconnect
	CloseUnsupported     = 1003 // a binary frame
	CloseTooBig          = 1009 // a command over the size limit
	CloseInternal        = 1011 // a defect of ours: reconnect
	CloseTryAgain        = 1013 // too many connections, or no engine: reconnect later
	CloseUnauthenticated = 4001 // no auth in time, or a wrong token: do not reconnect with it
	CloseForbidden       = 4003 // may not see this session
	CloseHeartbeat       = 4008 // no sign of life in time: reconnect
	CloseTooSlow         = 4013 // the client reads slower than frames come: reconnect
)
