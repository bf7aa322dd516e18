package inbox

import (
	"context"
	"slices"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// recentRecords is how many event records back the list of resolved calls reaches in a
// long journal.
const recentRecords = 6000

// lately gives the finished calls of late, the newest first.
func lately(ctx context.Context, c engine.Client) ([]*message.Call, error) {
	r := message.ListRequest{V: 1, All: true, States: []message.ToolCallState{message.ToolCallFinished}}
	page, err := c.List(ctx, r)
	if err != nil {
		return nil, err
	}
	out := page.Calls
	if page.Next != 0 {
		head, err := lastProposed(ctx, c, r, page.Next)
		if err != nil {
			return nil, err
		}
		if r.After = page.Next; head > recentRecords && head-recentRecords > r.After {
			r.After, out = head-recentRecords, nil
		}
		rest, err := engine.ListAll(ctx, c, r, maxListed)
		if err != nil {
			return nil, err
		}
		out = append(out, rest...)
	}
	slices.SortStableFunc(out, func(a, b *message.Call) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return out, nil
}

// lastProposed looks for the place of the call that was proposed last: lists
// begin at a place, and the journal may be long.
func lastProposed(ctx context.Context, c engine.Client, r message.ListRequest, known uint64) (uint64, error) {
	r.Limit = 1
	beyond := func(at uint64) (uint64, error) {
		r.After = at
		page, err := c.List(ctx, r)
		if err != nil || len(page.Calls) == 0 {
			return 0, err
		}
		return page.Calls[0].First, nil
	}
	low, step := known, uint64(recentRecords)
	for { // the first place beyond which there is nothing
		next, err := beyond(low + step)
		if err != nil {
			return 0, err
		}
		if next == 0 {
			break
		}
		low, step = next, step*2
	}
	for step > recentRecords/2 {
		step /= 2
		next, err := beyond(low + step)
		if err != nil {
			return 0, err
		}
		if next != 0 {
			low = next
		}
	}
	return low + step, nil
}
