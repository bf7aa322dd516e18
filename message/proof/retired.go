package proof

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// Retired says, by key id, when engine keys were retired. What they signed until
// then stays good.
type Retired map[string]time.Time

// hearing is within which time of a retirement an engine hears of it.
const hearing = time.Minute

// Over reports whether a key was retired at a time, and every engine knew it.
func (r Retired) Over(keyID string, at time.Time) bool {
	end, is := r[keyID]
	return is && at.After(end.Add(hearing))
}

// Check refuses a checkpoint that was signed when its key was retired already:
// by its own time, or by that of the genuine checkpoint before it, if that is
// known. The holder of a retired key can write any time into a checkpoint, but none
// behind which it stands.
func (r Retired) Check(c Checkpoint, before *Checkpoint) error {
	at := c.At
	if before != nil && before.At.After(at) {
		at = before.At
	}
	if !r.Over(c.KeyID, at) {
		return nil
	}
	return &message.Error{Code: message.CodeForbidden, Op: "verify checkpoint", What: fmt.Sprintf("%s is signed by the engine key %s, which was retired at %s, before", c, c.KeyID, r[c.KeyID].UTC().Format(time.RFC3339)), Hint: "find out who has the retired key"}
}
