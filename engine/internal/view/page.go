package view

import (
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// maxListBytes bounds a page of calls with large arguments and results, about.
const maxListBytes = 2 << 20

// Page is a page of a list.
type Page struct {
	Limit int
	bytes int
	calls []*toolcall.Call
	more  bool
}

// Add adds the next call and reports whether the page may take another.
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

// Reply is the page as a reply.
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
			default: // small, or not in a result
			}
		}
	}
	return n
}

// IsListed reports whether a list request asks for a call, as by may see it.
func IsListed(c *toolcall.Call, by toolcall.Principal, r toolcall.ListRequest) bool {
	switch {
	case by.Role == toolcall.RoleRuntime && c.Runtime != by.Name,
		r.Session != "" && c.Session != r.Session,
		r.Reply != "" && c.Reply != r.Reply,
		r.Call != "" && c.Call != r.Call,
		r.Tool != "" && c.Tool != r.Tool,
		r.Agent != "" && c.Agent != r.Agent,
		!c.Open() && !WantsFinished(r),
		len(r.Phases) > 0 && !slices.Contains(r.Phases, c.Phase()),
		len(r.States) > 0 && !slices.Contains(r.States, c.State):
		return false
	}
	return true
}

// WantsFinished reports whether a list request asks for finished calls too.
func WantsFinished(r toolcall.ListRequest) bool {
	return r.All || slices.Contains(r.States, message.ToolCallFinished) || slices.Contains(r.Phases, toolcall.PhaseFinished)
}
