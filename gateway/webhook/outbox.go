package webhook

import (
	"context"
	"time"

	"github.com/askance-dev/askance/message"
)

// Outbox keeps what each destination is still to be told. bus.Outbox is one, but
// for the names of its types. Its methods may be called from several goroutines.
type Outbox interface {
	// Follow hands out facts for a destination until ctx ends. f runs in
	// goroutines of its own and settles each delivery.
	Follow(ctx context.Context, destination string, f func(context.Context, Delivery)) error
	// Record reads one fact again.
	Record(ctx context.Context, seq uint64) (message.Record, error)
	// Bury keeps a delivery that is given up, Dig takes it out, and Letters lists
	// what is buried.
	Bury(ctx context.Context, l Letter) error
	Dig(ctx context.Context, destination string, seq uint64) error
	Letters(ctx context.Context) ([]Letter, error)
}

// Delivery is one fact on its way to one destination.
type Delivery struct {
	Record message.Record
	// Attempt is how often the fact has been handed out, this time included.
	Attempt int
	// Done settles it for good; Again asks for it once more after a pause.
	Done  func(context.Context) error
	Again func(pause time.Duration) error
}

// Letter is a delivery that was given up.
type Letter struct {
	Destination string    `json:"destination"`
	Seq         uint64    `json:"seq"` // of the fact
	Attempts    int       `json:"attempts"`
	Error       string    `json:"error"` // of the last attempt
	At          time.Time `json:"at"`    // when it was given up
}
