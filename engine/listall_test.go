package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// paged is a client whose list has two calls a page, ten altogether.
type paged struct {
	engine.Client
	fails uint64 // the page that cannot be read
	read  int
}

func (p *paged) List(_ context.Context, r message.ListRequest) (message.ListReply, error) {
	if p.read++; p.fails != 0 && r.After == p.fails {
		return message.ListReply{}, message.ErrUnavailable
	}
	out := message.ListReply{Calls: []*message.Call{{First: r.After + 1}, {First: r.After + 2}}}
	if r.After < 8 {
		out.Next = r.After + 2
	}
	return out, nil
}

func TestListAll(t *testing.T) {
	for _, tc := range []struct {
		most, calls, pages int
	}{{0, 10, 5}, {1, 2, 1}, {2, 2, 1}, {3, 4, 2}, {100, 10, 5}} {
		c := &paged{}
		all, err := engine.ListAll(t.Context(), c, message.ListRequest{Session: "s"}, tc.most)
		if err != nil || len(all) != tc.calls || c.read != tc.pages {
			t.Errorf("at most %d: %d calls of %d pages, %v; want %d of %d", tc.most, len(all), c.read, err, tc.calls, tc.pages)
		}
		for i, call := range all {
			if call.First != uint64(i+1) {
				t.Errorf("call %d is %d", i+1, call.First)
			}
		}
	}
	if all, err := engine.ListAll(t.Context(), &paged{fails: 4}, message.ListRequest{}, 0); !errors.Is(err, message.ErrUnavailable) || all != nil {
		t.Errorf("a page that cannot be read: %v, %v", all, err)
	}
}
