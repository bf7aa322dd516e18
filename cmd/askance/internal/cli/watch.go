package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/toolcall"
)

const (
	// watchEvery is how often a list is read without news.
	watchEvery = 3 * time.Second
	// watchPause collects the changes of one moment.
	watchPause = 150 * time.Millisecond
)

// watch follows a list until ctx ends: on a terminal the list itself, else a line for
// each change.
func (l *listing) watch(ctx context.Context) error {
	env := l.env
	c, err := env.connectLive(ctx, l.role())
	if err != nil {
		return err
	}
	defer c.Close()
	news := make(chan struct{}, 1)
	if client, ok := c.Client.(*bus.Client); ok {
		stop, err := client.OnHint(ctx, func(bus.Hint) {
			select {
			case news <- struct{}{}:
			default:
			}
		})
		if err == nil { // a login that cannot hear of changes still reads them
			defer stop()
		}
	}
	show := l.changes(ctx, c)
	if !env.json && env.format != formatName && env.out.Terminal() {
		show = l.screen
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		reply, err := l.read(ctx, c)
		if err == nil {
			err = show(reply.Calls)
		}
		if ctx.Err() != nil {
			return ended(context.Cause(ctx))
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ended(context.Cause(ctx))
		case <-tick.C:
		case <-news:
			select {
			case <-ctx.Done():
			case <-time.After(watchPause):
			}
		}
	}
}

// screen shows the list in the place of the one before.
func (l *listing) screen(calls []*toolcall.Call) error {
	const wipe = "\x1b[H\x1b[2J"
	out := l.env.out
	head := out.Dim(fmt.Sprintf("%s, at %s. Ctrl-C ends.", count(uint64(len(calls)), "call", "calls"), time.Now().Format(time.TimeOnly)))
	lines := strings.SplitAfter(l.text(calls), "\n")
	if most := out.Height() - 3; len(lines)-1 > most && most > 0 {
		lines = append(lines[:most], out.Dim(fmt.Sprintf("… and %d more", len(calls)-most+1))+"\n")
	}
	if len(calls) == 0 {
		lines = nil
	}
	_, err := io.WriteString(out, wipe+head+"\n\n"+strings.Join(lines, ""))
	return err
}

// changes prints the calls at first and then each one that changed or left the list.
func (l *listing) changes(ctx context.Context, c *link) func([]*toolcall.Call) error {
	type version struct {
		records int
		phase   toolcall.Phase
	}
	var seen map[toolcall.Key]version
	return func(calls []*toolcall.Call) error {
		now := make(map[toolcall.Key]version, len(calls))
		var changed []*toolcall.Call
		for _, call := range calls {
			v := version{call.Records, call.Phase()}
			if now[call.Key] = v; seen[call.Key] != v {
				changed = append(changed, call)
			}
		}
		for key := range seen {
			if _, ok := now[key]; ok {
				continue
			}
			r, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: key})
			if err != nil {
				return err
			}
			changed = append(changed, r.Call)
		}
		seen = now
		for _, call := range changed {
			if err := l.printChange(call); err != nil {
				return err
			}
		}
		return nil
	}
}

func (l *listing) printChange(c *toolcall.Call) error {
	env := l.env
	switch {
	case env.json:
		return env.printItem(c)
	case env.format == formatName:
		return env.printf("%s\n", term.SafeLine(string(c.Call)))
	}
	return env.printf("%s  %s  %s  %s\n", time.Now().Format(time.TimeOnly), phasePaint(env.out, c)(fmt.Sprintf("%-8s", statusOf(c))), env.out.Name(term.SafeLine(string(c.Call))), summaryOf(c))
}
