package view

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// maxListBytes is roughly the limit for a page of calls with large arguments and results.
const maxListBytes = 2 << 20

// Page is a page of a list.
type Page struct {
	Limit int
	bytes int
	calls []*toolcall.Call
	more  bool
}

// Add adds the next call and reports whether the page has room for another.
func (p *Page) Add(c *toolcall.Call) bool {
	n := listBytes(c)
	if len(p.calls) == p.Limit || len(p.calls) > 0 && p.bytes+n > maxListBytes {
		p.more = true
		return false
	}
	p.bytes += n
	p.calls = append(p.calls, c)
	return true
}

// Reply returns the page as a reply.
func (p *Page) Reply() toolcall.ListReply {
	out := toolcall.ListReply{Calls: p.calls}
	if p.more {
		out.Next = p.calls[len(p.calls)-1].First
	}
	if out.Calls == nil {
		out.Calls = []*toolcall.Call{}
	}
	return out
}

// Newest returns the page of a list with the latest finished call first; next is its cursor.
func (p *Page) Newest(next uint64) toolcall.ListReply {
	out := p.Reply()
	out.Next = next
	return out
}

// listBytes estimates the size of a call in a reply.
func listBytes(c *toolcall.Call) int {
	n := 1024 + len(c.Input)
	if req := c.Request; req != nil {
		n += len(req.Input) + len(req.Text) + len(req.Reason)
	}
	for _, v := range c.Votes {
		n += len(v.Feedback) + len(v.Note)
	}
	if r := c.Result; r != nil {
		n += len(r.Output.Text)
		for _, b := range r.Output.Blocks {
			switch b := b.(type) {
			case *message.TextBlock:
				n += len(b.Text)
			case *message.DataBlock:
				if s, ok := b.Source.(*message.Base64Source); ok {
					n += len(s.Data)
				}
			default: // small, or never in a result
			}
		}
	}
	return n
}

// longestText is the longest input of a call whose text is kept.
const longestText = 4 << 10

// texts keeps the texts that searches read, because to build a text takes much longer than
// to search it. The zero value is empty.
type texts struct {
	mu    sync.Mutex // held by one search at a time
	known map[uint64]text
}

// text is the lower-case text of a call in which words are searched.
type text struct {
	call  *toolcall.Call
	whole string
	shown string // for readers who may not see redacted values
}

// textOfCall returns the text of a call that is in the view. t.mu is held.
func (t *texts) textOfCall(c *toolcall.Call, first uint64, line func(c, shown *toolcall.Call) string) text {
	if known := t.known[first]; known.call == c {
		return known
	}
	x := textOf(c, line)
	if len(c.Input) <= longestText {
		t.known[first] = x
	}
	return x
}

// limitTo drops all texts if there are many more texts than calls. t may be nil.
func (t *texts) limitTo(calls int) {
	if t != nil && (t.known == nil || len(t.known) > 2*calls+1024) {
		t.known = make(map[uint64]text, calls)
	}
}

// PrepareSearch builds the texts of the open calls, so that the first search after a start
// is as fast as later ones. line is that of [Help]. Searches continue meanwhile.
func (v *View) PrepareSearch(ctx context.Context, line func(c, shown *toolcall.Call) string) {
	calls := v.OpenCalls()
	for some := range slices.Chunk(calls, 100) {
		if ctx.Err() != nil {
			return
		}
		v.texts.mu.Lock()
		v.texts.limitTo(len(calls))
		for _, c := range some {
			v.texts.textOfCall(c, c.First, line)
		}
		v.texts.mu.Unlock()
	}
}

func textOf(c *toolcall.Call, line func(c, shown *toolcall.Call) string) text {
	x := text{call: c, whole: joinText(c, line(c, c))}
	x.shown = x.whole
	if c.Hides() {
		shown := c.Redacted()
		x.shown = joinText(shown, line(c, shown))
	}
	return x
}

// joinText separates the parts by newlines, which no search word contains.
func joinText(c *toolcall.Call, line string) string {
	parts := []string{c.Input, c.Tool, string(c.Session), string(c.Reply), string(c.Call), c.Agent, c.Runtime, c.DecidingRule(), line}
	if p := c.Parent; p != nil {
		parts = append(parts, string(p.Session), string(p.Reply), string(p.Call))
	}
	return strings.ToLower(strings.Join(parts, "\n"))
}
