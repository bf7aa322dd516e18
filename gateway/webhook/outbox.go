package webhook

import (
	"context"

	"github.com/askance-dev/askance/message"
)

// Outbox keeps what each destination is still to be told. bus.Outbox is one.
// Its methods may be called from several goroutines.
type Outbox interface {
	// Follow hands out event records for a destination until ctx ends. f runs in
	// goroutines of its own and resolves each delivery.
	Follow(ctx context.Context, destination string, f func(context.Context, message.Delivery)) error
	// Record reads one event record again.
	Record(ctx context.Context, seq uint64) (message.JournalEntry, error)
	// Bury keeps a delivery that is given up, Dig takes it out, and Letters lists
	// what is buried.
	AddDeadLetter(ctx context.Context, l message.DeadLetter) error
	RemoveDeadLetter(ctx context.Context, destination string, seq uint64) error
	DeadLetters(ctx context.Context) ([]message.DeadLetter, error)
}
