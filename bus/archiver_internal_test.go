package bus

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// A scan keeps tokens of subjects, and not the headers that have the subjects.
func TestScanKeepsNoHeaders(t *testing.T) {
	const replies, header = 2000, 50_000
	s := &replyScan{replies: map[[2]Token]*replyRecords{}}
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for i := range replies {
		key := toolcall.Key{Space: "x", Session: "s", Reply: message.ReplyID(fmt.Sprint("r", i)), Call: "c"}
		subject, err := recordSubject(key, toolcall.Queue{})
		if err != nil {
			t.Fatal(err)
		}
		text := subject.String()
		text = (text + strings.Repeat(" ", header))[:len(text)]
		c := &toolcall.Call{Key: key, State: message.ToolCallAsking}
		s.noteRecord("x", stored{seq: uint64(i + 1), subject: text}, toolcall.JournalEntry{Record: &toolcall.EventRecord{Call: c}})
	}
	if len(s.replies) != replies {
		t.Fatalf("%d replies", len(s.replies))
	}
	if size := heap() - before; size > replies*header/10 {
		t.Errorf("a scan of %d replies keeps %d MB", replies, size>>20)
	}
	runtime.KeepAlive(s)
}
