package strictjson

// The default limits.
const (
	// DefaultMaxBytes is the longest accepted input: 1 MiB, the default payload limit
	// of a NATS server.
	DefaultMaxBytes = 1 << 20
	// DefaultMaxDepth is the deepest accepted nesting of objects and arrays.
	DefaultMaxDepth = 64
)

// hardMaxDepth keeps the recursion of the decoder within a small stack for any
// MaxDepth.
const hardMaxDepth = 10_000

// An Option changes a limit.
type Option func(limits) limits

// MaxBytes accepts inputs of up to n bytes. n < 1 leaves the default.
func MaxBytes(n int) Option {
	return func(l limits) limits {
		if n > 0 {
			l.bytes = n
		}
		return l
	}
}

// MaxDepth accepts up to n objects and arrays within each other, at most
// 10,000. n < 1 leaves the default.
func MaxDepth(n int) Option {
	return func(l limits) limits {
		if n > 0 {
			l.depth = min(n, hardMaxDepth)
		}
		return l
	}
}

// KeepBigIntegers decodes integers that do not fit int64 into an any as encoding/json's
// Number, digit for digit, instead of refusing them. [Marshal] writes them unchanged.
func KeepBigIntegers() Option {
	return func(l limits) limits { l.keepBig = true; return l }
}

// limits is the result of the options.
type limits struct {
	bytes   int
	depth   int
	keepBig bool
}

func limitsOf(opts []Option) limits {
	l := limits{bytes: DefaultMaxBytes, depth: DefaultMaxDepth}
	for _, o := range opts {
		l = o(l)
	}
	return l
}
