package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	// exitDamaged is the exit code of an engine whose journal lost records.
	exitDamaged = 8
	// startLimit bounds the start of an engine on a damaged store.
	startLimit = 45 * time.Second
)

// damage is one way to damage the store of a stopped server.
type damage struct {
	name string
	// loses is set if records are certainly lost, so the engine must refuse. Otherwise the engine
	// may also serve if no call is missing.
	loses bool
	// forgets is set if nothing is left that names the lost calls: they can run again when an
	// operator has accepted the loss.
	forgets bool
	// do damages a store. It reports false if there is no such file.
	do func(s store) bool
}

// damages lists the ways to damage a store. Positions are in the journal's only block.
var damages = []damage{
	{"last byte cut", true, false, func(s store) bool { return s.cut(1) }},
	{"5 KB cut", true, false, func(s store) bool { return s.cut(5 << 10) }},
	{"40 KB cut", true, false, func(s store) bool { return s.cut(40 << 10) }},
	{"byte flipped in the middle", true, false, func(s store) bool { return s.flip(s.block(), 0.5) }},
	{"byte flipped near the end", true, false, func(s store) bool { return s.flip(s.block(), 0.999) }},
	{"byte flipped in the index", false, false, func(s store) bool { return s.flip(s.journal("msgs", "index.db"), 0.5) }},
	{"byte flipped in the meta file", false, false, func(s store) bool { return s.flip(s.journal("meta.inf"), 0.5) }},
	{"4 KB zeroed", true, false, store.zero},
	{"block deleted", true, false, func(s store) bool { return s.remove(s.block()) }},
	{"index deleted", false, false, func(s store) bool { return s.remove(s.journal("msgs", "index.db")) }},
	{"meta file deleted", false, false, func(s store) bool { return s.remove(s.journal("meta.inf")) }},
	{"consumers deleted", false, false, func(s store) bool { return s.remove(s.journal("obs")) }},
	{"consumer description damaged", false, false, func(s store) bool {
		return s.rewrite(s.journal("obs", "w_mail", "meta.inf"), func(b []byte) []byte { return bytes.Replace(b, []byte("ack_policy"), []byte("ack_polic}"), 1) })
	}},
	{"journal deleted", true, false, func(s store) bool { return s.remove(s.journal()) }},
	{"proof deleted", true, false, func(s store) bool { return s.remove(s.stream(journal.LedgerName(space))) }},
	{"journal and proof deleted", true, true, func(s store) bool {
		return s.remove(s.journal()) && s.remove(s.stream(journal.LedgerName(space)))
	}},
	{"store deleted", true, true, func(s store) bool { return s.remove(s.dir) }},
	{"garbage appended", false, false, store.garbage},
	{"byte flipped anywhere", false, false, store.flipAny},
	{"file cut anywhere", false, false, store.cutAny},
}

// TestDamagedJournal damages the store of an engine that was killed or stopped normally, in each
// of these ways. The engine then refuses to serve until an operator accepts the loss, or serves
// with nothing missing. The same calls proposed again never run twice.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{true, false} {
		name := "stopped"
		if killed {
			name = "killed"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := prepareStore(t, killed)
			t.Run("damage", func(t *testing.T) { // ends before the prepared folder is removed
				for _, d := range damages {
					t.Run(d.name, func(t *testing.T) {
						t.Parallel()
						before.damaged(t, d)
					})
				}
			})
		})
	}
}

// history is what was there before the damage.
type history struct {
	dir       string
	proposals []toolcall.ProposeRequest
	calls     map[toolcall.Key]*toolcall.Call
}

// prepareStore runs calls of all tools until each has ended or asks. All records are signed when
// the engine ends.
func prepareStore(t *testing.T, killed bool) history {
	t.Helper()
	w := newWorld(t)
	s := newStageIn(w, w.damageable())
	h := history{dir: w.dir, calls: map[toolcall.Key]*toolcall.Call{}}
	for i := range 12 {
		in := func(ask bool) effect.Input {
			return effect.Input{N: i, Ask: ask, Pad: s.text(1500)}
		}
		r := proposal("s", fmt.Sprintf("r%d", i), s.block("c0", post, in(false)), s.block("c1", mail, in(false)), s.block("c2", allTools[i%4], in(i%3 == 0)))
		_, err := s.bot.propose(r)
		s.must(err)
		h.proposals = append(h.proposals, r)
	}
	s.obs.await("all calls end or ask", s.mind, func() bool {
		all := s.obs.all()
		return len(all) == 3*len(h.proposals) && !slices.ContainsFunc(all, func(c *toolcall.Call) bool { return c.Open() && c.State != message.ToolCallAsking })
	})
	w.audit("checkpoint", "--nats", w.url, "--space", string(space), "--as", "auditor")
	for _, c := range s.obs.all() {
		h.calls[c.Key] = c
	}
	for _, p := range s.workers {
		p.kill()
	}
	if killed {
		s.engine.kill()
	} else {
		s.engine.stop()
	}
	s.onceAll()
	return h
}

// damageable describes an engine that signs often.
func (w *world) damageable() *process {
	w.t.Helper()
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(w.t))
	w.url = "nats://" + listen
	return w.serve("engine", "--listen", listen, "--checkpoint-records", "5")
}

// copyWorld returns a world with copies of all files of another one.
func copyWorld(t *testing.T, from string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), dice: newDice(t.Name(), "")}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || d.IsDir() {
			return errors.Join(err, os.MkdirAll(w.file(rel), 0o700))
		}
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(w.file(rel), data, 0o600)) // only their owner may read keys
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.keys, err = keyfile.LoadOrCreate(w.file("engine.key")); err != nil {
		t.Fatal(err)
	}
	w.tools(allTools...) // the file of the tools names the folder of the effects
	return w
}

// damaged runs one case of the table.
func (h history) damaged(t *testing.T, d damage) {
	w := copyWorld(t, h.dir)
	if !d.do(store{t, filepath.Join(w.file("data-engine"), "nats"), w.dice}) {
		t.Log("a killed server leaves no file of that kind")
		return
	}
	p := w.damageable()
	p.restarts = 0
	w.procs = nil // the engine may end
	p.start()
	if w.refused(p) {
		w.onceAll()
		if repaired := w.accepted(p); !d.forgets {
			w.repeated(p, h, repaired)
		}
		return
	}
	if d.loses {
		t.Errorf("records were lost, but the engine serves")
	}
	w.repeated(p, h, true)
}

// refused waits until an engine serves, or refuses to and says what is wrong.
func (w *world) refused(p *process) bool {
	w.t.Helper()
	code, ended := p.outcome(w.t)
	if !ended {
		return false
	}
	out := string(p.tail(16 << 10))
	if code != exitDamaged {
		w.t.Errorf("the engine ended with exit code %d, want %d", code, exitDamaged)
	}
	for _, hint := range []string{"askance journal check", "askance journal accept-loss"} {
		if !strings.Contains(out, hint) {
			w.t.Errorf("the engine does not say %q\n%s", hint, out)
		}
	}
	return true
}

// outcome waits until a process works, or has ended with an exit code.
func (p *process) outcome(t testing.TB) (code int, ended bool) {
	t.Helper()
	deadline := time.NewTimer(startLimit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * ms)
	defer tick.Stop()
	for {
		p.mu.Lock()
		l := p.life
		p.mu.Unlock()
		select {
		case <-l.done:
			p.kill() // so that it can be started again
			return l.cmd.ProcessState.ExitCode(), true
		case <-deadline.C:
			t.Fatalf("%s neither works nor ends within %s", p.name, startLimit)
		case <-tick.C:
		}
		data, err := os.ReadFile(p.out)
		if err == nil && bytes.Contains(data[max(bytes.LastIndex(data, []byte(lifeMark)), 0):], []byte(p.sign)) {
			return 0, false
		}
	}
}

// journalCommand runs askance journal on the folder of a stopped engine.
func (w *world) journalCommand(args ...string) (out string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	args = append(slices.Concat([]string{"journal"}, args), "--data", w.file("data-engine"), "--space", string(space), "--keys", w.file("engine.key"))
	stdout, stderr, err := command(ctx, args...)
	if ctx.Err() != nil {
		w.t.Fatalf("askance %v does not end", args)
	}
	return stdout + stderr, exitOf(err)
}

// accepted checks the journal and accepts the loss as an operator, and starts the engine again. It
// reports whether the command said that no record is missing.
func (w *world) accepted(p *process) (repaired bool) {
	w.t.Helper()
	out, code := w.journalCommand("check")
	if code == 0 {
		w.t.Errorf("journal check finds nothing wrong\n%s", out)
	}
	if out, code = w.journalCommand("accept-loss", "--by", operatorName, "--reason", "the disk failed", "--yes"); code == 3 && strings.Contains(out, "has no loss") {
		repaired = true
	} else if code != 0 {
		w.t.Fatalf("journal accept-loss: exit code %d\n%s", code, out)
	}
	if out, code = w.journalCommand("check"); code != 0 {
		w.t.Errorf("journal check after the loss was accepted: exit code %d\n%s", code, out)
	}
	p.start()
	if code, ended := p.outcome(w.t); ended {
		w.t.Fatalf("the engine does not serve after the loss was accepted: exit code %d\n%s", code, p.tail(4<<10))
	}
	if repaired {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	report, stderr, err := command(ctx, "audit", "verify", "--nats", w.url, "--space", string(space), "--as", "auditor", "--key", w.file("engine.pub"))
	if code := exitOf(err); code != 0 && code != 7 || !strings.Contains(report+stderr, operatorName) || !strings.Contains(report+stderr, "the disk failed") {
		w.t.Errorf("audit verify does not show the accepted loss: exit code %d\n%s%s", code, report, stderr)
	}
	return false
}

// repeated starts the workers and proposes the same calls again. If whole is set, every call must
// be as it was.
func (w *world) repeated(p *process, h history, whole bool) {
	w.t.Helper()
	bot := w.bot()
	if whole {
		w.intact(bot, h)
	}
	for _, tool := range remote {
		worker := w.worker("worker-"+tool, tool)
		worker.start()
		worker.up()
	}
	for _, r := range h.proposals {
		_, _, err := persist(requestLimit, "propose", func(ctx context.Context) (toolcall.ProposeReply, error) { return bot.Propose(ctx, r) })
		if err != nil && whole {
			w.t.Errorf("propose %s again: %v", r.Reply, err)
		}
	}
	eventually(w.t, "no call changes any more", func() bool {
		calls, err := bot.list(toolcall.ListRequest{Session: "s", All: true})
		return err == nil && !slices.ContainsFunc(calls, func(c *toolcall.Call) bool {
			return c.Open() && c.State != message.ToolCallAsking && c.State != message.ToolCallPending && c.Blocked == toolcall.NotBlocked
		})
	})
	if whole {
		w.intact(bot, h)
	}
	w.onceAll()
	p.stop()
}

// intact checks that every call is listed as it was.
func (w *world) intact(c client, h history) {
	w.t.Helper()
	calls, err := c.list(toolcall.ListRequest{Session: "s", All: true})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, now := range calls {
		was := h.calls[now.Key]
		if was == nil || now.State != was.State || now.Records != was.Records || now.Digest != was.Digest || now.Input != was.Input {
			w.t.Errorf("%s: the call is not as it was", describe(now))
		}
	}
	if len(calls) != len(h.calls) {
		w.t.Errorf("%d calls are listed, want %d", len(calls), len(h.calls))
	}
}

// onceAll checks that no tool ran twice for one call.
func (w *world) onceAll() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	release, err := effect.Idle(ctx, w.effects())
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = release() }()
	for _, file := range []string{effect.RunsFile, effect.EffectsFile} {
		twice, example := 0, effect.Mark{}
		for _, marks := range w.marks(file) {
			if len(marks) > 1 {
				twice++
				example = marks[1]
			}
		}
		if twice > 0 {
			w.t.Errorf("%s: %d calls ran twice, as %+v", file, twice, example)
		}
	}
}

// store is the folder of a server that is not running.
type store struct {
	t   testing.TB
	dir string
	*dice
}

// stream returns the folder of a stream in any account.
func (s store) stream(name string) string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "jetstream", "*", "streams", name))
	if err != nil || len(found) != 1 {
		s.t.Fatalf("the store has %d streams %s: %v", len(found), name, err)
	}
	return found[0]
}

func (s store) journal(path ...string) string {
	return filepath.Join(append([]string{s.stream(bus.StreamName(space))}, path...)...)
}

// block returns the file of the journal's only block of messages.
func (s store) block() string {
	s.t.Helper()
	found, err := filepath.Glob(s.journal("msgs", "*.blk"))
	if err != nil || len(found) != 1 {
		s.t.Fatalf("the journal has the blocks %v: %v", found, err)
	}
	return found[0]
}

// rewrite changes the bytes of a file.
func (s store) rewrite(path string, change func([]byte) []byte) bool {
	s.t.Helper()
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		err = os.WriteFile(path, change(data), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return true
}

func (s store) cut(n int) bool {
	return s.rewrite(s.block(), func(b []byte) []byte { return b[:len(b)-n] })
}

// flip changes one bit at a place of the file.
func (s store) flip(path string, place float64) bool {
	return s.rewrite(path, func(b []byte) []byte {
		b[int(float64(len(b))*place)] ^= 4
		return b
	})
}

// anyFile returns one of the store's files that are not empty.
func (s store) anyFile() string {
	s.t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(s.dir, "jetstream"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > 0 {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		s.t.Fatalf("the store has %d files: %v", len(files), err)
	}
	file := files[s.pick(len(files))]
	s.t.Logf("to repeat: %s=%d; the file is %s", seedVar, seed, file)
	return file
}

func (s store) flipAny() bool { return s.flip(s.anyFile(), float64(s.pick(1e6))/1e6) }

func (s store) cutAny() bool {
	return s.rewrite(s.anyFile(), func(b []byte) []byte { return b[:s.pick(len(b))] })
}

func (s store) zero() bool {
	return s.rewrite(s.block(), func(b []byte) []byte {
		clear(b[len(b)/2:][:4<<10])
		return b
	})
}

func (s store) garbage() bool {
	return s.rewrite(s.block(), func(b []byte) []byte { return append(b, bytes.Repeat([]byte("garbage "), 40)...) })
}

func (s store) remove(path string) bool {
	s.t.Helper()
	if _, err := os.Stat(path); err != nil {
		return false
	}
	if err := os.RemoveAll(path); err != nil {
		s.t.Fatal(err)
	}
	return true
}

// losses are the ways in which a server can lose records, of a running or a stopped engine.
var losses = []struct {
	name string
	do   func(w *world, nats *process)
}{
	{"server restarted on a cut store", func(w *world, nats *process) {
		nats.kill()
		store{w.t, w.file("store"), w.dice}.cut(20 << 10)
		nats.start()
		nats.up()
	}},
	{"journal purged", func(w *world, _ *process) {
		w.onStream(func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx) })
	}},
	{"records purged", func(w *world, _ *process) {
		w.onStream(func(ctx context.Context, s jetstream.Stream) error {
			return s.Purge(ctx, jetstream.WithPurgeSequence(10))
		})
	}},
	{"record deleted", func(w *world, _ *process) {
		w.onStream(func(ctx context.Context, s jetstream.Stream) error { return s.DeleteMsg(ctx, 5) })
	}},
}

// onStream changes the journal in a way that no user of askance can.
func (w *world) onStream(do func(context.Context, jetstream.Stream) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nc := w.connect("vandal")
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		var s jetstream.Stream
		if s, err = js.Stream(ctx, bus.StreamName(space)); err == nil {
			err = do(ctx, s)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestLossUnderEngine makes a NATS server lose records while an engine runs, and while it is
// stopped. The engine refuses to continue or to start, and the same calls proposed again do not
// run.
func TestLossUnderEngine(t *testing.T) {
	t.Parallel()
	for _, l := range losses {
		for _, alive := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/alive=%t", l.name, alive), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				nats := w.external(0)
				nats.start()
				nats.up()
				s := newStageIn(w, w.replica("engine"))
				var proposals []toolcall.ProposeRequest
				for i := range 8 {
					r := proposal("s", fmt.Sprintf("r%d", i), s.block("c0", post, effect.Input{N: i, Pad: s.text(1000)}), s.block("c1", mail, effect.Input{N: i}))
					_, err := s.bot.propose(r)
					s.must(err)
					proposals = append(proposals, r)
				}
				s.rest()
				s.obs.leave()
				w.procs = nil // the processes may end
				s.engine.restarts = 0
				if !alive {
					s.engine.stop()
				}
				l.do(w, nats)
				if !alive {
					s.engine.start()
				}
				for _, r := range proposals { // refused, not answered, or answered as before
					ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
					_, _ = s.bot.Propose(ctx, r)
					cancel()
				}
				if code, ended := s.engine.ends(startLimit); !ended || code != exitDamaged {
					t.Errorf("the journal lost records: the engine ended %t with exit code %d, want %d", ended, code, exitDamaged)
				}
				w.onceAll()
			})
		}
	}
}

// ends waits for the end of a process.
func (p *process) ends(limit time.Duration) (code int, ended bool) {
	p.mu.Lock()
	l := p.life
	p.mu.Unlock()
	select {
	case <-l.done:
		return l.cmd.ProcessState.ExitCode(), true
	case <-time.After(limit):
		return 0, false
	}
}

// exitOf returns the exit code of a command.
func exitOf(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
