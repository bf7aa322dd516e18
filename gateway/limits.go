package gateway

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound what one peer can request. Zero values are the defaults.
type Limits struct {
	// PerSecond is the sustained rate of one peer's requests, Burst how many are
	// accepted at once; reads count separately. Defaults: 500 and 2000.
	PerSecond float64
	Burst     int
	Streams   int // open streams of one peer; default 2048
	// Failures is how many wrong credentials from one address are answered per minute; default 30.
	// Valid credentials are always accepted.
	Failures int
}

func (l Limits) withDefaults() Limits {
	if l.PerSecond <= 0 {
		l.PerSecond = 500
	}
	if l.Burst <= 0 {
		l.Burst = 2000
	}
	if l.Streams <= 0 {
		l.Streams = 2048
	}
	if l.Failures <= 0 {
		l.Failures = 30
	}
	return l
}

const (
	maxBuckets = 1 << 16         // of peers, and of addresses
	bucketLife = 5 * time.Minute // of an unused one: it is full again by then
)

// limiter applies Limits. It is safe for concurrent use.
type limiter struct {
	limits Limits

	mu        sync.Mutex // guards what follows
	peers     buckets
	addresses buckets
	streams   map[string]int
}

func newLimiter(l Limits) *limiter {
	l = l.withDefaults()
	return &limiter{
		limits: l, streams: map[string]int{},
		peers:     buckets{limit: rate.Limit(l.PerSecond), burst: l.Burst, all: map[string]*bucket{}},
		addresses: buckets{limit: rate.Limit(float64(l.Failures) / 60), burst: l.Failures, all: map[string]*bucket{}},
	}
}

func peerKey(p *Peer) string { return string(p.Space.ID) + "\x00" + p.Name }

// takeRequest reports whether a peer may make one more request. Reads cannot use up
// the requests that decide or stop something.
func (l *limiter) takeRequest(p *Peer, alters bool) bool {
	key := peerKey(p)
	if !alters {
		key += "\x00read"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peers.take(key, time.Now())
}

// takeFailure reports whether one more wrong credential from an address is answered.
func (l *limiter) takeFailure(remote string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addresses.take(address(remote), time.Now())
}

// takeStream counts a stream as open until done is called.
func (l *limiter) takeStream(p *Peer) (done func(), ok bool) {
	key := peerKey(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[key] >= l.limits.Streams {
		return nil, false
	}
	l.streams[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.streams[key]--; l.streams[key] <= 0 {
			delete(l.streams, key)
		}
	}, true
}

// address returns the client address of a request; for IPv6, its /64 network, and for a Unix
// socket, the user.
func address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return remote // the user of a Unix socket
	}
	if ip.Unmap().Is4() {
		return host
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}

// buckets are at most maxBuckets token buckets by name.
type buckets struct {
	limit rate.Limit
	burst int
	all   map[string]*bucket
	swept time.Time
}

type bucket struct {
	*rate.Limiter
	used time.Time
}

func (b *buckets) take(name string, now time.Time) bool {
	found := b.all[name]
	if found == nil {
		b.sweep(now)
		if len(b.all) >= maxBuckets {
			name = "" // shared by all that do not fit
			found = b.all[name]
		}
	}
	if found == nil {
		found = &bucket{Limiter: rate.NewLimiter(b.limit, b.burst)}
		b.all[name] = found
	}
	found.used = now
	return found.AllowN(now, 1)
}

// sweep removes the buckets that are full again.
func (b *buckets) sweep(now time.Time) {
	if now.Sub(b.swept) < bucketLife/5 {
		return
	}
	b.swept = now
	for name, old := range b.all {
		if now.Sub(old.used) > bucketLife {
			delete(b.all, name)
		}
	}
}
