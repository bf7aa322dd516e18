package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/inbox"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	// watchEvery is how often a list is read without hints of changes.
	watchEvery = 3 * time.Second
	// watchPause collects the changes of one moment.
	watchPause = 150 * time.Millisecond
)

// watch follows a list until ctx ends: on a terminal the list itself, else a line for each change.
func (l *listing) watch(ctx context.Context) error {
	env := l.env
	c, err := env.connectLive(ctx, l.role())
	if err != nil {
		return err
	}
	defer c.Close()
	news := make(chan toolcall.Key, 1024)
	if client, ok := c.Client.(*bus.Client); ok {
		stop, err := client.OnHint(ctx, func(h bus.Hint) {
			select {
			case news <- h.Key:
			default: // too many: the next list shows the change
			}
		})
		if err == nil { // a login that gets no hints still reads the list
			defer stop()
		}
	}
	show := (&changes{l: l, c: c, ids: map[message.CallID]toolcall.Key{}}).show
	if !env.json && env.format != formatName && env.out.Terminal() {
		show = func(ctx context.Context, _ []toolcall.Key) error { return l.screen(ctx, c) }
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var hinted []toolcall.Key
	for {
		err := show(ctx, hinted)
		if ctx.Err() != nil {
			return ended(context.Cause(ctx))
		}
		if err != nil {
			return err
		}
		hinted = nil
		select {
		case <-ctx.Done():
			return ended(context.Cause(ctx))
		case <-tick.C:
		case key := <-news:
			hinted = inbox.Gather(ctx, key, news, watchPause)
		}
	}
}

// screen replaces the list on the screen, with as many lines as fit.
func (l *listing) screen(ctx context.Context, c *link) error {
	const wipe = "\x1b[H\x1b[2J"
	out, part := l.env.out, *l
	most := out.Height() - 3
	if most > 0 && (l.limit == 0 || l.limit > most) {
		part.limit = most
	}
	reply, err := part.read(ctx, c)
	if err != nil {
		return err
	}
	n := len(reply.Calls)
	if n == part.limit && n > 0 {
		if n, err = l.total(ctx, c, n); err != nil {
			return err
		}
	}
	head := out.Dim(fmt.Sprintf("%s, at %s. Ctrl-C ends.", count(uint64(n), "call", "calls"), time.Now().Format(time.TimeOnly)))
	lines := strings.SplitAfter(l.text(reply.Calls), "\n")
	if len(lines)-1 > most && most > 0 {
		lines = append(lines[:most], out.Dim(fmt.Sprintf("… and %d more", n-most+1))+"\n")
	}
	if n == 0 {
		lines = nil
	}
	_, err = io.WriteString(out, wipe+head+"\n\n"+strings.Join(lines, ""))
	return err
}

// total counts the calls of the list; n of them fit on the screen.
func (l *listing) total(ctx context.Context, c *link, n int) (int, error) {
	r := l.r
	r.Limit = 1
	page, err := c.List(ctx, r)
	if err != nil || page.Counts == nil { // a list that reads the journal has none
		return n, err
	}
	all := l.countMatches(page.Counts)
	if l.limit > 0 {
		all = min(all, l.limit)
	}
	return max(all, n), nil
}

// countMatches adds up the phases that are listed.
func (l *listing) countMatches(counts map[toolcall.Phase]int) (n int) {
	for phase, of := range counts {
		if len(l.r.Phases) == 0 || slices.Contains(l.r.Phases, phase) {
			n += of
		}
	}
	return n
}

// changes prints the calls of a list, and then each one that changed or left the list.
type changes struct {
	l       *listing
	c       *link
	seen    map[toolcall.Key]version        // calls of the list
	ids     map[message.CallID]toolcall.Key // the first call with an id; the zero key if several had it
	through uint64                          // every change up to this sequence was seen
	off     bool                            // the last count differed from the calls that were seen
}

type version struct {
	records int
	phase   toolcall.Phase
}

// show prints what changed. hinted are calls that changed according to hints.
func (w *changes) show(ctx context.Context, hinted []toolcall.Key) error {
	l := w.l
	if w.seen == nil || l.limit > 0 || l.r.All || l.wantsFinished() {
		return w.showAll(ctx)
	}
	last, err := w.showChanged(ctx)
	if err != nil {
		return err
	}
	for _, key := range hinted {
		was, known := w.seen[key]
		if !known || slices.ContainsFunc(last.Calls, func(c *toolcall.Call) bool { return c.Key == key }) {
			continue // it did not leave the list
		}
		if err := w.showLeft(ctx, key, was); err != nil {
			return err
		}
	}
	was := w.off
	if w.off = l.countMatches(last.Counts) != len(w.seen); w.off && was { // changes were missed
		return w.showAll(ctx)
	}
	return nil
}

// showChanged prints the calls of the list that changed, and returns the last page of them.
func (w *changes) showChanged(ctx context.Context) (page toolcall.ListReply, err error) {
	r := w.l.r
	r.Sort, r.After = toolcall.SortChanged, w.through
	for {
		if page, err = w.c.List(ctx, r); err != nil {
			return page, err
		}
		for _, call := range page.Calls {
			r.After = call.Seq
			if !w.note(call) {
				continue
			}
			if err := w.printChange(call); err != nil {
				return page, err
			}
		}
		if page.Next == 0 {
			w.through = r.After
			return page, nil
		}
	}
}

// note records a call of the list, and reports whether it is new or changed.
func (w *changes) note(c *toolcall.Call) bool {
	v := version{c.Records, c.Phase()}
	was, known := w.seen[c.Key]
	w.seen[c.Key] = v
	w.noteID(c)
	return !known || was != v
}

// showLeft prints a call that was on the list, if it has changed since.
func (w *changes) showLeft(ctx context.Context, key toolcall.Key, was version) error {
	r, err := w.c.Show(ctx, toolcall.ShowRequest{V: 1, Key: key})
	if err != nil || was == (version{r.Call.Records, r.Call.Phase()}) {
		return err
	}
	delete(w.seen, key)
	return w.printChange(r.Call)
}

func (w *changes) showAll(ctx context.Context) error {
	r := w.l.r
	r.Sort, r.Limit = "-"+toolcall.SortChanged, 1
	if last, err := w.c.List(ctx, r); err == nil && len(last.Calls) > 0 { // changes that are stored while the list is read come after this one
		w.through = last.Calls[0].Seq
	}
	reply, err := w.l.read(ctx, w.c)
	if err != nil {
		return err
	}
	for _, call := range reply.Calls {
		w.noteID(call)
	}
	before := w.seen
	w.seen, w.off = make(map[toolcall.Key]version, len(reply.Calls)), false
	for _, call := range reply.Calls {
		was, known := before[call.Key]
		w.note(call)
		if known && was == w.seen[call.Key] {
			continue
		}
		if err := w.printChange(call); err != nil {
			return err
		}
	}
	for key, was := range before {
		if _, stays := w.seen[key]; !stays {
			if err := w.showLeft(ctx, key, was); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteID notes which calls share an id.
func (w *changes) noteID(c *toolcall.Call) {
	if first, known := w.ids[c.Call]; !known {
		w.ids[c.Call] = c.Key
	} else if first != c.Key {
		w.ids[c.Call] = toolcall.Key{}
	}
}

func (w *changes) printChange(c *toolcall.Call) error {
	env := w.l.env
	switch {
	case env.json:
		return env.printItem(c)
	case env.format == formatName:
		return env.printf("%s\n", keyName(c.Key))
	}
	id := string(c.Call)
	if w.ids[c.Call] == (toolcall.Key{}) {
		id = keyPath(c.Key)
	}
	return env.printf("%s  %s  %s  %s\n", time.Now().Format(time.TimeOnly), phasePaint(env.out, c)(fmt.Sprintf("%-8s", statusOf(c))), env.out.Name(term.SafeLine(id)), term.SafeLine(c.Summary))
}
