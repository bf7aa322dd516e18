package view

import (
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
	if q := c.Request; q != nil {
		n += len(q.Input) + len(q.Text) + len(q.Reason)
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
