package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// dataFolder is the data folder of a space with a journal: the folder nats, the key and the anchor.
type dataFolder struct{ dir string }

func (d dataFolder) nats() string     { return filepath.Join(d.dir, "nats") }
func (d dataFolder) keys() string     { return filepath.Join(d.dir, "engine.key") }
func (d dataFolder) anchor() string   { return filepath.Join(d.dir, "anchor") }
func (d dataFolder) streams() string  { return filepath.Join(d.nats(), "jetstream", "$G", "streams") }
func (d dataFolder) journal() string  { return filepath.Join(d.streams(), "ASKANCE_test") }
func (d dataFolder) proof() string    { return filepath.Join(d.streams(), "ASKANCE_PROOF_test") }
func (d dataFolder) block() string    { return filepath.Join(d.journal(), "msgs", "1.blk") }
func (d dataFolder) proofBlk() string { return filepath.Join(d.proof(), "msgs", "1.blk") }

// opened is a journal that is open in a store.
type opened struct {
	*bustest.Bus
	journal *journal.Journal
	anchor  *journal.Anchor
}

// open opens the store as an engine does.
func (d dataFolder) open(t testing.TB, opts ...bustest.Option) (*opened, error) {
	t.Helper()
	keys, err := journal.LoadOrCreateSpaceKeys(d.keys(), d.anchor())
	if err != nil {
		t.Fatal(err)
	}
	anchor, err := journal.OpenAnchor(d.anchor(), "test", keys)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = anchor.Close() })
	b := bustest.New(t, append(opts, bustest.In(d.nats()))...)
	b.UseKeys(keys)
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	j, err := journal.Open(ctx, b.Conn("engine"), "test", keys, journal.Options{Anchor: anchor, Health: b.Health})
	if err != nil {
		b.Close()
		return nil, err
	}
	return &opened{b, j, anchor}, nil
}

func (d dataFolder) mustOpen(t testing.TB) *opened {
	t.Helper()
	o, err := d.open(t)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return o
}

// stop closes the store normally.
func (o *opened) stop(t testing.TB) {
	t.Helper()
	o.Close()
	if err := o.anchor.Close(); err != nil {
		t.Error(err)
	}
}

// calls appends first event records of n calls.
func (o *opened) calls(t testing.TB, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		bustest.MustAppend(t, o.journal, bustest.CallRecord(bustest.ID(i), bustest.CallKey(fmt.Sprint("c", i)), message.ToolCallPending, "propose"), 0)
	}
}

// sign signs all records.
func (o *opened) sign(t testing.TB) {
	t.Helper()
	l, err := journal.OpenLedger(t.Context(), o.journal, journal.LedgerOptions{Engine: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The anchor knows the content of the highest record, even if another engine stored it, or the record
// is that of an event: another record in its place is a loss.
func TestAnchorKnowsTheLastRecord(t *testing.T) {
	d := dataFolder{bustest.Dir(t)}
	o := d.mustOpen(t)
	other, err := journal.Open(t.Context(), o.Conn("other"), "test", o.Keys(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile(`mark 0*([0-9]+) ([0-9a-f]{64})`)
	known := func(low uint64) {
		t.Helper()
		text, err := os.ReadFile(d.anchor())
		if err != nil {
			t.Fatal(err)
		}
		m := marked.FindStringSubmatch(string(text))
		if m == nil || m[2] == strings.Repeat("0", 64) {
			t.Fatalf("the anchor has the mark %q", m)
		}
		if seq, err := strconv.ParseUint(m[1], 10, 64); err != nil || seq < low {
			t.Errorf("the mark is %d, %v, want at least %d", seq, err, low)
		}
	}
	watching := bustest.Watch(t, o.journal, 0)
	for i := range 3 {
		bustest.MustAppend(t, other, bustest.CallRecord(bustest.ID(i), bustest.CallKey(fmt.Sprint("c", i)), message.ToolCallPending, "propose"), 0)
		watching.Wait(t, "the record", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == i+1 })
	}
	known(2) // the mark follows the delivery
	seq, err := o.journal.AppendEvent(t.Context(), "rt", bustest.CallKey("").ReplyKey(), events(1))
	if err != nil {
		t.Fatal(err)
	}
	known(seq)
}

// The journal of these tests is signed in two checkpoints and has an unsigned end.
const signedCalls, allCalls = 120, 150

// copyTo copies the folder into dir.
func (d dataFolder) copyTo(t testing.TB, dir string) dataFolder {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(d.dir)); err != nil {
		t.Fatal(err)
	}
	to := dataFolder{dir}
	if err := os.Chmod(to.keys(), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// filled makes a store with a journal. If killed is set, it leaves the files as a killed process
// would.
func filled(t testing.TB, killed bool) dataFolder {
	t.Helper()
	s := dataFolder{t.TempDir()}
	o := s.mustOpen(t)
	o.calls(t, 0, signedCalls/2)
	o.sign(t)
	o.calls(t, signedCalls/2, signedCalls/2)
	o.sign(t)
	o.calls(t, signedCalls, allCalls-signedCalls)
	if !killed {
		o.stop(t)
		return s
	}
	dead := s.copyTo(t, t.TempDir())
	o.stop(t)
	return dead
}

// change rewrites a file.
func change(t testing.TB, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(slices.Clone(b)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func cut(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }

func flip(at float64) func([]byte) []byte {
	return func(b []byte) []byte { b[int(float64(len(b)-40)*at)] ^= 0x55; return b }
}

func zero(b []byte) []byte {
	mid := len(b) / 2
	copy(b[mid:mid+4096], make([]byte, 4096))
	return b
}

// damages lists ways to damage files. whole is set if nothing that matters is lost.
var damages = []struct {
	name  string
	do    func(t testing.TB, s dataFolder)
	whole bool
}{
	{name: "nothing", do: func(testing.TB, dataFolder) {}, whole: true},
	{name: "last byte cut", do: func(t testing.TB, s dataFolder) { change(t, s.block(), cut(1)) }},
	{name: "5 KB cut", do: func(t testing.TB, s dataFolder) { change(t, s.block(), cut(5<<10)) }},
	{name: "40 KB cut", do: func(t testing.TB, s dataFolder) { change(t, s.block(), cut(40<<10)) }},
	{name: "all cut", do: func(t testing.TB, s dataFolder) { change(t, s.block(), func([]byte) []byte { return nil }) }},
	{name: "byte flipped at the beginning", do: func(t testing.TB, s dataFolder) { change(t, s.block(), flip(0.01)) }},
	{name: "byte flipped in the middle", do: func(t testing.TB, s dataFolder) { change(t, s.block(), flip(0.5)) }},
	{name: "byte flipped at the end", do: func(t testing.TB, s dataFolder) { change(t, s.block(), flip(1)) }},
	{name: "4 KB zeroed", do: func(t testing.TB, s dataFolder) { change(t, s.block(), zero) }},
	{name: "block deleted", do: func(t testing.TB, s dataFolder) { remove(t, s.block()) }},
	{name: "journal deleted", do: func(t testing.TB, s dataFolder) { remove(t, s.journal()) }},
	{name: "proof block deleted", do: func(t testing.TB, s dataFolder) { remove(t, s.proofBlk()) }},
	{name: "proof byte flipped", do: func(t testing.TB, s dataFolder) { change(t, s.proofBlk(), flip(0.8)) }},
	{name: "proof deleted", do: func(t testing.TB, s dataFolder) { remove(t, s.proof()) }},
	{name: "journal and proof deleted", do: func(t testing.TB, s dataFolder) { remove(t, s.journal()); remove(t, s.proof()) }},
	{name: "whole store deleted", do: func(t testing.TB, s dataFolder) { remove(t, s.nats()) }},
	{name: "store and anchor deleted", do: func(t testing.TB, s dataFolder) { remove(t, s.nats()); remove(t, s.anchor()) }},
	{name: "anchor deleted", do: func(t testing.TB, s dataFolder) { remove(t, s.anchor()) }, whole: true},
	{name: "anchor flipped", do: func(t testing.TB, s dataFolder) { change(t, s.anchor(), flip(0.1)) }},
	{name: "anchor's mark flipped", do: func(t testing.TB, s dataFolder) { change(t, s.anchor(), flip(0.7)) }},
	{name: "journal's description deleted", do: func(t testing.TB, s dataFolder) { remove(t, filepath.Join(s.journal(), "meta.inf")) }},
	{name: "server's index deleted", do: func(t testing.TB, s dataFolder) { removeIndex(t, s.journal()) }, whole: true},
	{name: "garbage appended", do: func(t testing.TB, s dataFolder) {
		change(t, s.block(), func(b []byte) []byte { return append(b, bytes.Repeat([]byte{0xAB}, 3000)...) })
	}, whole: true},
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func removeIndex(t testing.TB, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "msgs", "index.db")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// A journal in which anything is lost or changed is refused within a time limit, when it is opened or
// while it is read. A journal that lost nothing is served.
func TestDamageIsRefused(t *testing.T) {
	for _, killed := range []bool{true, false} {
		name := "after a clean stop"
		if killed {
			name = "after a kill"
		}
		t.Run(name, func(t *testing.T) {
			whole := filled(t, killed)
			for _, d := range damages {
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					s := whole.copyTo(t, t.TempDir())
					d.do(t, s)
					began := time.Now()
					err := s.serve(t)
					switch {
					case d.whole && err != nil:
						t.Errorf("refused: %v", err)
					case !d.whole && !errors.Is(err, message.ErrDamaged):
						t.Errorf("served: %v", err)
					}
					if took := time.Since(began); took > time.Minute {
						t.Errorf("it took %s", took)
					}
					t.Log(err)
				})
			}
		})
	}
}

// serve opens the journal and reads all of it, as an engine does.
func (d dataFolder) serve(t testing.TB) error {
	t.Helper()
	o, err := d.open(t)
	if err != nil {
		return err
	}
	defer o.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), bustest.Patience, errors.New("it hangs"))
	defer cancel()
	sink := bustest.NewSink()
	done := make(chan error, 1)
	go func() { done <- o.journal.Watch(ctx, 0, sink) }()
	for {
		n, caught, _ := sink.Counts()
		if caught >= 0 {
			if n != allCalls {
				return fmt.Errorf("caught up with %d records", n)
			}
			return nil
		}
		select {
		case err := <-done:
			return err
		case <-sink.More:
		}
	}
}

// recreateStream deletes the journal's stream and creates an empty one.
func recreateStream(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	st, err := js.Stream(t.Context(), "ASKANCE_test")
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "ASKANCE_test"); err != nil {
		t.Fatal(err)
	}
	const notStored jetstream.ErrorCode = 10049 // the server still removes the files of the old stream
	for {
		_, err := js.CreateStream(t.Context(), st.CachedInfo().Config)
		if e, ok := errors.AsType[*jetstream.APIError](err); ok && e.ErrorCode == notStored {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
}

// An engine whose journal loses records notices with its next write, or before it accepts a lost
// call as new.
func TestLiveJournalNoticesALoss(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lose func(t testing.TB, js jetstream.JetStream)
	}{
		{"stream created again", recreateStream},
		{"purged", func(t testing.TB, js jetstream.JetStream) {
			st, err := js.Stream(t.Context(), "ASKANCE_test")
			if err == nil {
				err = st.Purge(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
		{"one record deleted", func(t testing.TB, js jetstream.JetStream) {
			st, err := js.Stream(t.Context(), "ASKANCE_test")
			if err == nil {
				err = st.DeleteMsg(t.Context(), 3)
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := dataFolder{t.TempDir()}.mustOpen(t)
			o.calls(t, 0, 5)
			js, err := jetstream.New(o.Conn("admin"))
			if err != nil {
				t.Fatal(err)
			}
			c.lose(t, js)
			if _, err := o.journal.Last(t.Context(), bustest.CallKey("c2")); !errors.Is(err, message.ErrDamaged) {
				t.Errorf("Last of a record that is gone: %v, want damaged", err)
			}
			if _, err := o.journal.Append(t.Context(), bustest.CallRecord("again", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrDamaged) {
				t.Errorf("the same call again: %v, want damaged", err)
			}
			if err := o.journal.Watch(t.Context(), 0, bustest.NewSink()); !errors.Is(err, message.ErrDamaged) {
				t.Errorf("Watch: %v, want damaged", err)
			}
		})
	}
}

// The first write to a shortened journal reveals the loss without an examination of the journal.
func TestAcknowledgementBelowWhatWasKnown(t *testing.T) {
	o := dataFolder{t.TempDir()}.mustOpen(t)
	o.calls(t, 0, 5)
	js, err := jetstream.New(o.Conn("admin"))
	if err != nil {
		t.Fatal(err)
	}
	recreateStream(t, js)
	if seq, err := o.journal.Append(t.Context(), bustest.CallRecord("again", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrDamaged) {
		t.Errorf("a call that is gone was stored again at %d: %v", seq, err)
	}
	reply := bustest.CallKey("").ReplyKey()
	if _, err := o.journal.AppendEvent(t.Context(), "rt", reply, events(1)); !errors.Is(err, message.ErrDamaged) {
		t.Errorf("an event: %v, want damaged", err)
	}
}

// A running watch ends when records are deleted.
func TestWatchEndsWhenRecordsAreLost(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		o := dataFolder{dir}.mustOpen(t)
		o.calls(t, 0, 5)
		done := make(chan error, 1)
		go func() { done <- o.journal.Watch(t.Context(), 0, bustest.NewSink()) }()
		synctest.Wait()
		js, err := jetstream.New(o.Conn("admin"))
		if err != nil {
			t.Fatal(err)
		}
		st, err := js.Stream(t.Context(), "ASKANCE_test")
		if err == nil {
			err = st.DeleteMsg(t.Context(), 2)
		}
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := <-done; !errors.Is(err, message.ErrDamaged) {
			t.Errorf("Watch: %v, want damaged", err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("noticed after %s", took)
		}
		o.Close()
	})
}

// An anchor may name a checkpoint beside which a server stored another one; see package proof.
func TestAnchorOfACheckpointWithARival(t *testing.T) {
	s := dataFolder{t.TempDir()}
	o := s.mustOpen(t)
	o.calls(t, 0, 2)
	o.sign(t)
	o.calls(t, 2, 2)
	o.sign(t)
	keys, nc := o.Keys(), o.Conn("another")
	sealed, err := proof.DecodeSealed(bustest.Genuine(t, nc, journal.LedgerName("test"), 2).Data)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := sealed.Entries()
	if err != nil {
		t.Fatal(err)
	}
	sealed.Checkpoint.Engine = "e2"
	if sealed, err = proof.Seal(sealed.Checkpoint, entries, keys.Signer()); err != nil {
		t.Fatal(err)
	}
	body, err := sealed.Encode()
	if err != nil {
		t.Fatal(err)
	}
	bustest.Store(t, nc, &nats.Msg{Subject: "askance.v1.test.proof.checkpoint", Data: body})
	o.stop(t)
	o = s.mustOpen(t)
	o.calls(t, 4, 1)
	o.sign(t)
	o.stop(t)
	o = s.mustOpen(t)
	l, err := journal.OpenLedger(t.Context(), o.journal, journal.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r := bustest.VerifyWith(t, l, toolcall.NewKeySet(keys.Public())); !r.OK || r.Checkpoints != 3 || len(r.Voids) != 1 {
		t.Errorf("verified %+v", r)
	}
	o.stop(t)
}

// An engine stops if its anchor file, or the whole data folder, is removed: nothing that it writes then
// is there after a restart.
func TestAnchorRemovedWhileOpen(t *testing.T) {
	for name, change := range map[string]func(d dataFolder) error{
		"removed": func(d dataFolder) error { return os.Remove(d.anchor()) },
		"replaced": func(d dataFolder) error {
			text, err := os.ReadFile(d.anchor())
			return errors.Join(err, os.Remove(d.anchor()), os.WriteFile(d.anchor(), text, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := dataFolder{bustest.Dir(t)}
			o := d.mustOpen(t)
			defer o.Close()
			o.calls(t, 0, 2)
			if err := o.journal.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := change(d); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
			defer cancel()
			if err := o.journal.Watch(ctx, 0, bustest.NewSink()); !errors.Is(err, message.ErrUnavailable) {
				t.Fatalf("watch: %v", err)
			}
			if _, err := o.journal.Append(t.Context(), bustest.CallRecord("x", bustest.CallKey("x"), message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrUnavailable) || !strings.Contains(err.Error(), "removed or replaced") {
				t.Errorf("append: %v", err)
			}
		})
	}
}
