package journal

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// The number of the next part reveals that a part was lost in transit.
func TestPartsOfACopyAreCounted(t *testing.T) {
	full := make([]byte, backupChunk)
	for name, tc := range map[string]struct {
		reply string
		data  []byte
		ok    bool
	}{
		"the next":               {"$JS.SNAPSHOT.ACK.S.x.131072.7", full, true},
		"one is missing":         {"$JS.SNAPSHOT.ACK.S.x.131072.8", full, false},
		"another size":           {"$JS.SNAPSHOT.ACK.S.x.131072.7", full[:9], false},
		"the last":               {"", full[:9], true},
		"a full part, uncounted": {"", full, false},
	} {
		if err := checkChunk(&nats.Msg{Reply: tc.reply, Data: tc.data}, 7); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
