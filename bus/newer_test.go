package bus_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// ofVersion returns the member of an event record that contains its version.
func ofVersion(v int) string { return fmt.Sprintf(`"v":%d`, v) }

// otherVersions are bodies that another version of the engine could write, with the expected error.
var otherVersions = []struct {
	name string
	with func(body string) string
	want string
}{
	{"with a later version", func(body string) string {
		return strings.Replace(body, ofVersion(toolcall.RecordVersion), ofVersion(toolcall.StoredVersion+1), 1)
	}, "version 4, this program reads versions 2 and 3"},
	{"with the version before the names changed", func(body string) string {
		return strings.Replace(strings.Replace(body, ofVersion(toolcall.RecordVersion), ofVersion(1), 1), `"call":{`, `"call":{"tree":7,`, 1)
	}, "version 1, this program reads versions 2 and 3"},
	{"without a version", func(body string) string { return strings.Replace(body, ofVersion(toolcall.RecordVersion)+",", "", 1) }, "version 0, this program reads versions 2 and 3"},
	{"with a member that is not known here", func(body string) string {
		return strings.Replace(body, ofVersion(toolcall.RecordVersion), ofVersion(toolcall.RecordVersion)+`,"denied_for":"fraud"`, 1)
	}, "denied_for"},
	{"with another form", func(string) string { return "\x83\x01\x02\x03" }, "another version wrote it"},
}

// An engine that cannot read an event record of another version must not continue from the previous
// record, which may say allowed where the new one says finished.
func TestRecordOfAnotherVersionIsNotPassedOver(t *testing.T) {
	for _, tc := range otherVersions {
		t.Run(tc.name, func(t *testing.T) {
			b := bustest.New(t)
			key, id, _ := handKeys(t, b)
			j := b.Journal("test")
			w := bustest.Watch(t, j, 0)
			bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallAllowed, "allow"), 0)
			body, err := strictjson.Marshal(bustest.CallRecord("f2", bustest.CallKey("c1"), message.ToolCallFinished, "revoke"))
			if err != nil {
				t.Fatal(err)
			}
			bustest.Store(t, b.Conn("newer"), handRecord(key, id, "test", "f2", "revoke", tc.with(string(body)), 1))

			r, err := j.Last(t.Context(), bustest.CallKey("c1"))
			if !errors.Is(err, message.ErrUnavailable) {
				t.Errorf("Last = %+v, %v; want an error", r.Record, err)
			}
			if text := fmt.Sprint(err); !strings.Contains(text, tc.want) || !strings.Contains(text, "read record 2 on askance.v1.test.record.s1.r1.c1.f") || message.AsError("", err).Hint == "" {
				t.Errorf("the error is %q, want what (…%s…), where and a hint", text, tc.want)
			}
			if seq, err := j.Append(t.Context(), bustest.CallRecord("f3", bustest.CallKey("c1"), message.ToolCallSubmitted, "submit"), 1); !errors.Is(err, message.ErrConflict) {
				t.Errorf("Append = %d, %v; want a conflict", seq, err)
			}
			// An invalid message after it does not hide it.
			bustest.Store(t, b.Conn("forger"), nats.NewMsg("askance.v1.test.record.s1.r1.c1.f"))
			if r, err := j.Last(t.Context(), bustest.CallKey("c1")); !errors.Is(err, message.ErrUnavailable) {
				t.Errorf("Last before rubbish = %+v, %v; want an error", r.Record, err)
			}
			if seq, err := j.Append(t.Context(), bustest.CallRecord("f3", bustest.CallKey("c1"), message.ToolCallSubmitted, "submit"), 1); !errors.Is(err, message.ErrConflict) {
				t.Errorf("Append before rubbish = %d, %v; want a conflict", seq, err)
			}
			records := w.Wait(t, "watch", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 3 })
			if r := records[1]; r.Invalid == nil || r.Record != nil || r.Key != bustest.CallKey("c1") {
				t.Errorf("watch delivered %+v", r)
			}
			// Other calls continue.
			bustest.MustAppend(t, j, bustest.CallRecord("g1", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0)
		})
	}
}

// A hand-made event record of the current version is readable. Otherwise the test above would prove
// nothing.
func TestRecordMadeByHand(t *testing.T) {
	b := bustest.New(t)
	key, id, _ := handKeys(t, b)
	j := b.Journal("test")
	body, err := strictjson.Marshal(bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Store(t, b.Conn("hand"), handRecord(key, id, "test", "f1", "propose", string(body), 0))
	if r, err := j.Last(t.Context(), bustest.CallKey("c1")); err != nil || r.Record.ID != "f1" {
		t.Errorf("Last = %+v, %v", r, err)
	}
}

// A task that only a newer worker can read stays in the queue for such a worker.
func TestNextLeavesNewerTasksAlone(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		j := w.journalWithQueue(t)
		w.tasks()
		for _, body := range []string{"{" + ofVersion(toolcall.StoredVersion+1) + `,"id":"f1","call":{"in":"another form"}}`, "{" + ofVersion(toolcall.StoredVersion+1) + `,"id":"f1"}`} {
			m := nats.NewMsg("askance.v1.test.record.s1.r1.c1.w.job")
			m.Data = []byte(body)
			bustest.Store(t, w.Conn("newer"), m)
		}
		bustest.MustAppend(t, j, bustest.WorkRecord("f2", bustest.CallKey("c2"), job), 0)
		if task := next(t, w.worker(job, "wk")); task.Record.ID != "f2" {
			t.Errorf("task %+v", task.Record)
		}
		synctest.Wait()
		c, err := bustest.Stream(t, w.Bus).Consumer(t.Context(), bus.ConsumerName(toolcall.Queue{Tool: job}))
		if err != nil {
			t.Fatal(err)
		}
		if n := c.CachedInfo().NumAckPending; n != 3 {
			t.Errorf("%d tasks are on the queue, want all three", n)
		}
	})
}
