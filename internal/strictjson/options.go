package strictjson

// Limits that hold unless an option says otherwise.
const (
	// DefaultMaxBytes is the longest accepted input: 1 MiB, the payload limit of
	// a NATS server out of the box.
	DefaultMaxBytes = 1 << 20
	// DefaultMaxDepth is the deepest accepted nesting of objects and arrays.
	DefaultMaxDepth = 64
)

// hardMaxDepth keeps every recursive step of the decoder below within a small
// stack for any MaxDepth.
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

// KeepBigIntegers makes integers that an any would refuse, because int64 cannot
// hold them, arrive in it as encoding/json's Number, digit for digit. [Marshal]
// writes them back as they were.
func KeepBigIntegers() Option {
	return func(l limits) limits { l.keepBig = true; return l }
}

// limits is what the options add up to.
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
