package engine

import (
	"context"

	"github.com/askance-dev/askance/message"
)

// ListAll reads the pages of a list, one after the other, until there are no
// more. most, if it is above 0, bounds it: no page is read once there are so many
// calls. On an error there are none.
func ListAll(ctx context.Context, c Client, r message.ListRequest, most int) ([]*message.Call, error) {
	var out []*message.Call
	for {
		page, err := c.List(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Calls...)
		if page.Next == 0 || most > 0 && len(out) >= most {
			return out, nil
		}
		r.After = page.Next
	}
}
