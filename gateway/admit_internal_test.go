package gateway

import (
	"errors"
	"testing"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
)

// Credentials can end while an operation waits for its turn: then it is not carried out, not even
// a read.
func TestOperationsAfterTheCredentials(t *testing.T) {
	b := bounded{pools: capacity.NewSet(capacity.Default()), peer: &Peer{Identity: Identity{InForce: func() bool { return false }}}}
	for _, op := range api.Table() {
		if _, err := b.Call(t.Context(), op, nil); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s: %v", op.Name, err)
		}
	}
}
