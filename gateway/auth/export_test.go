package auth

import "context"

// WithPeer returns the context of a request that a user sends over a Unix socket.
func WithPeer(ctx context.Context, uid uint32) context.Context {
	return context.WithValue(ctx, peerKey{}, uid)
}
